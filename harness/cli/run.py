"""`harness run`: plan, run, judge, report."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from harness.cli.live_options import ALLOW_WRITE, ENV_FILE, HOME_FOLDER, MAX_CALLS, MAX_COST, MAX_SECONDS, REHEARSE
from harness.cli.record_options import CASSETTES, NO_PROSE, RECORD

if TYPE_CHECKING:
    from harness.cli.place import RunPlace
    from harness.engine.tapes import Tapes
    from harness.errors import HarnessError
    from harness.live.options import LiveOptions
    from harness.model.plan import Plan
    from harness.model.verdict import Results

LevelWord = Literal["fake", "replayed", "local", "live"]

HELP = """Run scenarios and report what they prove.

SELECT is a scenario id, a glob, a path or tag:x; without one every scenario is run. Evidence and reports go to REPORTS/<run>/,
and REPORTS/latest points there.

\b
Examples:
  harness run
  harness run MEM-1 'SM-*' tag:release
  harness run scenarios/memory --provider zep --jobs 1
  harness run MEM-1 --protocol 2025-06-18
  harness run MEM-1 --report junit --report html
  harness run MEM-1 --defect skip-approval      must fail: the gateway is broken on purpose
  harness run --json --report none > results.json
  harness run MEM-1 --level replayed
  harness run MEM-1 --level local --record all --no-prose
  harness run MEM-1 --level live --allow-write --max-calls 20
"""

EPILOG = "Exit codes, several at once: 2, then 3, 4, 1, 5, 6 (see harness --help)."


@dataclass(frozen=True, slots=True)
class Request:
    """One `harness run` as asked for."""

    select: tuple[str, ...]
    providers: tuple[str, ...]
    level: LevelWord
    target: str
    protocol: str | None
    jobs: int
    formats: tuple[str, ...]
    defects: tuple[str, ...]
    reports: Path
    json: bool
    live: LiveOptions | None = None
    tapes: Tapes | None = None


def _complete_scenario(incomplete: str) -> list[str]:
    from harness.cli.listing import scenario_ids

    return [name for name in scenario_ids() if name.startswith(incomplete)]


def _complete_format(incomplete: str) -> list[str]:
    from harness.report.base import load_reports

    return [name for name in (*load_reports(), "none") if name.startswith(incomplete)]


def default_jobs() -> int:
    """Scenarios mostly wait for one another's processes, so one per core keeps them all busy."""
    return min(4, os.cpu_count() or 1)


def run(
    select: Annotated[list[str] | None, typer.Argument(metavar="[SELECT]...", autocompletion=_complete_scenario)] = None,
    provider: Annotated[list[str] | None, typer.Option(help="Only scenarios of this provider; repeatable.")] = None,
    level: Annotated[LevelWord, typer.Option(help="Evidence level; exact: what is not available at it is red.")] = "fake",
    target: Annotated[str, typer.Option(help="The gateway adapter to drive.")] = "reference",
    protocol: Annotated[str | None, typer.Option(help="MCP version, or all; default: as each scenario asks.")] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Scenarios at the same time; default: one per core, at most 4.")] = None,
    report: Annotated[
        list[str] | None,
        typer.Option(metavar="FORMAT|none", help="Report to write; repeatable; default: all.", autocompletion=_complete_format),
    ] = None,
    defect: Annotated[list[str] | None, typer.Option(metavar="NAME[=VALUE]", help="Break the reference gateway on purpose; repeatable.")] = None,
    reports_dir: Annotated[Path, typer.Option(help="Where runs keep evidence and reports.")] = Path("reports"),
    json: Annotated[bool, typer.Option("--json", help="Print results.json instead of the summary.")] = False,
    record: RECORD = "none",
    cassettes: CASSETTES = None,
    no_prose: NO_PROSE = False,
    allow_write: ALLOW_WRITE = False,
    max_calls: MAX_CALLS = 200,
    max_seconds: MAX_SECONDS = 900.0,
    max_cost: MAX_COST = None,
    rehearse: REHEARSE = None,
    home: HOME_FOLDER = Path(".harness"),
    env_file: ENV_FILE = Path(".env"),
) -> int:
    from harness.cli.record_options import tapes_for

    return execute(
        Request(
            select=tuple(select or ()),
            providers=tuple(provider or ()),
            level=level,
            target=target,
            protocol=protocol,
            jobs=jobs or default_jobs(),
            formats=tuple(report or ()),
            defects=tuple(defect or ()),
            reports=reports_dir,
            json=json,
            tapes=tapes_for(record, cassettes, no_prose, level),
            live=live_of(
                level,
                allow_write=allow_write,
                max_calls=max_calls,
                max_seconds=max_seconds,
                max_cost=max_cost,
                rehearse=rehearse,
                home=home,
                env_file=env_file,
            ),
        )
    )


