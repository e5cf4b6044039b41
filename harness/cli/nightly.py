"""`harness nightly`: preflight, drift, scenarios at the highest level there is, recordings' freshness, and whose trouble each failure is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from harness.cli.live_options import ALLOW_WRITE, ENV_FILE, HOME_FOLDER, MAX_CALLS, MAX_COST, MAX_SECONDS, REHEARSE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.cli.place import RunPlace
    from harness.nightly.night import Night, Wish
    from harness.report.base import Report

LevelWord = Literal["fake", "replayed", "local", "live"]

HELP = """Run a night: preflight, discovery and drift, scenarios at the highest level that can be had, and the triage of each failure.

SELECT is as for run; without one, tag:nightly. Missing credentials are exit code 3 and stand in every report; what can be run at a lower
level is run there. Everything goes to REPORTS/<run>/: nightly.json, nightly.md, and issue.md when the night is red.

\b
Examples:
  harness nightly --allow-write
  harness nightly --up-to fake
  harness nightly tag:mem --allow-write --max-calls 60 --provider mem0
  harness nightly MEM-1 --allow-write --rehearse mem0=http://127.0.0.1:4001
"""

EPILOG = "Exit codes, several at once: 2, then 3, 4, 1, 5, 6 (see harness --help)."


def nightly(
    select: Annotated[list[str] | None, typer.Argument(metavar="[SELECT]...", help="Id, glob, path or tag:x; default: tag:nightly.")] = None,
    provider: Annotated[list[str] | None, typer.Option(help="Only scenarios of this provider; repeatable.")] = None,
    up_to: Annotated[LevelWord, typer.Option(help="The highest evidence level that may be used.")] = "live",
    protocol: Annotated[str, typer.Option(help="MCP version, or all.")] = "2026-07-28",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Scenarios at the same time (never at level live); default: one per core, at most 4.")
    ] = None,
    quarantine: Annotated[Path, typer.Option(help="Steps that are known to be flaky, if there is such a file.")] = Path("quarantine.yaml"),
    report: Annotated[list[str] | None, typer.Option(metavar="FORMAT|none", help="Reports of each level's run; repeatable; default: all.")] = None,
    defect: Annotated[list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="Break the reference gateway on purpose; repeatable.")] = None,
    reports_dir: Annotated[Path, typer.Option(help="Where runs keep evidence, reports and their history.")] = Path("reports"),
    json: Annotated[bool, typer.Option("--json", help="Print nightly.json instead of text.")] = False,
    allow_write: ALLOW_WRITE = False,
    max_calls: MAX_CALLS = 200,
    max_seconds: MAX_SECONDS = 900.0,
    max_cost: MAX_COST = None,
    rehearse: REHEARSE = None,
    home: HOME_FOLDER = Path(".harness"),
    env_file: ENV_FILE = Path(".env"),
) -> int:
    from harness.cli.live_options import live_options
    from harness.cli.run import default_jobs
    from harness.cli.session import open_run
    from harness.clock import SystemClock
    from harness.nightly.night import Wish
    from harness.nightly.quarantine import load_quarantine
    from harness.report.base import choose_reports

    formats = choose_reports(tuple(report or ()))
    options = live_options(
        allow_write=allow_write,
        max_calls=max_calls,
        max_seconds=max_seconds,
        max_cost=max_cost,
        rehearse=rehearse,
        home=home,
        env_file=env_file,
    )
    entries = load_quarantine(quarantine)
    place = open_run(reports_dir, SystemClock())
    wish = Wish(
        select=tuple(select or ("tag:nightly",)),
        up_to=up_to,
        live=options,
        folder=place.folder,
        run_id=place.run,
        jobs=jobs or default_jobs(),
        protocol=protocol,
        defects=tuple(defect or ()),
        quarantine=entries,
        providers=tuple(provider or ()),
    )
    found = spend_night(wish)
    try:
        write(found, place, formats, wish)
    finally:  # also when something cannot be written, which then decides the exit code
        tell(found, place, json=json)
    return found.exit_code


def spend_night(wish: Wish) -> Night:
    import asyncio

    from harness.clock import SystemClock
    from harness.nightly.night import night

    return asyncio.run(night(wish, SystemClock()))


def write(found: Night, place: RunPlace, formats: Sequence[Report], wish: Wish) -> None:
    """History first: what is shown of all nights has this one in it. One that cannot be used costs no report, and is raised after them.

    Raises UsageError when something cannot be written.
    """
    from harness.errors import HarnessError
    from harness.history.store import NAME, History
    from harness.history.summary import spread
    from harness.nightly.flaky import flaky_steps
    from harness.nightly.keep import stored_night
    from harness.nightly.render import files
    from harness.report.write import write_bytes, write_reports

    trouble: HarnessError | None = None
    flaky, spreads = [], []
    try:
        with History(place.reports / NAME) as history:
            history.add(stored_night(found, wish.live.rehearse))
            flaky = flaky_steps(history.items())
            spreads = spread([row for _, _, row in history.visible()])
    except HarnessError as error:
        trouble = error
    for part in found.parts:
        if part.results is not None:
            write_reports(part.results, formats, place.folder / part.level)
    for name, content in files(found, flaky, spreads).items():
        write_bytes(place.folder / name, content)
    if trouble is not None:
        raise trouble


def tell(found: Night, place: RunPlace, *, json: bool) -> None:
    from harness.cli.console import say, say_json, warn
    from harness.nightly.render import document, text

    if json:
        say_json(document(found))
    else:
        say(text(found))
        warn(f"evidence and reports: {place.folder}")


def register(app: typer.Typer) -> None:
    app.command("nightly", help=HELP, epilog=EPILOG)(nightly)
