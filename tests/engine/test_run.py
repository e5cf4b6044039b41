"""What a run does around the steps: cleanup, restoring, concurrency, clocks; and how one run's findings become claims and exit codes.

All scenarios of this file are run once, together, four at a time.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import Progress, run_plan
from harness.errors import Exit
from harness.model.evidence import AuditRecord, ClientExchange, ControlRecord, EvidenceRecord, PlanItemRecord, ProcessRecord, StepRecord
from harness.model.verdict import ClaimVerdict, Results, Verdict

HEAD = """\
scenario: {id}
title: One thing that a run does
connections: {{mem0: {{}}}}
"""
LOOK = 'call: mem0.get_memories\n    with: {filters: {user_id: "harness-${nonce}"}}'

SCENARIOS = {
    "PLAIN": f"""
steps:
  - id: look
    {LOOK}
    expect:
      - {{id: fine, audited: success}}
expect:
  - {{id: quiet, nothing_else: true}}
proves:
  - {{claim: a search is audited, by: [fine]}}
""",
    "ASSERTION": f"""
steps:
  - id: look
    {LOOK}
    expect:
      - {{id: wrong, audited: denied}}
      - {{id: right, audited: success}}
proves:
  - {{claim: what is wrong, by: [wrong]}}
  - {{claim: what is right, by: [right]}}
  - {{claim: both, by: [right, wrong]}}
""",
    "MIDWAY": """
steps:
  - {id: forbid, set_permission: mem0.delete_memory, to: "off"}
  - {id: hold, set_permission: mem0.get_memory, to: ask_first}
  - id: write
    call: mem0.add_memory
    with: {text: "The ${nonce} fiddler keeps rosin.", user_id: "harness-${nonce}", infer: false}
    capture: {memory: {from: result, at: "/results/0/id"}}
    expect:
      - {id: written, audited: success}
  - {id: broken, approve: write}
  - id: never
    call: mem0.get_memory
    with: {memory_id: "${write.memory}"}
    expect:
      - {id: never-judged, audited: success}
expect:
  - {id: quiet, nothing_else: true}
proves:
  - {claim: what ran, by: [written]}
  - {claim: what never ran, by: [never-judged]}
cleanup:
  - id: fails
    call: mem0.get_memory
    with: {memory_id: 7}
  - {id: bad-settle, settle: mem0, by: "${write.memory}"}
  - id: remove
    call: mem0.delete_memory
    with: {memory_id: "${write.memory}"}
""",
    "UNCAPTURED": f"""
steps:
  - id: look
    {LOOK}
    capture: {{memory: {{from: result, at: "/results/0/id"}}}}
    expect:
      - {{id: looked, audited: success}}
  - id: use
    call: mem0.get_memory
    with: {{memory_id: "${{look.memory}}"}}
    expect:
      - {{id: used, audited: success}}
proves:
  - {{claim: it looked, by: [looked]}}
  - {{claim: it used, by: [used]}}
cleanup:
  - id: remove
    call: mem0.delete_memory
    with: {{memory_id: "${{look.memory}}"}}
  - id: still-runs
    {LOOK}
""",
    "DRIFTED": """
steps:
  - {id: change, mutate: mem0, kind: parameter-removed, tool: get_memory}
  - {id: again, refresh: mem0}
expect:
  - {id: same, no_drift: true}
proves:
  - {claim: the tools are as agreed, by: [same]}
cleanup:
  - {id: mend, heal: mem0}
  - {id: as-before, refresh: mem0}
""",
    "UNREADABLE": """
steps:
  - {id: change, fault: mem0, kind: html}
  - {id: again, refresh: mem0}
expect:
  - {id: same, no_drift: true}
proves:
  - {claim: the tools are as agreed, by: [same]}
cleanup:
  - {id: mend, heal: mem0}
""",
    "UNUSABLE": """
steps:
  - id: write
    call: mem0.add_memory
    with: {text: "The ${nonce} baker keeps yeast.", user_id: "harness-${nonce}", infer: false}
    capture: {memory: {from: result, at: "/results/0/id"}}
    expect:
      - {id: written, audited: success}
  - {id: wait, settle: mem0, by: "${write.memory}"}
proves:
  - {claim: it was written, by: [written]}
""",
    "MOVED-TIME": f"""
steps:
  - {{id: on, advance: 10m}}
  - id: look
    {LOOK}
    expect:
      - {{id: fine, audited: success}}
proves:
  - {{claim: time moves, by: [fine]}}
""",
    "ELSEWHERE": f"""
when: {{level: [live]}}
steps:
  - id: look
    {LOOK}
    expect:
      - {{id: fine, audited: success}}
proves:
  - {{claim: only with the provider itself, by: [fine]}}
