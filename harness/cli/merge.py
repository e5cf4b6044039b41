"""`harness merge`: shards of one run become one run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Merge the evidence of sharded runs, judge it as one, and report it.

RUN is the folder of a run or its evidence.jsonl. Every record is kept as it is. A scenario that stands in two of them, shards of
different versions and an output folder that holds evidence already are errors, and then nothing is written.

\b
Examples:
  harness merge shard-1 shard-2 --output reports/merged
  harness merge shards/* --output whole --report junit
"""

EPILOG = "Exit codes, several at once: 2, then 3, 4, 1, 5, 6 (see harness --help)."


def merge(
    run: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Folder or evidence.jsonl of a shard; two or more.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the merged run goes; made when missing.")],
    report: Annotated[list[str] | None, typer.Option(metavar="FORMAT|none", help="Report to write; repeatable; default: all.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the summary.")] = False,
) -> int:
    from harness.claims.merge import merge as merged
    from harness.claims.merge import read_shard
    from harness.cli.console import say, say_json, warn
    from harness.cli.place import EVIDENCE
    from harness.engine.evidence_log import read_evidence
    from harness.engine.judge import judge
    from harness.errors import UsageError
    from harness.report.base import choose_reports
    from harness.report.results_json import document
    from harness.report.text import terminal_summary
    from harness.report.write import write_bytes, write_reports

    formats = choose_reports(tuple(report or ()))
    target = output / EVIDENCE
    if target.exists():
        raise UsageError("there is evidence already, and evidence is never written over", where=str(target), fix="name another --output")
    content = merged([read_shard(place) for place in run])
    write_bytes(target, content)
    results = judge(read_evidence(target))
    write_reports(results, formats, output)
    if json:
        say_json(document(results))
    else:
        say(terminal_summary(results))
        warn(f"evidence and reports: {output}")
    return results.exit_code


def register(app: typer.Typer) -> None:
    app.command("merge", help=HELP, epilog=EPILOG)(merge)