def live_of(level: LevelWord, **told: Any) -> LiveOptions | None:
    """What a live run was told; at other levels no credential is even looked for, and options of live runs are refused."""
    from harness.cli.live_options import live_options
    from harness.errors import UsageError

    if level == "live":
        return live_options(**told)
    if told["allow_write"] or told["rehearse"]:
        raise UsageError("--allow-write and --rehearse are for live runs", where=f"--level {level}", fix="add --level live")
    return None


def execute(request: Request) -> int:
    """Plan, run, judge, report. Whatever goes wrong once the run has a folder is in its reports as well as in the exit code."""
    from harness.cli.history import keep, remember
    from harness.cli.session import judged, nothing_run, open_run, publish, refuse_defects
    from harness.clock import SystemClock
    from harness.errors import HarnessError
    from harness.report.base import choose_reports

    clock = SystemClock()
    formats = choose_reports(request.formats)
    refuse_defects(request.defects, request.target)
    place = open_run(request.reports, clock)
    plan = _plan(request)
    if isinstance(plan, HarnessError):
        trouble: HarnessError | None = plan
        results = nothing_run(place.run, plan, clock)
    else:
        trouble = _drive(plan, request, place)
        results = judged(place, trouble, clock)
    try:
        publish(results, formats, place)
        if request.live is not None:
            keep(request.reports, results, request.live)
        elif not request.defects:  # a gateway that is broken on purpose says nothing of how things go
            remember(request.reports, results)
    finally:  # also when the reports cannot be written, which then decides the exit code
        _tell(results, trouble, place, request)
    return results.exit_code


def _plan(request: Request) -> Plan | HarnessError:
    from harness.cli.record_options import one_version_each
    from harness.engine.plan import make_plan
    from harness.errors import HarnessError

    try:
        plan = make_plan(
            request.select,
            level=request.level,
            target=request.target,
            protocol=request.protocol,
            providers=request.providers,
            live=request.live,
            tapes=request.tapes,
        )
        return one_version_each(plan) if request.tapes is not None and request.tapes.record != "none" else plan
    except HarnessError as trouble:
        return trouble


def _drive(plan: Plan, request: Request, place: RunPlace) -> HarnessError | None:
    """Run the plan; answers what broke it off, if anything did."""
    import asyncio

    from harness.cli.history import earlier
    from harness.cli.progress import progress
    from harness.cli.session import attempt
    from harness.engine.run import run_plan
    from harness.errors import Incomplete

    def work() -> None:
        with progress(len(plan.items)) as listener:
            asyncio.run(
                run_plan(
                    plan,
                    jobs=request.jobs,
                    evidence=place.evidence,
                    run_id=place.run,
                    defects=request.defects,
                    listener=listener,
                    live=request.live,
                    tapes=request.tapes,
                    earlier=() if request.defects else earlier(request.reports, plan.items),
                )
            )

    try:
        return attempt(work)
    except KeyboardInterrupt:  # leaves incomplete evidence, not a traceback
        return Incomplete("interrupted before the end", fix="run it again; what was seen so far is in the evidence")


def _tell(results: Results, trouble: HarnessError | None, place: RunPlace, request: Request) -> None:
    from harness.cli.console import say, say_json, show_error, warn
    from harness.report.results_json import document
    from harness.report.text import terminal_summary

    if trouble is not None:
        show_error(trouble)
    if request.json:
        say_json(document(results))
    else:
        say(terminal_summary(results))
        warn(f"evidence and reports: {place.folder}")


def register(app: typer.Typer) -> None:
    app.command("run", help=HELP, epilog=EPILOG)(run)
