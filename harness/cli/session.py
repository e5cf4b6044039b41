"""One run from its folder to its reports: shared by `harness run` and the pytest plug-in, so that both tell the same story."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import harness
from harness.cli.place import RunPlace, new_run_id
from harness.clock import Clock
from harness.errors import Exit, HarnessError, UsageError, fold_exit, ungrouped
from harness.model.verdict import Results
from harness.report.base import Report
from harness.report.write import point_latest, run_folder, write_reports


def open_run(reports: Path, clock: Clock) -> RunPlace:
    """A new folder, proven writable before anything is run; `latest` leads there from now on, so that nobody reads an older run's answer.

    Raises UsageError.
    """
    place = RunPlace(reports, new_run_id(clock))
    run_folder(reports, place.run)
    point_latest(reports, place.run)
    return place


def publish(results: Results, formats: Iterable[Report], place: RunPlace) -> list[Path]:
    """Write the reports and let `latest` point to them. Raises UsageError when that cannot be done."""
    written = write_reports(results, formats, place.folder)
    point_latest(place.reports, place.run)
    return written


def refuse_defects(defects: Iterable[str], target: str) -> None:
    """Only the reference gateway has deliberate defects; any other one would be judged as if it had them."""
    if tuple(defects) and target != "reference":
        what = f"target {target!r} has no defects to switch on"
        raise UsageError(what, where="--defect", fix="leave out --defect, or use --target reference")


def judged(place: RunPlace, trouble: HarnessError | None, clock: Clock) -> Results:
    """What the evidence of this run amounts to; with `trouble`, a run that broke off, its code and reason are among the results'.

    Evidence that cannot be read leaves only the trouble to report.
    """
    from harness.engine.evidence_log import read_evidence
    from harness.engine.judge import judge

    if not place.evidence.exists():
        return nothing_run(place.run, trouble or UsageError("no evidence was written", where=str(place.evidence)), clock)
    try:
        results = judge(read_evidence(place.evidence))
    except HarnessError as unreadable:
        return nothing_run(place.run, trouble or unreadable, clock)
    return results if trouble is None else with_trouble(results, trouble)


def with_trouble(results: Results, trouble: HarnessError) -> Results:
    code = fold_exit({Exit(results.exit_code), trouble.exit_code})
    reason = str(trouble)
    reasons = results.exit_reasons if reason in results.exit_reasons else (*results.exit_reasons, reason)
    return results.model_copy(update={"exit_code": int(code), "exit_reasons": reasons})


def nothing_run(run: str, trouble: HarnessError, clock: Clock) -> Results:
    """Results of a run that never began: without them, a reader of `reports/latest` would take an older run's answer for this one's."""
    now = clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    return Results(
        run=run,
        started_at=now,
        ended_at=now,
        harness_version=harness.__version__,
        level_line="Evidence level: none. Nothing was run, so nothing is proven.",
        exit_code=int(trouble.exit_code),
        exit_reasons=tuple(str(trouble).splitlines() if not trouble.where else (str(trouble),)),
        totals={},
        verdicts=(),
    )


def attempt(work: Callable[[], None]) -> HarnessError | None:
    """Do it; answer what kept it from finishing."""
    try:
        with ungrouped():
            work()
    except HarnessError as error:
        return error
    return None
