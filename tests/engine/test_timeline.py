"""The four witnesses side by side: nothing at odds where the gateway is sound, and the right row marked where it is not."""

from __future__ import annotations

import pytest

from harness.model.timeline import TimelineRow
from harness.model.verdict import Verdict
from tests.engine.conftest import Runner


def row(verdict: Verdict, step: str) -> TimelineRow:
    return next(r for r in verdict.timeline if r.step == step)


def test_a_held_call_stands_in_two_rows(run: Runner) -> None:
    (verdict,) = run("MEM-1").results.verdicts
    assert [r.at_odds for r in verdict.timeline if r.at_odds] == []
    held, allowed = row(verdict, "write"), row(verdict, "allow")
    assert held.agent[0].startswith("pending (requires_approval_policy)")
    assert held.audit[-1].startswith("approval_requested pending")
    assert held.provider == ()
    assert allowed.operator == ("approve by operator: executed",)
    assert [said.split()[0] for said in allowed.audit] == ["approval_resolved", "call_started", "call_completed"]
    assert len(allowed.provider) == 1
    assert [r.cleanup for r in verdict.timeline][-1]


@pytest.mark.parametrize(
    ("defect", "scenario", "step", "words"),
    [
        ("dispatch-before-approval", "MEM-1", "write", "started here never, the provider received it once"),
        ("approve-twice", "MEM-1", "allow", "started here once, the provider received it 2 times"),
        ("drop-audit=call_started", "MEM-1", "recall", "started here never, the provider received it once"),
    ],
)
def test_the_row_where_witnesses_part_says_so(run: Runner, defect: str, scenario: str, step: str, words: str) -> None:
    (verdict,) = run(scenario, defects=[defect]).results.verdicts
    assert any(words in said for said in row(verdict, step).at_odds), [(r.step, r.at_odds) for r in verdict.timeline]


@pytest.mark.parametrize("scenario", ["MODE-HELD", "GOV-TOKEN", "MODE-WAITING", "PAPR-1"])
def test_nothing_is_at_odds_where_calls_wait_come_back_or_never_get_in(run: Runner, scenario: str) -> None:
    """Held until the decision, asked to come back, refused at the door, several requests of a bridge for one call: all as it should be."""
    (verdict,) = run(scenario).results.verdicts
    assert verdict.outcome == "pass"
    assert [(r.step, r.at_odds) for r in verdict.timeline if r.at_odds] == []
