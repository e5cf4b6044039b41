"""`harness bundle`: evidence in one signed file, and the check that it is still what was signed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Put a run into one signed archive, check such an archive offline, or make a pair of keys.

The archive holds evidence, results, drift, audit checkpoints and environment, and a signed statement of their hashes. `verify` judges the
evidence again and compares byte for byte; one altered bit, or another signer, is exit code 1.

\b
Examples:
  harness bundle keygen --output release-key
  harness bundle reports/latest --key release-key.key --output run.bundle.zip
  harness bundle verify run.bundle.zip --key release-key.pub
"""

EPILOG = "Exit codes: 0 done or genuine, 1 tampered with, 2 a file or key cannot be read or written, 5 evidence that was cut short."


def bundle(
    what: Annotated[list[str], typer.Argument(metavar="RUN | verify FILE | keygen", help="A run's folder; or verify and a bundle; or keygen.")],
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The private key to sign with; with verify, the signer's public key.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The bundle; with keygen, the keys without suffix.")] = None,
) -> int:
    from harness.errors import UsageError

    if what == ["keygen"]:
        return _keygen(output or Path("harness-bundle"))
    if what[0] == "verify" and len(what) == 2:
        return _verify(Path(what[1]), _needed(key, "--key", "give the signer's public key"))
    if len(what) == 1 and what[0] != "verify":
        return _make(Path(what[0]), _needed(key, "--key", "make one with `harness bundle keygen`"), _needed(output, "--output", "name the file"))
    raise UsageError(f"{' '.join(what)!r} is not RUN, verify FILE or keygen", where="bundle", fix="see `harness bundle --help`")


def _needed(value: Path | None, option: str, fix: str) -> Path:
    from harness.errors import UsageError

    if value is None:
        raise UsageError(f"{option} is missing", where="bundle", fix=fix)
    return value


def _keygen(stem: Path) -> int:
    from harness.bundle.envelope import key_id, make_keys, public_key
    from harness.cli.console import say

    private, public = make_keys(stem)
    say(f"private key: {private} (keep it to yourself)\npublic key:  {public}\nkey id:      {key_id(public_key(public))}")
    return 0


def _make(run: Path, key: Path, output: Path) -> int:
    from harness.bundle.envelope import private_key
    from harness.bundle.sealing import make_bundle, refuse_overwriting
    from harness.claims.runs import evidence_path
    from harness.cli.console import say
    from harness.errors import LoadError
    from harness.report.write import write_bytes

    refuse_overwriting(output)
    signer = private_key(key)
    path = evidence_path(run)
    try:
        evidence = path.read_bytes()
    except OSError as error:
        raise LoadError(f"the evidence cannot be read: {error.strerror}", where=str(path), fix="give the folder of a run") from error
    write_bytes(output, make_bundle(evidence, signer, str(path)))
    say(f"wrote {output}")
    return 0


def _verify(path: Path, key: Path) -> int:
    from harness.bundle.envelope import public_key
    from harness.bundle.sealing import read_bundle, verify_bundle
    from harness.cli.console import say
    from harness.report.inert import one_line
    from harness.report.reading import answer, counts_line

    found = verify_bundle(read_bundle(path), public_key(key))
    results = found.results
    say(one_line(results.level_line))
    say(f"genuine: {path} is what {found.signer} signed, and its verdicts follow from its evidence\nsha256: {found.sha256}")
    say(f"run {one_line(results.run)}: {counts_line(results)}\n{answer(results)}")
    return 0


def register(app: typer.Typer) -> None:
    app.command("bundle", help=HELP, epilog=EPILOG)(bundle)
