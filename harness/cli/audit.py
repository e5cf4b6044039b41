"""`harness audit`: an exported log, verified offline."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

GROUP = """Check a gateway's exported audit log, offline.

\b
Examples:
  harness audit verify audit.jsonl --key gateway.pub
"""
HELP = """Say whether an exported audit log is what the gateway wrote, whole and unaltered.

FILE is what GET /operator/v1/audit/export answered. Edited, removed, inserted, exchanged and reordered records, a cut end, a log written
anew and an earlier log in place of a later one are found; the last two need --key and --checkpoints.

A part of a log (GET /operator/v1/audit/export?after=N&until=M) must follow from a checkpoint that you know: name it with --after, as the
number of a record that --checkpoints has one of, or as a file that ends with it, such as the export of the part before.

\b
Examples:
  harness audit verify audit.jsonl --key gateway.pub
  harness audit verify audit.jsonl --key gateway.pub --checkpoints checkpoints.jsonl
  harness audit verify part2.jsonl --key gateway.pub --after part1.jsonl
"""

EPILOG = "Exit codes: 0 it is, 1 it is not, 2 unreadable file or key, 5 we could not tell (no --key)."


def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The exported log.")],
    key: Annotated[str | None, typer.Option(metavar="KEY|FILE", help="The gateway's public key, base64 or PEM.")] = None,
    checkpoints: Annotated[Path | None, typer.Option(metavar="FILE", help="Checkpoints that were kept outside the store.")] = None,
    after: Annotated[
        str | None, typer.Option(metavar="SEQ|FILE", help="FILE is the part after this record, or after the checkpoint at the end of this file.")
    ] = None,
    previous_key: Annotated[list[str] | None, typer.Option(metavar="KEY|FILE", help="A key that it signed with before --key; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    import json as jsons

    from harness.audit.read import read_begun, read_export, read_marks
    from harness.audit.verify import verify as judged
    from harness.cli.console import say, say_json
    from harness.errors import Exit
    from harness.keys import encoded, public_key
    from harness.report.inert import visible

    fix = "give what GET /operator/v1/audit/key answers, or a file that holds it or PEM"
    public = encoded(public_key(key, where="--key", fix=fix)) if key is not None else None
    previous = [encoded(public_key(each, where="--previous-key", fix=fix)) for each in previous_key or ()]
    log = read_export(file)
    kept = read_marks(checkpoints) if checkpoints is not None else ()
    begun = read_begun(after, kept) if after is not None else None
    findings = judged(log, str(file), key=public, previous=previous, kept=kept, begun=begun)
    severities = {finding.severity for finding in findings}
    code = Exit.FAILED if "fail" in severities else Exit.INCOMPLETE if findings else Exit.OK
    if json:
        document = {"schema": "audit-verdict/v1", "exit_code": int(code), "records": len(log.records), "findings": [f.model_dump() for f in findings]}
        say_json(jsons.dumps(document, indent=2))
        return int(code)
    for finding in findings:
        say(visible(f"{finding.severity}: {finding.id}: {finding.message}\n  at: {finding.where}\n  fix: {finding.fix}"))
    answer = {Exit.OK: "whole and unaltered", Exit.FAILED: "not what the gateway wrote", Exit.INCOMPLETE: "we could not tell"}[code]
    say(f"{len(log.records)} records, {len(log.marks) + len(kept)} checkpoints: {answer}")
    return int(code)


def register(app: typer.Typer) -> None:
    group = typer.Typer(help=GROUP, no_args_is_help=True, rich_markup_mode=None)
    group.command("verify", help=HELP, epilog=EPILOG)(verify)
    app.add_typer(group, name="audit")
