"""A quarantine is explicit, owned, and ends; it excuses flaky steps and nothing else."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from harness.errors import LoadError, UsageError
from harness.model.finding import Finding
from harness.model.verdict import Verdict
from harness.nightly.quarantine import excusing, load_quarantine, parse_quarantine, problems_of

ENTRY = """
- scenario: MEM-3
  step: outside
  owner: a-team
  reason: the provider's denial sometimes takes a minute
  issue: https://tracker.example/1
  accepted: "2026-11-20"
  expires: "2026-12-10"
"""
TODAY = date(2026, 12, 1)


def verdict(*steps: str, warn: str = "") -> Verdict:
    findings = [Finding(id="result", message="m", step=step) for step in steps]
    findings += [Finding(id="left-behind", message="m", severity="warn", step=warn)] if warn else []
    return Verdict(
        item="MEM-3[live]", scenario="MEM-3", title="t", area="memory", level="live", target="reference", protocol="2026-07-28",
        providers=("supermemory",), outcome="fail", exit_code=1, findings=tuple(findings),
    )  # fmt: skip


def test_a_failure_at_a_quarantined_step_is_excused() -> None:
    entries = parse_quarantine(ENTRY, "q.yaml")
    (entry,) = excusing(verdict("outside", warn="elsewhere"), "provider_outage", entries, TODAY)
    assert (entry.owner, entry.issue) == ("a-team", "https://tracker.example/1")


@pytest.mark.parametrize(
    ("steps", "cause", "today"),
    [
        (("outside", "inside"), "provider_outage", TODAY),
        (("inside",), "provider_outage", TODAY),
        ((), "provider_outage", TODAY),
        (("outside",), "gateway_defect", TODAY),
        (("outside",), "credentials", TODAY),
        (("outside",), "provider_outage", date(2026, 12, 11)),
    ],
)
def test_nothing_else_is(steps: tuple[str, ...], cause: str, today: date) -> None:
    assert excusing(verdict(*steps), cause, parse_quarantine(ENTRY, "q.yaml"), today) == ()


def test_an_entry_that_ended_or_is_about_nothing_is_a_problem() -> None:
    from harness.engine.plan import every_scenario
    from harness.scenario.files import data_root

    (path,) = data_root().glob("scenarios/memory/MEM-3.yaml")
    known = {s.id: s for s in every_scenario(paths=[path])}
    assert problems_of(parse_quarantine(ENTRY, "q.yaml"), known, TODAY) == []
    assert "ended on 2026-12-10" in problems_of(parse_quarantine(ENTRY, "q.yaml"), known, date(2026, 12, 11))[0]
    assert "no step" in problems_of(parse_quarantine(ENTRY.replace("outside", "nowhere"), "q.yaml"), known, TODAY)[0]
    assert "no scenario" in problems_of(parse_quarantine(ENTRY, "q.yaml"), {}, TODAY)[0]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"2026-12-10"', '"2027-01-10"', "more than 30 days"),
        ('"2026-12-10"', '"2026-11-10"', "before it"),
        ('"2026-12-10"', '"soon"', "no date"),
        ("https://tracker.example/1", "tracker 1", "no https link"),
        ("  owner: a-team\n", "", "owner"),
        ("owner:", "ownr:", "ownr"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(old: str, new: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_quarantine(ENTRY.replace(old, new), "q.yaml")
    assert told in str(caught.value)
    assert "q.yaml:" in str(caught.value)


def test_a_quarantine_is_a_list() -> None:
    with pytest.raises(UsageError):
        parse_quarantine("scenario: MEM-3\n", "q.yaml")


def test_no_file_is_no_quarantine_and_an_unreadable_one_an_error(tmp_path: Path) -> None:
    assert load_quarantine(tmp_path / "quarantine.yaml") == ()
    (tmp_path / "quarantine.yaml").mkdir()
    with pytest.raises(LoadError):
        load_quarantine(tmp_path / "quarantine.yaml")
