"""`harness history`: what earlier runs said."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.history.store import History
    from harness.live.options import LiveOptions
    from harness.model.plan import PlanItem
    from harness.model.trend import Trend
    from harness.model.verdict import Results

HELP = """Show what earlier runs said: runs, outcomes of a scenario, times until what was written could be read, things left at providers.

The history is one bounded file, REPORTS/history.db; runs and nights write into it, and reports take their trends from it.

\b
Examples:
  harness history
  harness history scenarios --scenario MEM-1
  harness history visible --provider supermemory
  harness history leftovers --json
"""

What = Literal["runs", "scenarios", "visible", "leftovers"]


def history(
    what: Annotated[What, typer.Argument(metavar="[WHAT]", help="runs, scenarios, visible or leftovers.")] = "runs",
    scenario: Annotated[str, typer.Option(help="Only this scenario.")] = "",
    provider: Annotated[str, typer.Option(help="Only this provider.")] = "",
    limit: Annotated[int, typer.Option(min=1, help="At most so many runs or rows.")] = 50,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document instead of a table.")] = False,
    reports_dir: Annotated[Path, typer.Option(help="Where the history is.")] = Path("reports"),
) -> int:
    from harness.cli.console import say, say_json
    from harness.history.store import NAME, History
    from harness.report.inert import to_json, visible

    with History(reports_dir / NAME, read_only=True) as kept:
        rows = rows_of(kept, what, scenario, provider, limit)
    if json:
        say_json(to_json({"schema": "history/v1", "what": what, "rows": rows}, indent=1))
    else:
        say("\n".join(visible(line) for line in table(rows)) or f"no {what}")
    return 0


def rows_of(kept: History, what: What, scenario: str, provider: str, limit: int) -> list[dict[str, Any]]:
    from dataclasses import asdict

    from harness.history.summary import spread

    if what == "runs":
        return [asdict(run) for run in kept.runs(limit)]
    if what == "scenarios":
        found = kept.items(scenario=scenario, limit=limit)
        return [{"run": run, "at": at, **asdict(row)} for run, at, row in found if not provider or provider in row.providers]
    if what == "leftovers":
        return [asdict(left) for left in kept.leftovers(provider=provider)[:limit]]
    return [asdict(row) for row in spread([row for _, _, row in kept.visible(provider=provider)])]


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Columns as wide as they need to be; lists joined."""
    if not rows:
        return []
    heads = list(rows[0])
    cells = [heads] + [[", ".join(v) if isinstance(v, list | tuple) else "" if v is None else str(v) for v in row.values()] for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(heads))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]


def earlier(reports: Path, items: Sequence[PlanItem]) -> tuple[Trend, ...]:
    """What earlier runs said of these items; nothing where there is no history, or one that cannot be read, which is no reason not to run."""
    from harness.cli.console import warn
    from harness.errors import HarnessError
    from harness.history.store import NAME, History
    from harness.history.trends import trends

    if not (reports / NAME).exists():
        return ()
    named = [[(name, item.id.replace(item.scenario.id, name, 1)) for name in (item.scenario.id, *item.scenario.formerly)] for item in items]
    try:
        with History(reports / NAME, read_only=True) as history:
            return trends(history, named)
    except HarnessError as error:
        warn(f"without trends: {error}")
        return ()


def remember(reports: Path, results: Results) -> None:
    """Write a run that was not live down, for the next one's trends; a history that cannot be written is told and costs nothing else."""
    from harness.cli.console import warn
    from harness.errors import HarnessError
    from harness.history.record import stored
    from harness.history.store import NAME, History

    try:
        with History(reports / NAME) as kept:
            kept.add(stored(results, kind="run", hosts={}))
    except HarnessError as error:
        warn(f"not in the history: {error}")


def keep(reports: Path, results: Results, live: LiveOptions, kind: str = "run") -> None:
    """Write a live run down. Raises UsageError when the history cannot be written."""
    from harness.history.record import stored
    from harness.history.store import NAME, History

    with History(reports / NAME) as kept:
        kept.add(stored(results, kind=kind, hosts=live.rehearse))


def register(app: typer.Typer) -> None:
    app.command("history", help=HELP)(history)
