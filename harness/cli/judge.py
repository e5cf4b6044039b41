"""`harness judge`: the same verdicts again from stored evidence, with nothing else at hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Recompute the results of a run from its evidence alone.

EVIDENCE is an evidence.jsonl file or the folder that holds it. Nothing is contacted, and no scenario, inventory or manifest is read:
the evidence embeds what it was judged by. Nothing is written unless --output names a folder.

\b
Examples:
  harness judge reports/latest
  harness judge evidence.jsonl --json > results.json
  harness judge evidence.jsonl --output again --report html
"""

EPILOG = "Exit codes, several at once: 2, then 3, 4, 1, 5, 6 (see harness --help)."


def judge(
    evidence: Annotated[Path, typer.Argument(metavar="EVIDENCE", help="The file, or the folder of a run.")],
    json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the summary.")] = False,
    output: Annotated[Path | None, typer.Option(metavar="FOLDER", help="Write reports into this folder.")] = None,
    report: Annotated[list[str] | None, typer.Option(metavar="FORMAT", help="Report to write; repeatable; default: all.")] = None,
) -> int:
    from harness.cli.console import say, say_json
    from harness.cli.place import EVIDENCE
    from harness.engine.evidence_log import read_evidence
    from harness.engine.judge import judge as fold
    from harness.errors import UsageError
    from harness.report.base import choose_reports
    from harness.report.results_json import document
    from harness.report.text import terminal_summary
    from harness.report.write import write_reports

    if report and output is None:
        raise UsageError("--report needs a folder to write to", where="--report", fix="add --output FOLDER")
    formats = choose_reports(tuple(report or ()))
    results = fold(read_evidence(evidence / EVIDENCE if evidence.is_dir() else evidence))
    if output is not None:
        write_reports(results, formats, output)
    if json:
        say_json(document(results))
    else:
        say(terminal_summary(results))
    return results.exit_code


def register(app: typer.Typer) -> None:
    app.command("judge", help=HELP, epilog=EPILOG)(judge)
