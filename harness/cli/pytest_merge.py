"""After the last scenario: the evidence of all workers becomes one file, judged once, reported once."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.cli.place import RunPlace
from harness.cli.pytest_items import options_of, plan_of
from harness.cli.pytest_run import AGAIN, ITEMS, break_off, file_name
from harness.cli.session import publish
from harness.clock import SystemClock
from harness.errors import HarnessError, Incomplete
from harness.model.evidence import NoteRecord, RunRecord
from harness.model.plan import Plan
from harness.model.verdict import Results
from harness.report.base import choose_reports
from harness.report.inert import one_line, visible
from harness.report.reading import answer, comparison_line, counts_line
from harness.report.write import write_bytes

_FINISHED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


class WorkerLost(Incomplete):
    """A worker process ended in the middle of a scenario."""


def conclude(config: pytest.Config, place: Mapping[str, str], lost: Mapping[str, str], status: int) -> tuple[str, int]:
    """Merge, judge, report. Answers what to say in the terminal, and pytest's exit status; a run without scenarios says nothing.

    `lost`: node id → what happened to its worker.
    """
    run = RunPlace(Path(place["reports"]), place["run"])
    try:
        for node, what in lost.items():
            _note_loss(config, run, node, what)
        parts = sorted((run.folder / ITEMS).glob("*.jsonl"))
        if not parts:
            return "", status
        whole = _merge(config, run, parts, place["started_at"], ended=status in _FINISHED)
        results = _judge(run)
        publish(results, choose_reports(()), run)
        if whole:
            shutil.rmtree(run.folder / ITEMS)
    except HarnessError as error:
        return visible(str(error)), status or int(pytest.ExitCode.USAGE_ERROR)
    if results.exit_code and status == pytest.ExitCode.OK:
        status = int(pytest.ExitCode.TESTS_FAILED)
    return _said(results, run), status


def _judge(run: RunPlace) -> Results:
    from harness.engine.evidence_log import read_evidence
    from harness.engine.judge import judge

    return judge(read_evidence(run.evidence))


def _said(results: Results, run: RunPlace) -> str:
    lines = [one_line(results.level_line), counts_line(results), comparison_line(results), answer(results)]
    lines.append(f"evidence and reports: {run.folder}")
    return "\n".join(line for line in lines if line)


def _note_loss(config: pytest.Config, run: RunPlace, node: str, what: str) -> None:
    """One result for the scenario: what was seen so far, then that its worker was lost."""
    file, _, name = node.partition("::")
    plan = plan_of(config.rootpath / file, options_of(config))
    item = next(item for item in plan.items if item.id == name)
    path = next((run.folder / ITEMS).glob(f"*-{file_name(name)}.jsonl"), run.folder / ITEMS / f"99999-{file_name(name)}.jsonl")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    _mend(path, name)
    break_off(item, path, WorkerLost(what, where=str(item.scenario.location), fix="find out why the worker ended, then start a new run"), run.run)
    if not path.with_suffix(AGAIN).exists():
        _tell_allure(config, node, what)


def _mend(path: Path, name: str) -> None:
    """A record that was cut off when its process ended is set aside, whole beside the rest, and a note says so."""
    content = path.read_bytes()
    kept, torn = content[: content.rfind(b"\n") + 1], content[content.rfind(b"\n") + 1 :]
    if not torn:
        return
    write_bytes(path.with_suffix(".torn"), torn)
    note = NoteRecord(
        item=name,
        text="the last record was cut off when its process ended",
        data={"bytes": len(torn), "sha256": hashlib.sha256(torn).hexdigest()},
    )
    write_bytes(path, kept + note.model_dump_json().encode() + b"\n")


def _merge(config: pytest.Config, run: RunPlace, parts: list[Path], started_at: str, *, ended: bool) -> bool:
    """Write evidence.jsonl; answers whether nothing had to be set aside."""
    from harness.engine.run import start_record

    jobs = getattr(config.option, "numprocesses", None) or 1
    broken = options_of(config).defects
    start = start_record(Plan(items=()), run.run, jobs, broken).model_copy(update={"at": started_at})
    pieces = [_line(start)]
    for part in parts:
        _mend(part, part.stem)
        pieces.append(part.read_bytes())
    if ended:
        pieces.append(_line(RunRecord(phase="end", run=run.run, at=SystemClock().now().isoformat())))
    write_bytes(run.evidence, b"".join(pieces))
    return not list((run.folder / ITEMS).glob("*.torn"))


def _line(record: RunRecord) -> bytes:
    return record.model_dump_json().encode() + b"\n"


def _tell_allure(config: pytest.Config, node: str, what: str) -> None:
    """Allure hears of a test from the process that runs it; that one is gone, so its result is written here."""
    if not getattr(config.option, "allure_report_dir", None):
        return
    from uuid import uuid4

    import allure_commons
    from allure_commons.model2 import Label, Status, StatusDetails, TestResult

    file, _, name = node.partition("::")
    full_name = f"{Path(file).parent.as_posix().replace('/', '.')}.{Path(file).stem}#{name}"
    identity = hashlib.md5(full_name.encode(), usedforsecurity=False).hexdigest()
    result: Any = TestResult(uuid=str(uuid4()), name=name, fullName=full_name, testCaseId=identity, historyId=identity)
    result.status, result.statusDetails = Status.BROKEN, StatusDetails(message=what)
    result.start = result.stop = int(SystemClock().now().timestamp() * 1000)
    result.labels = [Label(name="framework", value="pytest")]
    allure_commons.plugin_manager.hook.report_result(result=result)