""",
}


@dataclass(frozen=True)
class Mixed:
    results: Results
    records: list[EvidenceRecord]
    progress: list[Progress]

    def verdict(self, scenario: str) -> Verdict:
        return next(v for v in self.results.verdicts if v.scenario == scenario)

    def claims(self, scenario: str) -> dict[str, ClaimVerdict]:
        return {claim.claim: claim for claim in self.verdict(scenario).claims}

    def of(self, scenario: str, kind: type) -> Iterator[EvidenceRecord]:
        return (r for r in self.records if isinstance(r, kind) and getattr(r, "item", "").startswith(f"{scenario}["))

    def starts(self) -> list[PlanItemRecord]:
        return [r for r in self.records if isinstance(r, PlanItemRecord) and r.phase == "start"]


def run_all(folder: Path, jobs: int, names: Sequence[str] = tuple(SCENARIOS)) -> Mixed:
    area = folder / "scenarios"
    area.mkdir()
    for name in names:
        (area / f"{name.lower()}.yaml").write_text(HEAD.format(id=name) + SCENARIOS[name].lstrip(), encoding="utf-8")
    evidence = folder / "evidence.jsonl"
    progress: list[Progress] = []
    asyncio.run(run_plan(make_plan([], paths=[area]), jobs=jobs, evidence=evidence, run_id="mixed", listener=progress.append))
    records = read_evidence(evidence)
    return Mixed(judge(records), records, progress)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    return run_all(tmp_path_factory.mktemp("mixed"), jobs=4)


# ---- verdicts and claims


def test_each_scenario_has_its_own_outcome_and_code_whatever_ran_beside_it(mixed: Mixed) -> None:
    assert {v.scenario: (v.outcome, v.exit_code) for v in mixed.results.verdicts} == {
        "PLAIN": ("pass", Exit.OK),
        "ASSERTION": ("fail", Exit.FAILED),
        "MIDWAY": ("fail", Exit.FAILED),
        "UNCAPTURED": ("error", Exit.INCOMPLETE),
        "DRIFTED": ("fail", Exit.DRIFT),
        "UNREADABLE": ("error", Exit.UNREACHABLE),
        "UNUSABLE": ("error", Exit.USAGE),
        "MOVED-TIME": ("pass", Exit.OK),
        "ELSEWHERE": ("not_applicable", Exit.OK),
    }


def test_a_failing_expectation_breaks_the_claims_that_rest_on_it_and_no_other(mixed: Mixed) -> None:
    claims = mixed.claims("ASSERTION")
    assert {text: claim.proven for text, claim in claims.items()} == {"what is wrong": False, "what is right": True, "both": False}
    assert claims["both"].unproven_because.startswith("wrong: ")


def test_what_never_ran_is_not_proven_and_says_so(mixed: Mixed) -> None:
    claims = mixed.claims("MIDWAY")
    assert claims["what ran"].proven
    assert claims["what never ran"].unproven_because == "never-judged was not evaluated"
    assert "never-judged" not in mixed.verdict("MIDWAY").evaluated


def test_an_error_of_the_run_as_a_whole_puts_every_claim_in_doubt(mixed: Mixed) -> None:
    """UNCAPTURED ran its first step well, and yet: what broke off cannot vouch for anything."""
    claims = mixed.claims("UNCAPTURED")
    assert not claims["it looked"].proven
    assert "look.memory" in claims["it looked"].unproven_because
    assert claims["it used"].unproven_because == "used: the step made no call that could be judged"


def test_not_applicable_proves_nothing(mixed: Mixed) -> None:
    (claim,) = mixed.claims("ELSEWHERE").values()
    assert not claim.proven
    assert "level live" in claim.unproven_because


def test_trouble_is_placed_at_its_step(mixed: Mixed) -> None:
    for scenario, step, finding in (("MIDWAY", "broken", "step-broken-off"), ("UNCAPTURED", "use", "untestable"), ("UNUSABLE", "wait", "usage")):
        (found,) = [f for f in mixed.verdict(scenario).findings if f.id == finding]
        assert found.step == step
        assert f"{scenario.lower()}.yaml:" in found.where
        assert found.fix


def test_an_unreadable_provider_says_which_and_what(mixed: Mixed) -> None:
    (found,) = [f for f in mixed.verdict("UNREADABLE").findings if f.id == "unreachable"]
    assert "refresh" in found.message
    assert found.where


# ---- cleanup and restoring


def test_permissions_are_restored_when_a_step_breaks_off_midway(mixed: Mixed) -> None:
    reads = {r.phase: r.data for r in mixed.of("MIDWAY", ControlRecord) if isinstance(r, ControlRecord) and r.action == "access"}
    assert reads["after"] == reads["before"]
    assert reads["before"]["off"] == reads["before"]["ask_first"] == 0
    restored = [
        r.data for r in mixed.of("MIDWAY", ControlRecord) if isinstance(r, ControlRecord) and r.action == "permissions" and r.phase == "cleanup"
    ]
    assert restored == [{"delete_memory": "allowed", "get_memory": "allowed"}]


def test_cleanup_always_runs_and_one_failing_step_keeps_no_other_from_it(mixed: Mixed) -> None:
    steps = [(r.step, r.trouble is None) for r in mixed.of("MIDWAY", StepRecord) if isinstance(r, StepRecord) and r.phase == "cleanup"]
    assert steps == [("fails", True), ("bad-settle", False), ("remove", True)]
    removed = [r for r in mixed.of("MIDWAY", ClientExchange) if isinstance(r, ClientExchange) and r.step == "remove"]
    assert [r.said["outcome"] for r in removed] == ["success"], "what the scenario had forbidden is allowed again by then"
    failed = {f.step for f in mixed.verdict("MIDWAY").findings if f.id == "cleanup-failed"}
    assert failed == {"fails", "bad-settle"}


def test_cleanup_of_what_was_never_made_is_left_out(mixed: Mixed) -> None:
    steps = [(r.step, r.trouble is None) for r in mixed.of("UNCAPTURED", StepRecord) if isinstance(r, StepRecord) and r.phase == "cleanup"]
    assert steps == [("remove", False), ("still-runs", True)]
    assert "cleanup-failed" not in {f.id for f in mixed.verdict("UNCAPTURED").findings}


def test_the_first_trouble_is_the_one_that_is_told(mixed: Mixed) -> None:
    """MIDWAY's cleanup had trouble too."""
    broken = [f for f in mixed.verdict("MIDWAY").findings if f.severity in ("fail", "error") and not f.expectation]
    assert [f.id for f in broken] == ["step-broken-off"]


