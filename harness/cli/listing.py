"""`harness list`: which scenarios there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from harness.model.scenario import Scenario

HELP = """List scenarios, with what they need.

\b
Examples:
  harness list
  harness list tag:release
  harness list --json 'SM-*'
"""


def list_(
    select: Annotated[list[str] | None, typer.Argument(metavar="[SELECT]...", help="Id, glob, path or tag:x.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON document instead of a table.")] = False,
) -> int:
    from harness.cli.console import say, say_json
    from harness.report.inert import to_json

    found = [_facts(scenario) for scenario in _scenarios(tuple(select or ()))]
    if json:
        say_json(to_json({"schema": "scenarios/v1", "scenarios": found}, indent=1))
    else:
        say(_table(found))
    return 0


def scenario_ids() -> list[str]:
    """For shell completion, which has nobody to tell about errors."""
    from harness.errors import HarnessError

    try:
        return [scenario.id for scenario in _scenarios(())]
    except HarnessError:
        return []


def _scenarios(select: tuple[str, ...]) -> list[Scenario]:
    from harness.engine.plan import make_plan

    return list({item.scenario.id: item.scenario for item in make_plan(select).items}.values())


def _facts(scenario: Scenario) -> dict[str, Any]:
    providers = dict.fromkeys(connection.provider or name for name, connection in scenario.connections.items())
    return {
        "id": scenario.id,
        "title": scenario.title,
        "area": scenario.area,
        "file": scenario.file,
        "providers": list(providers),
        "tags": list(scenario.tags),
        "protocols": list(scenario.protocols),
        "claims": [claim.claim for claim in scenario.proves],
        "does_not_prove": list(scenario.does_not_prove),
    }


def _table(found: list[dict[str, Any]]) -> str:
    from harness.report.inert import one_line

    rows = [("SCENARIO", "AREA", "PROVIDERS", "TAGS", "TITLE")]
    rows += [(f["id"], f["area"], ",".join(f["providers"]), ",".join(f["tags"]), f["title"]) for f in found]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ("  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[4]]) for row in rows)
    return "\n".join(one_line(line) for line in lines)


def register(app: typer.Typer) -> None:
    app.command("list", help=HELP)(list_)
