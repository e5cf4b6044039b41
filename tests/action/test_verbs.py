"""Step verbs at their limits: time is moved only while a call waits, decisions come once, a fault is what the tap can do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.errors import LoadErrors
from harness.model.evidence import ClientExchange, ControlRecord, EvidenceRecord
from harness.model.finding import Finding
from harness.model.verdict import Results

HEAD = """\
scenario: {id}
title: A verb at its limit
connections: {{mem0: {{permissions: {{delete_memory: off, add_memory: ask_first}}}}}}
let: {{user: "harness-${{nonce}}"}}
steps:
"""
TAIL = """\
expect: [{{id: quiet, nothing_else: true}}]
proves: [{{claim: nothing else happened, by: [quiet]}}]
"""
LOOK = 'call: mem0.get_memories, with: {filters: {user_id: "${user}"}}'
WRITE = 'call: mem0.add_memory, with: {text: "The ${nonce} potter keeps a wheel.", user_id: "${user}", infer: false}'

SCENARIOS = {
    "AT-ONCE": f"  - {{id: look, {LOOK}, during: {{advance: 5s}}}}\n",
    "REFUSED": '  - {id: forbidden, call: mem0.delete_memory, with: {memory_id: "${user}"}, during: {advance: 5s}}\n',
    "HUNG-AT-ANSWER": (
        "  - {id: hold, fault: mem0, kind: hang, tool: get_memories, with: {at: answer}}\n"
        f"  - {{id: look, {LOOK}, during: {{advance: 11s}}, expect: [{{id: late, audited: timeout}}]}}\n"
        "  - {id: mend, heal: mem0}\n"
    ),
    "TWICE": f"  - {{id: write, {WRITE}}}\n  - {{id: allow, approve: write}}\n  - {{id: again, approve: write}}\n",
    "TOO-LATE": f"  - {{id: write, {WRITE}}}\n  - {{id: hour, advance: 61m}}\n  - {{id: allow, approve: write}}\n",
    "AFTER-ALL": f"  - {{id: write, {WRITE}}}\n  - {{id: refuse, deny: write}}\n  - {{id: allow, approve: write}}\n",
    "NO-SUCH-SETTING": f"  - {{id: hold, fault: mem0, kind: latency, with: {{second: 3}}}}\n  - {{id: look, {LOOK}}}\n",
    "SETTLED": f"  - {{id: on, settle: mem0, by: 10s}}\n  - {{id: look, {LOOK}, expect: [{{id: fine, audited: success}}]}}\n",
}


class Ran:
    def __init__(self, records: list[EvidenceRecord]) -> None:
        self.records = records
        self.results: Results = judge(records)

    def outcome(self, scenario: str) -> tuple[str, int]:
        verdict = next(v for v in self.results.verdicts if v.scenario == scenario)
        return verdict.outcome, verdict.exit_code

    def trouble(self, scenario: str) -> Finding:
        verdict = next(v for v in self.results.verdicts if v.scenario == scenario)
        return next(f for f in verdict.findings if f.step and f.severity in ("fail", "error") and not f.expectation)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("verbs")
    area = folder / "scenarios"
    area.mkdir()
    for name, steps in SCENARIOS.items():
        (area / f"{name.lower()}.yaml").write_text(HEAD.format(id=name) + steps + TAIL.format(), encoding="utf-8")
    evidence = folder / "evidence.jsonl"
    asyncio.run(run_plan(make_plan([], paths=[area]), jobs=2, evidence=evidence, run_id="verbs"))
    return Ran(read_evidence(evidence))


@pytest.mark.parametrize("scenario", ["AT-ONCE", "REFUSED"])
def test_time_is_not_moved_for_a_call_that_never_waited(ran: Ran, scenario: str) -> None:
    """Answered at once, or refused before it reached the provider: to move time then would prove nothing."""
    assert ran.outcome(scenario) == ("error", 5)
    found = ran.trouble(scenario)
    assert found.id == "untestable"
    assert "never waited at the provider" in found.message
    assert "latency" in found.fix


def test_a_call_that_the_tap_holds_back_counts_as_waiting(ran: Ran) -> None:
    assert ran.outcome("HUNG-AT-ANSWER") == ("pass", 0)
    calls = [r for r in ran.records if isinstance(r, ClientExchange) and r.item.startswith("HUNG-AT-ANSWER")]
    assert [call.said["outcome"] for call in calls] == ["timeout"]


@pytest.mark.parametrize(
    ("scenario", "said"), [("TWICE", "approval_not_pending"), ("TOO-LATE", "action_expired"), ("AFTER-ALL", "approval_not_pending")]
)
def test_a_decision_that_comes_too_late_is_refused_and_says_why(ran: Ran, scenario: str, said: str) -> None:
    assert ran.outcome(scenario) == ("fail", 1)
    found = ran.trouble(scenario)
    assert found.id == "step-broken-off"
    assert said in found.message
    assert "409" in found.message


def test_a_setting_that_a_fault_does_not_have_is_a_usage_error_with_a_suggestion(ran: Ran) -> None:
    assert ran.outcome("NO-SUCH-SETTING") == ("error", 2)
    found = ran.trouble("NO-SUCH-SETTING")
    assert "no setting 'second'" in found.message
    assert "seconds" in found.fix


def test_settling_is_recorded(ran: Ran) -> None:
    assert ran.outcome("SETTLED") == ("pass", 0)
    told = [r.data for r in ran.records if isinstance(r, ControlRecord) and r.action == "settle" and r.item.startswith("SETTLED")]
    assert told == [{"seconds": 10.0}]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("{id: x, fault: mem0, kind: hangs}", "no such fault"),
        ("{id: x, mutate: mem0, kind: parameter-lost}", "no such mutation"),
        ("{id: x, set_permission: mem0.add_memory, to: maybe}", "may not be 'maybe'"),
        ("{id: x, advance: 5}", "say the unit"),
        ("{id: x, end_run: false}", "may not be false"),
        ("{id: x, say: maybe, about: mem0.add_memory}", "may not be 'maybe'"),
        ("{id: x, approve: nobody}", "there is no step 'nobody'"),
    ],
)
def test_a_word_that_is_none_is_refused_at_load_with_its_place(step: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(HEAD.format(id="BAD") + f"  - {step}\n" + TAIL.format(), encoding="utf-8")
    with pytest.raises(LoadErrors) as raised:
        make_plan([], paths=[path])
    assert raised.value.exit_code == 2
    assert said in str(raised.value)
    assert "bad.yaml:6:" in str(raised.value)
