"""No false alarm: of the defect-free reference gateway, nothing differs but what it declares, and its record says what happened."""

from __future__ import annotations

import asyncio

import pytest

from harness.clock import SystemClock
from harness.engine.plan import target_for
from harness.errors import Exit
from harness.scenario.files import data_root
from harness.transparency.facts import Report
from harness.transparency.measure import Seat
from harness.transparency.report import declaration_of, exit_code, transparency
from harness.transparency.written import read_report, stable


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    seat = Seat(target_for("reference"), tmp_path_factory.mktemp("glass"), SystemClock())
    return asyncio.run(transparency(seat, (), declaration_of("reference")))


def test_nothing_differs_but_what_is_declared(report: Report) -> None:
    assert [one.fact.key for one in report.of("fault", "note", "waived")] == []
    assert report.news == ()
    assert report.incomplete == ""
    assert exit_code(report) == Exit.OK
    assert len(report.of("same")) > 150


def test_the_comparison_page_shows_what_it_does_today(report: Report) -> None:
    """When it changes: python gateways/test_light.py reference, then python gateways/make_page.py."""
    assert stable(report) == stable(read_report(data_root() / "gateways" / "measured" / "reference.json"))


def test_its_record_agrees_with_agent_and_witness_in_every_case(report: Report) -> None:
    assert {entry.case: entry.record for entry in report.audit} == {
        "ok": "ok",
        "tool_error": "tool_error",
        "denied": "denied",
        "pending": "pending",
        "upstream_error": "upstream_error",
        "timeout": "timeout",
    }


def test_its_catalog_changes_when_it_is_told_to_refresh_and_not_before(report: Report) -> None:
    views = {each.change: (each.registry, each.session, each.fresh_session, each.refresh) for each in report.catalog}
    assert views.pop("cursor-dropped")[3].startswith("incomplete")
    assert set(views.values()) == {("old", "old", "old", "new")}


def test_it_costs_one_message_to_the_provider_for_each_call(report: Report) -> None:
    counted = report.named("requests.per_call")
    assert counted is not None
    assert counted.fact.through == {"tools/call": 1.0}


def test_which_cases_of_other_projects_it_passes(report: Report) -> None:
    """b07 by declaration: it refuses by the list that was accepted, on record, until it is told to refresh."""
    shown = {one.case: one.outcome for one in report.cases}
    assert shown.pop("b07") == "fail"
    assert shown == dict.fromkeys(("b05", "b06", "b08", "b09", "a08"), "pass")
    assert report.named("case.b07") in report.of("declared")
