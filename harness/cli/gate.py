"""`harness gate`: yes or no, from the evidence of one or many runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from harness.claims.runs import StoredRun
    from harness.errors import HarnessError
    from harness.gate.policy import Policy
    from harness.model.waiver import Waiver

HELP = """Decide yes or no by a policy, from the evidence of one or many runs.

RUN is the folder of a run or its evidence.jsonl; without one, REPORTS/latest. Verdicts are recomputed from the evidence. Each rule is
listed with the evidence that satisfied or broke it.

\b
Examples:
  harness gate --policy release.yaml
  harness gate --policy release.yaml --explain reports/nightly reports/latest
  harness gate --policy release.yaml --format markdown >> "$GITHUB_STEP_SUMMARY"
  harness gate --policy release.yaml --format json --output gate.json
"""

EPILOG = "Exit codes, several at once: 2, then 3, 4, 1, 5, 6 (see harness --help)."


def gate(
    run: Annotated[list[Path] | None, typer.Argument(metavar="[RUN]...", help="Folder or evidence.jsonl of a run; repeatable.")] = None,
    policy: Annotated[Path, typer.Option(metavar="FILE", help="The policy.")] = Path("release.yaml"),
    format_: Annotated[Literal["text", "markdown", "json"], typer.Option("--format", help="How to print the answer.")] = "text",
    explain: Annotated[bool, typer.Option("--explain", help="Say what would turn each broken rule green.")] = False,
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the JSON answer (gate/v1) to this file too.")] = None,
    reports_dir: Annotated[Path, typer.Option(help="Where runs keep evidence and reports.")] = Path("reports"),
) -> int:
    from harness.cli.claims import agreed_tools
    from harness.cli.console import say, say_json
    from harness.clock import SystemClock
    from harness.gate.decide import decide
    from harness.gate.policy import load_policy
    from harness.gate.render import document, markdown, text
    from harness.report.write import write_bytes

    rules = load_policy(policy)
    runs, unreadable = _read(run or [reports_dir / "latest"])
    answer = decide(
        rules,
        runs,
        now=SystemClock().now(),
        waivers=_waivers(rules, policy),
        unreadable=unreadable,
        known=_known(),
        agreed=agreed_tools(),
    )
    if format_ == "json":
        say_json(document(answer))
    else:
        say(text(answer, explain=explain) if format_ == "text" else markdown(answer, explain=explain))
    if output is not None:
        write_bytes(output, document(answer).encode())
    return answer.exit_code


def _read(places: list[Path]) -> tuple[list[StoredRun], dict[str, HarnessError]]:
    """One bad run does not keep the others from being looked at; the answer names it."""
    from harness.claims.runs import read_run
    from harness.errors import HarnessError

    runs, unreadable = [], {}
    for place in dict.fromkeys(places):
        try:
            runs.append(read_run(place))
        except HarnessError as error:
            unreadable[str(place)] = error
    return runs, unreadable


def _waivers(rules: Policy, policy: Path) -> tuple[Waiver, ...]:
    from harness.waiver.load import load_waivers

    return load_waivers(policy.parent / rules.waivers) if rules.waivers else ()


def _known() -> dict[str, tuple[str, ...]]:
    """Scenario → tags: what this checkout has, so that leaving one out of a run does not make it pass."""
    from harness.engine.plan import make_plan

    return {item.scenario.id: item.scenario.tags for item in make_plan(("*",)).items}


def register(app: typer.Typer) -> None:
    app.command("gate", help=HELP, epilog=EPILOG)(gate)
