"""`harness claims`: what was proven, at which level, by which run, and what was not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

HELP = """Print the claim ledger of one or many runs.

RUN is the folder of a run or its evidence.jsonl; without one, REPORTS/latest. Verdicts are recomputed from the evidence. A claim is shown
at the level of its weakest leg, and only the newest evidence at a level counts.

\b
Examples:
  harness claims
  harness claims reports/20261130T201931Z-f2e4d8 reports/latest
  harness claims --json > claims.json
"""

EPILOG = "Exit codes: 0 the ledger was printed, 2 a run cannot be read, 5 evidence that was cut short."


def claims(
    run: Annotated[list[Path] | None, typer.Argument(metavar="[RUN]...", help="Folder or evidence.jsonl of a run; repeatable.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print claims/v1 instead of text.")] = False,
    reports_dir: Annotated[Path, typer.Option(help="Where runs keep evidence and reports.")] = Path("reports"),
) -> int:
    from harness.claims.ledger import ledger
    from harness.claims.runs import read_run
    from harness.claims.text import document, summary
    from harness.cli.console import say, say_json

    found = ledger([read_run(place) for place in run or [reports_dir / "latest"]], agreed_tools(), own_bridges())
    if json:
        say_json(document(found))
    else:
        say(summary(found))
    return 0


def own_bridges() -> frozenset[str]:
    """Providers whose inventory is our own word for a bridge of ours."""
    from harness.inventory.store import load_inventories
    from harness.scenario.files import data_root

    return frozenset(name for name, found in load_inventories(data_root() / "inventories").items() if found.own)


def agreed_tools() -> dict[str, tuple[str, ...]]:
    """Provider → the tools of its inventory, as this checkout has them."""
    from harness.inventory.store import load_inventories
    from harness.scenario.files import data_root

    return {name: tuple(tool.name for tool in found.tools) for name, found in load_inventories(data_root() / "inventories").items()}


def register(app: typer.Typer) -> None:
    app.command("claims", help=HELP, epilog=EPILOG)(claims)
