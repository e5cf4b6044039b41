"""The gate on prepared runs: every rule holds and breaks, every exit code is reached, and each answer explains itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import jsonschema
import pytest

from harness.claims.runs import StoredRun
from harness.errors import CredentialsMissing, Incomplete, LoadError, Unreachable
from harness.gate.answer import GateAnswer, RuleAnswer, json_schema
from harness.gate.decide import decide
from harness.gate.policy import Policy, parse_policy
from harness.gate.render import document, markdown, text
from harness.gate.sightings import fingerprint
from harness.model.finding import Finding
from harness.model.verdict import ClaimVerdict, ToolCoverage, Verdict
from harness.model.waiver import Waiver, Where

Make = Callable[..., Any]
AGREED = {"mem0": ("add_memory", "get_memory")}


def policy(rest: str = "providers: {any: {level: local}}") -> Policy:
    return parse_policy(f"policy: p\nrequire: [tag:release]\n{rest}\n", "release.yaml")


def judged(rules: Policy, *runs: StoredRun, at: datetime, **more: Any) -> GateAnswer:
    found = decide(rules, runs, now=at, agreed=AGREED, **more)
    jsonschema.validate(found.model_dump(mode="json", by_alias=True), json_schema())
    for answer in found.rules:
        assert answer.holds == (answer.exit_code == 0)
        assert answer.holds or (answer.broken and answer.green) or answer.about == "no run"
        assert all(line in text(found, explain=True) for line in (*answer.broken, *answer.green))
    assert document(found)
    assert markdown(found, explain=True)
    return found


def rule(found: GateAnswer, word: str) -> RuleAnswer:
    return next(answer for answer in found.rules if answer.rule == word)


def waiver(**changes: Any) -> Waiver:
    fields: dict[str, Any] = {"finding": "dispatched", "where": Where(scenario="MEM-1"), "owner": "jane", "reason": "r", "issue": "i"}
    return Waiver(**(fields | {"expires": "2026-12-31"} | changes))


def test_good_evidence_is_yes(run: Make, verdict: Make, now: datetime) -> None:
    found = judged(policy(), run(verdict()), at=now)
    assert (found.accepted, found.exit_code) == (True, 0)
    (proof,) = rule(found, "require").evidence
    assert (proof.item, proof.level, proof.run) == ("MEM-1[live,reference,2026-07-28]", "live", "r1")
    assert text(found).splitlines()[:2] == ["Evidence level: live", "YES: policy p, 2 of 2 rules hold, exit code 0"]


@pytest.mark.parametrize(
    ("outcome", "severity", "code"),
    [("fail", "fail", 1), ("error", "error", 2), ("error", "error", 3), ("error", "error", 4), ("error", "error", 5), ("fail", "drift", 6)],
)
def test_every_exit_code_is_reached(run: Make, verdict: Make, finding: Make, now: datetime, outcome: str, severity: str, code: int) -> None:
    red = verdict("MEM-1", "live", outcome, finding(severity=severity), exit_code=code)
    found = judged(policy(), run(red), at=now)
    assert found.exit_code == code
    assert not found.accepted


@pytest.mark.parametrize(
    "error", [LoadError("bad", where="x:1"), CredentialsMissing("none"), Unreachable("gone"), Incomplete("cut short", fix="again")]
)
def test_a_run_that_cannot_be_read_is_a_broken_rule_with_its_own_code(run: Make, verdict: Make, now: datetime, error: Any) -> None:
    found = decide(policy(), [run(verdict())], now=now, unreadable={"bad": error})
    assert found.exit_code == int(error.exit_code)
    assert rule(found, "require").holds, "the good run was looked at all the same"


def test_no_run_at_all_is_incomplete(now: datetime) -> None:
    assert decide(policy(), [], now=now).exit_code == 5


def test_a_fake_is_no_proof_unless_the_policy_says_so(run: Make, verdict: Make, now: datetime) -> None:
    fake = run(verdict("MEM-1", "fake"))
    found = judged(policy(), fake, at=now)
    assert found.exit_code == 5
    assert "is fake evidence, local is the least that counts" in rule(found, "require").broken[0]
    assert rule(found, "require").green == ("harness run MEM-1 --level local",)
    assert judged(policy(""), fake, at=now).exit_code == 5, "without a word on levels, too"
    assert judged(policy("providers: {any: {level: fake}}"), fake, at=now).accepted


def test_a_live_run_that_rests_on_a_fake_leg_counts_as_fake(run: Make, verdict: Make, now: datetime) -> None:
    claim = ClaimVerdict(claim="recalled", proven=True, level="fake", by=("x",))
    found = judged(policy(), run(verdict(claims=(claim,))), at=now)
    assert found.exit_code == 5


def test_a_pass_with_an_unproven_claim_is_not_enough(run: Make, verdict: Make, now: datetime) -> None:
    claim = ClaimVerdict(claim="recalled", proven=False, level="live", by=("x",), unproven_because="x was not evaluated")
    found = judged(policy(), run(verdict(claims=(claim,))), at=now)
    assert found.exit_code == 5
    assert "x was not evaluated" in rule(found, "require").broken[0]


@pytest.mark.parametrize("known", [{"MEM-2": ("release",)}, {"MEM-2": ("release",), "MEM-3": ()}])
def test_a_required_scenario_that_was_not_run_breaks(run: Make, verdict: Make, now: datetime, known: dict[str, Any]) -> None:
    found = judged(policy(), run(verdict()), at=now, known=known)
    assert found.exit_code == 5
    assert rule(found, "require").broken == ("MEM-2 was not run",)


def test_not_applicable_never_satisfies(run: Make, verdict: Make, now: datetime) -> None:
    found = judged(policy(), run(verdict("MEM-1", "live", "not_applicable")), at=now)
    assert found.exit_code == 5


def test_a_selector_that_selects_nothing_breaks(run: Make, verdict: Make, now: datetime) -> None:
    found = judged(policy(), run(verdict(tags=())), at=now)
    assert rule(found, "require").broken == ("nothing is selected by tag:release",)


def test_age_is_bounded_and_the_future_refused(run: Make, verdict: Make, now: datetime) -> None:
    rules = policy("providers: {mem0: {level: live, max_age: 7d}}")
    assert judged(rules, run(verdict(), days=7), at=now).accepted
    stale = judged(rules, run(verdict(), days=7.5), at=now)
    assert stale.exit_code == 5
    assert "7.5d old, at most 7d is allowed" in rule(stale, "provider").broken[0]
    assert not rule(stale, "require").holds
    ahead = judged(rules, run(verdict(), days=-1), at=now)
    assert "dated in the future" in rule(ahead, "require").broken[0]
    assert not judged(policy(), run(verdict(), days=-1), at=now).accepted


def test_the_newest_evidence_decides_in_both_directions(run: Make, verdict: Make, finding: Make, now: datetime) -> None:
    good, bad = verdict(), verdict("MEM-1", "live", "fail", finding())
    assert judged(policy(), run(bad, days=2, run="a"), run(good, days=1, run="b"), at=now).accepted
    assert judged(policy(), run(good, days=2, run="a"), run(bad, days=1, run="b"), at=now).exit_code == 1
    assert judged(policy(), run(bad, days=1, run="b"), run(good, days=2, run="a"), at=now).exit_code == 1, "the order of arguments is nothing"


def test_a_run_broken_on_purpose_proves_nothing(run: Make, verdict: Make, now: datetime) -> None:
    found = judged(policy(), run(verdict(), broken=True), at=now)
    assert found.exit_code == 5
    assert "broken on purpose" in rule(found, "evidence").broken[0]
    assert not rule(found, "require").holds


def test_a_run_that_is_not_whole_breaks(run: Make, verdict: Make, now: datetime) -> None:
    cut = judged(policy(), run(verdict(), ended=False), at=now)
    assert rule(cut, "evidence").broken == ("the run did not come to its end",)
    short = judged(policy(), run(verdict(), planned=("MEM-9[live,reference,2026-07-28]",)), at=now)
    assert "was planned and left no evidence" in rule(short, "evidence").broken[0]
    assert (cut.exit_code, short.exit_code) == (5, 5)


def test_drift_allowance(run: Make, verdict: Make, finding: Make, now: datetime) -> None:
    drifted = verdict("DISCOVER", "live", "fail", finding(id="tool-removed", severity="drift"), exit_code=6, tags=())
    runs = (run(verdict(), drifted),)
    none = judged(policy("drift: {at_most: 0}"), *runs, at=now)
    assert none.exit_code == 6
    assert "tool-removed" in rule(none, "drift").broken[0]
    assert judged(policy("drift: {at_most: 1}"), *runs, at=now).accepted
    unseen = judged(policy("drift: {at_most: 1}"), run(verdict(counts={})), at=now)
    assert unseen.exit_code == 5, "nothing compared is no proof of no drift"


def test_coverage_floor(run: Make, verdict: Make, now: datetime) -> None:
    half = judged(policy("coverage: [{level: live, agreed: 50}]"), run(verdict()), at=now)
    assert half.accepted
    most = judged(policy("coverage: [{level: live, agreed: 51}]"), run(verdict()), at=now)
    assert most.exit_code == 5
    assert "missing: mem0.get_memory" in rule(most, "coverage").broken[0]
    below = verdict(tools=(ToolCoverage(provider="mem0", tool="add_memory", state="agreed", level="fake"),))
    assert judged(policy("coverage: [{level: local, listed: 1}]"), run(below), at=now).exit_code == 5
    only = judged(policy("coverage: [{provider: zep, level: live, listed: 1}]"), run(verdict()), at=now)
    assert rule(only, "coverage").broken == ("there is no agreed tool to cover",)
    stray = verdict(tools=(ToolCoverage(provider="mem0", tool="unknown", state="agreed", level="live"),))
    assert judged(policy("coverage: [{level: live, listed: 1}]"), run(stray), at=now).exit_code == 5


def test_budget(run: Make, verdict: Make, now: datetime) -> None:
    slow = run(verdict(seconds=10.0, time_to_visible_s={"recall": 4.0}))
    assert judged(policy("budget: [{select: 'MEM-*', seconds: 10s, visible: 4s}]"), slow, at=now).accepted
    both = judged(policy("budget: [{select: MEM-1, seconds: 9s, visible: 3s}]"), slow, at=now)
    assert both.exit_code == 1
    assert len(rule(both, "budget").broken) == 2
    assert judged(policy("budget: [{select: ZEP, seconds: 9s}]"), slow, at=now).exit_code == 5


WAIVED = policy("waivers: waivers.yaml")


def test_an_expected_failure_is_accepted_and_says_so(run: Make, verdict: Make, finding: Make, now: datetime) -> None:
    red = run(verdict("MEM-1", "live", "fail", finding()))
    found = judged(WAIVED, red, at=now, waivers=(waiver(),))
    assert found.accepted
    assert "fails as accepted by jane (i); its claims are not proven" in rule(found, "require").notes[0]
    exact = waiver(fingerprint=fingerprint(red.results.verdicts[0], finding()))
    assert judged(WAIVED, red, at=now, waivers=(exact,)).accepted


def test_a_baseline_entry_that_now_passes_turns_the_gate_red(run: Make, verdict: Make, now: datetime) -> None:
    found = judged(WAIVED, run(verdict()), at=now, waivers=(waiver(),))
    assert found.exit_code == 1
    assert "unused: MEM-1 now passes" in rule(found, "waivers").broken[0]
    assert rule(found, "waivers").green == ("remove the waiver of jane",)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"expires": "2026-11-29"}, "expired on 2026-11-29"),
        ({"fingerprint": "0" * 32}, "stale"),
        ({"finding": "pending"}, "unused: MEM-1 no longer finds it"),
    ],
)
def test_an_entry_that_is_not_what_it_was_breaks(run: Make, verdict: Make, finding: Make, now: datetime, changes: dict[str, Any], word: str) -> None:
    found = judged(WAIVED, run(verdict("MEM-1", "live", "fail", finding())), at=now, waivers=(waiver(**changes),))
    assert found.exit_code == 1
    assert word in rule(found, "waivers").broken[0]
    assert not rule(found, "require").holds, "and it accepts nothing"


def test_a_waiver_holds_to_the_end_of_its_last_day(run: Make, verdict: Make, finding: Make, now: datetime) -> None:
    red, last = run(verdict("MEM-1", "live", "fail", finding())), (waiver(expires="2026-11-30"),)
    assert judged(WAIVED, red, at=now, waivers=last).accepted
    assert not judged(WAIVED, red, at=now + timedelta(days=1), waivers=last).accepted


def test_what_was_not_run_leaves_a_waiver_unjudged(run: Make, verdict: Make, now: datetime) -> None:
    found = judged(WAIVED, run(verdict()), at=now, waivers=(waiver(where=Where(scenario="MEM-7")),))
    assert found.accepted
    assert any("nobody can tell" in note for note in rule(found, "waivers").notes)
    other = waiver(where=Where(scenario="MEM-1", provider="zep"))
    assert judged(WAIVED, run(verdict()), at=now, waivers=(other,)).accepted


def test_what_could_not_be_told_is_never_accepted(run: Make, verdict: Make, finding: Make, now: datetime) -> None:
    blind = run(verdict("MEM-1", "live", "error", finding(id="witness-blind", severity="error")))
    found = judged(WAIVED, blind, at=now, waivers=(waiver(finding="witness-blind"),))
    assert found.exit_code == 5


def test_one_accepted_finding_does_not_accept_another(run: Make, verdict: Make, finding: Make, now: datetime) -> None:
    red = run(verdict("MEM-1", "live", "fail", finding(), finding(id="secret-seen")))
    found = judged(WAIVED, red, at=now, waivers=(waiver(),))
    assert found.exit_code == 1
    assert all("secret-seen" in line for line in rule(found, "require").broken)


def test_hostile_words_steer_nothing(run: Make, verdict: Make, finding: Make, now: datetime) -> None:
    evil: Finding = finding(message="\x1b[2J<script>|a|\n@all")
    red: Verdict = verdict("MEM-1", "live", "fail", evil)
    found = decide(policy(), [run(red)], now=now)
    assert "\x1b" not in text(found, explain=True)
    assert "<script>" not in markdown(found)
    assert "\x1b" not in markdown(found)
