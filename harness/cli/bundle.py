"""`harness bundle`: evidence in one signed file, and the check that it is still what was signed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from harness.bundle.audit_logs import AuditLogs

HELP = """Put a run into one signed archive, check such an archive offline, or make a pair of keys.

The archive holds evidence, results, drift, the gateway's signed audit log with its checkpoints, and environment, and a signed statement of
their hashes. `verify` judges the evidence again, compares byte for byte, and checks the gateway's signatures; one altered bit, or another
signer, is exit code 1.

\b
Examples:
  harness bundle keygen --output release-key
  harness bundle reports/latest --key release-key.key --output run.bundle.zip
  harness bundle verify run.bundle.zip --key release-key.pub
  harness bundle verify run.bundle.zip --key release-key.pub --gateway-key gateway.pub
"""

EPILOG = "Exit codes: 0 done or genuine, 1 tampered with, 2 a file or key cannot be read or written, 5 evidence that was cut short."


def bundle(
    what: Annotated[list[str], typer.Argument(metavar="RUN | verify FILE | keygen", help="A run's folder; or verify and a bundle; or keygen.")],
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The private key to sign with; with verify, the signer's public key.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="The bundle; with keygen, the keys without suffix.")] = None,
    gateway_key: Annotated[
        str | None,
        typer.Option(metavar="KEY|FILE", help="With verify: the gateway's public key; default: the one that the run was told when it began."),
    ] = None,
) -> int:
    from harness.errors import UsageError

    if what == ["keygen"]:
        return _keygen(output or Path("harness-bundle"))
    if what[0] == "verify" and len(what) == 2:
        return _verify(Path(what[1]), _needed(key, "--key", "give the signer's public key"), gateway_key)
    if len(what) == 1 and what[0] != "verify":
        return _make(Path(what[0]), _needed(key, "--key", "make one with `harness bundle keygen`"), _needed(output, "--output", "name the file"))
    raise UsageError(f"{' '.join(what)!r} is not RUN, verify FILE or keygen", where="bundle", fix="see `harness bundle --help`")


def _needed(value: Path | None, option: str, fix: str) -> Path:
    from harness.errors import UsageError

    if value is None:
        raise UsageError(f"{option} is missing", where="bundle", fix=fix)
    return value


def _keygen(stem: Path) -> int:
    from harness.bundle.envelope import key_id, make_keys
    from harness.cli.console import say
    from harness.keys import public_key

    private, public = make_keys(stem)
    made = public_key(public, where=str(public), fix="make another pair")
    say(f"private key: {private} (keep it to yourself)\npublic key:  {public}\nkey id:      {key_id(made)}")
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
    sealed = make_bundle(evidence, signer, str(path))
    write_bytes(output, sealed.content)
    say(f"wrote {output}")
    _say_audit(sealed.audit)
    return 0


def _verify(path: Path, key: Path, gateway: str | None) -> int:
    from harness.bundle.sealing import read_bundle, verify_bundle
    from harness.cli.console import say
    from harness.keys import encoded, public_key
    from harness.report.inert import one_line
    from harness.report.reading import answer, counts_line

    signer = public_key(key, where="--key", fix="give the .pub file of who signed it")
    fix = "give what GET /operator/v1/audit/key answers, or a file that holds it or PEM"
    theirs = encoded(public_key(gateway, where="--gateway-key", fix=fix)) if gateway is not None else None
    found = verify_bundle(read_bundle(path), signer, theirs)
    results = found.results
    say(one_line(results.level_line))
    say(f"genuine: {path} is what {found.signer} signed, and its verdicts follow from its evidence\nsha256: {found.sha256}")
    _say_audit(found.audit)
    say(f"run {one_line(results.run)}: {counts_line(results)}\n{answer(results)}")
    return 0


def _say_audit(audit: AuditLogs) -> None:
    from harness.cli.console import say
    from harness.report.inert import one_line

    for line in audit.lines():
        say(f"audit: {one_line(line)}")


def register(app: typer.Typer) -> None:
    app.command("bundle", help=HELP, epilog=EPILOG)(bundle)
