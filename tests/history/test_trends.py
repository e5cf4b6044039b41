"""Trends: what earlier runs said of an item, renames included, and that they never decide anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main
from harness.history.rows import ItemRow, RunRow, Stored, VisibleRow
from harness.history.store import NAME, History
from harness.history.trends import trends
from harness.model.trend import MAX_POINTS
from harness.model.verdict import Results


def night(number: int, item: str = "A[fake,reference,x]", outcome: str = "pass") -> Stored:
    run = f"r{number:03}"
    row = ItemRow(item, item.partition("[")[0], "fake", False, ("mem0",), outcome, 0.5, (), (), "", 10.0 + number)
    seen = VisibleRow(item, "recall", "mem0", "search", "raw", "fake", 0.1 * number, 2, True)
    return Stored(run=RunRow(run, f"2026-11-{number:02}T00:00:00Z", "run", 0, "fake"), items=(row,), visible=(seen,), leftovers=())


def test_oldest_first_newest_kept_and_renames_joined(tmp_path: Path) -> None:
    with History(tmp_path / NAME) as history:
        for number in range(1, 10):
            history.add(night(number, "OLD[fake,reference,x]", "fail"))
        for number in range(10, 20):
            history.add(night(number))
        history.add(night(20, "OTHER[fake,reference,x]"))
        found = trends(history, [[(name, f"{name}[fake,reference,x]") for name in names] for names in (("A", "OLD"), ("NEW",))])
    (trend,) = found
    assert trend.item == "A[fake,reference,x]"
    assert [point.run for point in trend.points] == [f"r{n:03}" for n in range(20 - MAX_POINTS, 20)]
    assert {point.outcome for point in trend.points[:5]} == {"fail"}
    assert trend.points[-1].latency_ms == 29.0
    assert trend.points[-1].time_to_visible_s == pytest.approx(1.9)


def run(reports: Path, *more: str) -> Results:
    main(["run", "DISCOVER-ZEP", "--protocol", "2025-11-25", "--reports-dir", str(reports), *more])
    return Results.model_validate_json((reports / "latest" / "results.json").read_bytes())


def test_the_second_run_knows_the_first_and_is_judged_again_byte_for_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path).trends == ()
    second = run(tmp_path)
    (trend,) = second.trends
    assert [point.outcome for point in trend.points] == ["pass"]
    assert "Every scenario that ran before ended as it did then." in (tmp_path / "latest" / "report.html").read_text()
    capsys.readouterr()
    assert main(["judge", str(tmp_path / "latest"), "--json"]) == 0
    assert capsys.readouterr().out.encode() == (tmp_path / "latest" / "results.json").read_bytes()


def test_a_run_that_is_broken_on_purpose_leaves_no_trend(tmp_path: Path) -> None:
    run(tmp_path, "--defect", "weaken-risk")
    assert not (tmp_path / NAME).exists()


def test_an_unreadable_history_costs_the_trends_and_nothing_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / NAME).write_bytes(b"not a database" * 100)
    found = run(tmp_path)
    assert (found.exit_code, found.trends) == (0, ())
    assert "without trends" in capsys.readouterr().err