# ---- side by side


def test_each_item_has_a_tenant_a_mount_a_run_and_values_of_its_own(mixed: Mixed) -> None:
    ran = [s for s in mixed.starts() if not s.not_applicable]
    assert len({s.tenant for s in ran}) == len(ran)
    assert len({s.bindings.get("nonce", s.tenant) for s in ran}) == len(ran)
    ends = [r for r in mixed.records if isinstance(r, PlanItemRecord) and r.phase == "end" and not r.not_applicable and r.gateway_run]
    assert len({r.gateway_run for r in ends}) == len(ran)
    mounts = {r.item: {e.exchange.mount for e in mixed.records if e.kind == "provider_exchange" and e.item == r.item} for r in ends}
    assert all(len(names) == 1 for names in mounts.values())
    assert len({name for names in mounts.values() for name in names}) == len(ran)


def test_evidence_of_one_item_holds_nothing_of_another(mixed: Mixed) -> None:
    tenants = {s.item: s.tenant for s in mixed.starts()}
    for record in mixed.records:
        if isinstance(record, AuditRecord):
            assert record.record["tenant"] == tenants[record.item]


def test_four_at_a_time_overlap_and_one_at_a_time_do_not(mixed: Mixed, tmp_path: Path) -> None:
    def overlaps(records: Sequence[EvidenceRecord]) -> bool:
        phases = [(r.item, r.phase) for r in records if isinstance(r, PlanItemRecord)]
        return any(a[1] == b[1] == "start" for a, b in itertools.pairwise(phases))

    assert overlaps(mixed.records)
    alone = run_all(tmp_path, jobs=1, names=("PLAIN", "ASSERTION"))
    assert not overlaps(alone.records)
    assert alone.verdict("ASSERTION").claims == mixed.verdict("ASSERTION").claims


def test_progress_tells_each_start_and_each_end(mixed: Mixed) -> None:
    states: dict[str, list[str]] = {}
    for progress in mixed.progress:
        states.setdefault(progress.item_id, []).append(progress.state)
    assert len(states) == len(SCENARIOS)
    assert all(seen == ["started", "finished"] for seen in states.values())


def test_a_scenario_that_moves_time_gets_a_gateway_of_its_own(mixed: Mixed) -> None:
    ready = [r for r in mixed.records if isinstance(r, ProcessRecord) and r.event == "ready"]
    assert [r.detail["still"] for r in ready] == [False, True]
    assert len({r.detail["pid"] for r in ready}) == 2
    second = mixed.records.index(ready[1])
    after = {getattr(r, "item", "") for r in mixed.records[second:] if isinstance(r, ClientExchange)}
    assert {item.partition("[")[0] for item in after} == {"MOVED-TIME"}


def test_moved_time_is_seen_by_nobody_else(mixed: Mixed) -> None:
    def minutes(scenario: str) -> set[str]:
        return {str(r.record["at"])[:10] for r in mixed.of(scenario, AuditRecord) if isinstance(r, AuditRecord)}

    assert minutes("PLAIN") != minutes("MOVED-TIME"), "its clock stands in a time of its own"
    assert minutes("PLAIN") == minutes("ASSERTION")


def test_no_credential_and_no_token_is_in_the_evidence(mixed: Mixed) -> None:
    text = "".join(r.model_dump_json() for r in mixed.records)
    assert "synthetic-mem0-" not in text
    assert "Bearer " not in text
