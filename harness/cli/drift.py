"""`harness drift`: how one tool list differs from another, and whether that breaks somebody."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli.options import HEADER_ENV, PROTOCOL

if TYPE_CHECKING:
    from harness.errors import Exit
    from harness.model.drift import DriftFinding, DriftReport

AgainstWord = Literal["live", "local", "fake"]


class FailOn(StrEnum):
    BREAKING = "breaking"
    RISK = "risk"
    TEXT = "text"
    ANY = "any"


HELP = """Compare two tool lists: what was agreed, and what is there.

OLD and NEW are each a provider with an inventory (mem0), an inventory file, a published document, a tools/list result in a file, or a URL.

\b
Examples:
  harness drift mem0 http://127.0.0.1:4001/mcp
  harness drift old.yaml new.yaml --fail-on risk --fail-on text
  harness drift published.json tools.json --provider zep --json
"""

EPILOG = """\b
Exit codes:
  0  no drift at or above the threshold
  2  usage or configuration
  3  credentials missing
  4  unreachable
  5  one of the lists is incomplete
  6  drift at or above the threshold
Several at once: 2, then 3, 4, 5, 6.
"""


def drift(
    old: Annotated[str, typer.Argument(metavar="OLD", help="What was agreed.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What is there.")],
    provider: Annotated[str | None, typer.Option(help="Which provider of a document that holds several.")] = None,
    protocol: PROTOCOL = "auto",
    header_env: HEADER_ENV = None,
    against: Annotated[AgainstWord, typer.Option(help="What NEW is evidence of; a fake's prose and hashes are not compared.")] = "live",
    fail_on: Annotated[list[FailOn] | None, typer.Option(help="What fails, besides breaking changes; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document instead of text.")] = False,
) -> int:
    import asyncio

    from harness.cli.console import say, say_json
    from harness.cli.headers import headers_from
    from harness.discover.sources import load_side
    from harness.drift.compare import compare
    from harness.report.inert import to_json
    from harness.scenario.files import inventories_folder

    headers = headers_from(header_env or ())

    async def both() -> DriftReport:
        sides = [
            await load_side(source, inventories=inventories_folder(), provider=provider, protocol_version=protocol, headers=headers)
            for source in (old, new)
        ]
        return compare(sides[0], sides[1], against=against)

    report = asyncio.run(both())
    failing = report.fails_on(fail_on or ())
    code = _code(report, failing)
    if json:
        say_json(to_json(_document(report, failing, code), indent=1))
    else:
        say(_text(report, failing, code))
    return int(code)


def _code(report: DriftReport, failing: tuple[DriftFinding, ...]) -> Exit:
    from harness.errors import Exit

    if not report.complete:
        return Exit.INCOMPLETE
    return Exit.DRIFT if failing else Exit.OK


def _document(report: DriftReport, failing: tuple[DriftFinding, ...], code: Exit) -> dict[str, Any]:
    from harness.report.inert import clip

    data = report.model_dump(mode="python", exclude={"findings"})
    findings = [
        {**finding.model_dump(mode="python", exclude={"expected", "actual"}), "expected": clip(finding.expected), "actual": clip(finding.actual)}
        for finding in report.findings
    ]
    return {"schema": "drift/v1", "exit_code": int(code), "verdict": report.verdict, "failing": len(failing), **data, "findings": findings}


def _text(report: DriftReport, failing: tuple[DriftFinding, ...], code: Exit) -> str:
    from harness.report.inert import one_line

    lines = [f"{report.old} → {report.new}, as evidence of a {report.against} provider"]
    for finding in report.findings:
        mark = "FAIL" if finding in failing else "    "
        lines.append(f"{mark} {finding.severity:8}  {finding.id}: {finding.message}")
        if finding in failing:
            lines.append(f"       fix: {finding.fix}")
    lines.append(f"Compared: {report.summary}")
    if not report.complete:
        lines.append(f"INCOMPLETE: {report.reason}")
    lines.append(f"{report.verdict}: {len(report.findings)} findings, {len(failing)} at or above the threshold; exit code {int(code)}")
    return "\n".join(one_line(line) for line in lines)


def register(app: typer.Typer) -> None:
    app.command("drift", help=HELP, epilog=EPILOG)(drift)
