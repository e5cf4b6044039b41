"""Approvals: exactly one claim, the documented trail for every end, expiry on the clock, and crashes."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from reference_gateway.approval import LIFETIME, Approval, ApprovalConflict, ApprovalExpired, Approvals, ApprovalUnknown, Call
from reference_gateway.audit import AuditLog, stamp, verify
from reference_gateway.canonical import NotCarried, arguments_digest
from reference_gateway.store.base import StoreError
from reference_gateway.store.sqlite import SqliteStore

START = datetime(2026, 11, 30, 10, tzinfo=UTC)
PENDING_PAIR = [
    ("policy_decision", "pending", "require_approval", "requires_approval_policy"),
    ("approval_requested", "pending", "require_approval", "requires_approval_policy"),
]
APPROVED = ("approval_resolved", "success", "allow", "approved")
DECLINED = ("approval_resolved", "denied", "deny", "action_declined")
EXPIRED = ("approval_resolved", "denied", "deny", "action_expired")
SUPERSEDED = ("approval_resolved", "denied", "deny", "approved_tool_target_changed")
LOST = ("call_failed", "unknown", "allow", "outcome_unrecorded")


class Clock:
    def __init__(self) -> None:
        self.instant = START

    def now(self) -> datetime:
        return self.instant


class Bench:
    """A store, its audit and its approvals, which can be reopened as after a crash."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()
        self.reopen()

    def reopen(self) -> None:
        self.store = SqliteStore(self.path)
        self.store.open()
        self.audit = AuditLog(self.store, self.clock)
        self.approvals = Approvals(self.store, self.audit, self.clock)

    def trail(self, approval: Approval) -> list[tuple[str, ...]]:
        records = [record for record in self.audit.read(None) if record["approval"] == approval.id]
        return [(record["event"], record["outcome"], record["decision"], record["reason"]) for record in records]

    def started(self, approval: Approval) -> None:
        self.audit.append(**Approvals.record(approval, "call_started", "pending", "allow", "dispatching", "agent:a1"))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "gateway.db")
    yield made
    made.store.close()


def call(number: int = 1, **more: Any) -> Call:
    fields: dict[str, Any] = {
        "tenant": "t1", "run": "r1", "task": "k1", "agent": "a1", "invocation": f"i{number}", "connection": "mem0", "provider": "mem0",
        "tool": "add_memory", "risk": "write", "schema_hash": "5c", "arguments": {"text": f"fact {number}", "n": 10**20}, **more,
    }  # fmt: skip
    return Call(**fields)


def test_a_request_is_pending_for_an_hour_with_its_audit_pair(bench: Bench) -> None:
    asked = bench.approvals.request(call(traceparent="00-a", credential_version=3))
    assert asked.state == "pending"
    assert asked.arguments_digest == arguments_digest({"text": "fact 1", "n": 10**20})
    assert asked.requested_at == stamp(START) == "2026-11-30T10:00:00.000000Z"
    assert asked.expires_at == stamp(START + LIFETIME) == "2026-11-30T11:00:00.000000Z"
    assert bench.approvals.get("t1", asked.id) == asked
    assert asked.credential_version == 3
    assert bench.trail(asked) == PENDING_PAIR
    for record in bench.audit.read("t1"):
        assert (record["actor"], record["invocation"], record["tool"], record["risk"]) == ("agent:a1", "i1", "add_memory", "write")
        assert (record["arguments_digest"], record["schema_hash"], record["traceparent"]) == (asked.arguments_digest, "5c", "00-a")
        assert "fact" not in str(record)


def test_it_reads_as_documented(bench: Bench) -> None:
    shown = bench.approvals.request(call()).public()
    assert list(shown) == [
        "id", "state", "run", "invocation", "connection", "tool", "risk", "arguments", "arguments_digest", "schema_hash",
        "requested_at", "expires_at", "decided_by", "decided_at", "reason", "execution",
    ]  # fmt: skip
    assert shown["arguments"] == {"text": "fact 1", "n": 10**20}
    assert shown["execution"] is None


def test_arguments_without_an_exact_digest_are_refused_and_leave_nothing(bench: Bench) -> None:
    with pytest.raises(NotCarried):
        bench.approvals.request(call(arguments={"n": float("inf")}))
    assert bench.audit.head()[0] == 0
    assert bench.approvals.of("t1") == []


def test_what_the_caller_does_to_its_arguments_later_changes_nothing(bench: Bench) -> None:
    arguments: dict[str, Any] = {"filters": {"user_id": "u1"}}
    asked = bench.approvals.request(call(arguments=arguments))
    arguments["filters"]["user_id"] = "root"
    assert bench.approvals.claim(asked.id, "ann").arguments == {"filters": {"user_id": "u1"}}


def test_approved_executed_and_read_again(bench: Bench) -> None:
    asked = bench.approvals.request(call())
    bench.clock.instant += timedelta(minutes=5)
    claimed = bench.approvals.claim(asked.id, "ann")
    assert (claimed.state, claimed.decided_by, claimed.decided_at) == ("executing", "ann", "2026-11-30T10:05:00.000000Z")
    assert bench.trail(asked) == [*PENDING_PAIR, APPROVED]
    assert bench.audit.read("t1")[-1]["actor"] == "operator:ann"
    done = bench.approvals.finish(asked.id, "success", result={"content": [], "isError": False})
    assert (done.state, done.execution) == ("executed", {"outcome": "success", "invocation": "i1"})
    assert (done.result, done.error) == ({"content": [], "isError": False}, None)
    bench.store.close()
    bench.reopen()
    assert bench.approvals.get("t1", asked.id) == done


@pytest.mark.parametrize(("outcome", "state"), [("success", "executed"), ("tool_error", "failed"), ("timeout", "failed"), ("unknown", "unknown")])
def test_the_end_of_an_execution(bench: Bench, outcome: str, state: str) -> None:
    asked = bench.approvals.claim(bench.approvals.request(call()).id, "ann")
    done = bench.approvals.finish(asked.id, outcome, error={"code": -32000, "message": "m"}, invocation="i9")
    assert (done.state, done.execution, done.error) == (state, {"outcome": outcome, "invocation": "i9"}, {"code": -32000, "message": "m"})
    with pytest.raises(ApprovalConflict):
        bench.approvals.finish(asked.id, "success")


DECIDE: dict[str, Callable[[Approvals, str], Approval]] = {
    "claim": lambda approvals, name: approvals.claim(name, "ann"),
    "reject": lambda approvals, name: approvals.reject(name, "bob", "no"),
    "supersede": lambda approvals, name: approvals.supersede(name, "cat"),
}
DECIDED = {"claim": ("executing", APPROVED), "reject": ("rejected", DECLINED), "supersede": ("cancelled", SUPERSEDED)}


@pytest.mark.parametrize("second", DECIDE)
@pytest.mark.parametrize("first", DECIDE)
def test_a_decision_is_final(bench: Bench, first: str, second: str) -> None:
    asked = bench.approvals.request(call())
    state, record = DECIDED[first]
    assert DECIDE[first](bench.approvals, asked.id).state == state
    with pytest.raises(ApprovalConflict) as caught:
        DECIDE[second](bench.approvals, asked.id)
    assert (caught.value.code, caught.value.state, caught.value.http_status) == ("approval_not_pending", state, 409)
    assert bench.trail(asked) == [*PENDING_PAIR, record]


def test_reasons_and_deciders_are_kept(bench: Bench) -> None:
    rejected = bench.approvals.reject(bench.approvals.request(call()).id, "bob", "not today")
    assert (rejected.decided_by, rejected.reason) == ("bob", "not today")
    cancelled = bench.approvals.supersede(bench.approvals.request(call(2)).id, "cat", "grant_revoked")
    assert (cancelled.decided_by, cancelled.reason) == ("cat", "grant_revoked")
    assert bench.audit.read("t1")[-1]["reason"] == "grant_revoked"


@pytest.mark.parametrize("decision", DECIDE)
def test_expiry_is_exactly_at_60_minutes(bench: Bench, decision: str) -> None:
    early, late = bench.approvals.request(call(1)), bench.approvals.request(call(2))
    bench.clock.instant += timedelta(minutes=60) - timedelta(microseconds=1)
    assert DECIDE[decision](bench.approvals, early.id).state == DECIDED[decision][0]
    bench.clock.instant += timedelta(microseconds=1)
    with pytest.raises(ApprovalExpired) as caught:
        DECIDE[decision](bench.approvals, late.id)
    assert (caught.value.code, caught.value.http_status) == ("action_expired", 409)
    assert bench.approvals.get("t1", late.id).state == "expired"
    assert bench.trail(late) == [*PENDING_PAIR, EXPIRED]
    assert bench.audit.read("t1")[-1]["actor"] == "gateway"


def test_expiring_touches_only_what_is_due_and_only_once(bench: Bench) -> None:
    first = bench.approvals.request(call(1))
    claimed = bench.approvals.claim(bench.approvals.request(call(2)).id, "ann")
    bench.clock.instant += timedelta(minutes=30)
    second = bench.approvals.request(call(3))
    bench.clock.instant += timedelta(minutes=30)
    assert [approval.id for approval in bench.approvals.expire_due()] == [first.id]
    assert bench.approvals.expire_due() == []
    assert [approval.state for approval in bench.approvals.of("t1")] == ["expired", "executing", "pending"]
    assert bench.approvals.finish(claimed.id, "success").state == "executed"
    assert bench.approvals.get("t1", second.id).state == "pending"


def test_others_approvals_do_not_exist(bench: Bench) -> None:
    asked = bench.approvals.request(call())
    for tenant, name in (("t2", asked.id), ("t1", "ap_0"), (None, "ap_0")):
        with pytest.raises(ApprovalUnknown) as caught:
            bench.approvals.get(tenant, name)
        assert caught.value.http_status == 404
    with pytest.raises(ApprovalUnknown):
        bench.approvals.claim("ap_0", "ann")
    assert bench.approvals.of("t2") == []
    assert [approval.id for approval in bench.approvals.of("t1", run="r1", state="pending")] == [asked.id]


def test_the_identical_call_is_run_connection_tool_and_digest(bench: Bench) -> None:
    asked = bench.approvals.request(call())
    find = bench.approvals.find_identical
    assert find("r1", "mem0", "add_memory", asked.arguments_digest) == asked
    assert find("r2", "mem0", "add_memory", asked.arguments_digest) is None
    assert find("r1", "mem", "0add_memory", asked.arguments_digest) is None
    assert find("r1", "mem0", "add_memory", arguments_digest({"text": "fact 1", "n": 10**20 + 1})) is None
    bench.approvals.reject(asked.id, "bob")
    again = bench.approvals.request(call(9, arguments=asked.arguments))
    assert find("r1", "mem0", "add_memory", asked.arguments_digest) == again
    bench.clock.instant += LIFETIME
    found = find("r1", "mem0", "add_memory", asked.arguments_digest)
    assert found is not None
    assert found.state == "expired"


# crashes


def test_after_a_crash_what_was_executing_is_unknown_and_never_runs_again(bench: Bench) -> None:
    waiting = bench.approvals.request(call(1))
    dispatched = bench.approvals.claim(bench.approvals.request(call(2)).id, "ann")
    bench.started(dispatched)
    claimed_only = bench.approvals.claim(bench.approvals.request(call(3)).id, "ann")
    bench.store.close()
    bench.reopen()
    assert [approval.id for approval in bench.approvals.recover()] == [dispatched.id, claimed_only.id]
    assert bench.approvals.recover() == []
    assert bench.approvals.get("t1", waiting.id) == waiting
    lost = bench.approvals.get("t1", dispatched.id)
    assert (lost.state, lost.execution, lost.reason) == ("unknown", {"outcome": "unknown", "invocation": "i2"}, "outcome_unrecorded")
    assert bench.trail(dispatched) == [*PENDING_PAIR, APPROVED, ("call_started", "pending", "allow", "dispatching"), LOST]
    # Without a call_started nothing left the gateway, so there is no call to have failed.
    assert bench.trail(claimed_only) == [*PENDING_PAIR, APPROVED]
    with pytest.raises(ApprovalConflict):
        bench.approvals.claim(dispatched.id, "ann")


def test_outcome_and_audit_are_one_transaction(bench: Bench) -> None:
    claimed = bench.approvals.claim(bench.approvals.request(call()).id, "ann")
    bench.started(claimed)

    def crash_between() -> None:
        with bench.store.transaction():
            bench.audit.append(**Approvals.record(claimed, "call_completed", "success", "allow", "tool_completed", "agent:a1"))
            bench.approvals.finish(claimed.id, "success")
            raise StoreError("store_unwritable", "full")

    with pytest.raises(StoreError):
        crash_between()
    assert bench.approvals.get("t1", claimed.id).state == "executing"
    assert bench.trail(claimed)[-1][0] == "call_started"


# races


def test_of_many_deciders_with_connections_of_their_own_one_wins(tmp_path: Path) -> None:
    """Four contenders claim, reject and supersede the same approvals; each approval has one winner and one resolution on record."""
    bench = Bench(tmp_path / "gateway.db")
    asked = [bench.approvals.request(call(number)) for number in range(15)]
    won: list[tuple[str, str]] = []
    start = threading.Barrier(4)

    def contend(decision: str) -> None:
        mine = SqliteStore(bench.path)
        mine.open()
        approvals = Approvals(mine, AuditLog(mine, bench.clock), bench.clock)
        start.wait()
        for approval in asked:
            while True:
                try:
                    won.append((approval.id, DECIDE[decision](approvals, approval.id).state))
                except ApprovalConflict:
                    pass
                except StoreError as error:
                    if error.code == "store_busy":  # a loaded machine: ask again, as an operator would
                        continue
                    raise
                break
        mine.close()

    threads = [threading.Thread(target=contend, args=(decision,)) for decision in ("claim", "claim", "reject", "supersede")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted((approval.id, approval.state) for approval in bench.approvals.of("t1"))
    assert sorted(name for name, _ in won) == sorted(approval.id for approval in asked)
    for approval in asked:
        assert len(bench.trail(approval)) == 3
    assert verify(bench.audit.read(None), head=bench.audit.head()) == []
    bench.store.close()


class Life(RuleBasedStateMachine):
    """Any order of requests, decisions, time and crashes: the model says what each approval may be, and the audit agrees with it."""

    asked = Bundle("asked")

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.bench = Bench(Path(self.folder.name) / "gateway.db")
        self.model: dict[str, str] = {}
        self.trails: dict[str, list[tuple[str, ...]]] = {}
        self.due: dict[str, datetime] = {}
        self.number = 0

    def teardown(self) -> None:
        self.bench.store.close()
        self.folder.cleanup()

    def _tick(self) -> None:
        for name, instant in self.due.items():
            if self.model[name] == "pending" and self.bench.clock.instant >= instant:
                self._move(name, "expired", EXPIRED)

    def _move(self, name: str, state: str, *records: tuple[str, ...]) -> None:
        self.model[name] = state
        self.trails[name] += records

    @rule(target=asked)
    def request(self) -> str:
        self.number += 1
        name = self.bench.approvals.request(call(self.number)).id
        self.model[name], self.trails[name], self.due[name] = "pending", list(PENDING_PAIR), self.bench.clock.instant + LIFETIME
        return name

    @rule(name=asked, decision=st.sampled_from(sorted(DECIDE)))
    def decide(self, name: str, decision: str) -> None:
        self._tick()
        state, record = DECIDED[decision]
        if self.model[name] == "pending":
            assert DECIDE[decision](self.bench.approvals, name).state == state
            self._move(name, state, record)
        else:
            with pytest.raises(ApprovalExpired if self.model[name] == "expired" else ApprovalConflict):
                DECIDE[decision](self.bench.approvals, name)

    @rule(name=asked, outcome=st.sampled_from(["success", "tool_error", "unknown"]))
    def finish(self, name: str, outcome: str) -> None:
        self._tick()
        try:
            state = self.bench.approvals.finish(name, outcome).state
        except ApprovalConflict:
            assert self.model[name] != "executing"
        else:
            assert self.model[name] == "executing"
            self._move(name, state)

    @rule(minutes=st.integers(1, 45))
    def wait(self, minutes: int) -> None:
        self.bench.clock.instant += timedelta(minutes=minutes)

    @rule()
    def expire(self) -> None:
        self._tick()
        self.bench.approvals.expire_due()

    @rule()
    def crash(self) -> None:
        self.bench.store.close()
        self.bench.reopen()
        self.bench.approvals.recover()
        for name, state in self.model.items():
            if state == "executing":
                self._move(name, "unknown")

    @invariant()
    def audit_and_states_agree_with_the_model(self) -> None:
        self._tick()
        for approval in self.bench.approvals.of("t1"):
            assert approval.state == self.model[approval.id]
            assert self.bench.trail(approval) == self.trails[approval.id]
            assert self.trails[approval.id].count(APPROVED) <= 1
        assert verify(self.bench.audit.read(None), head=self.bench.audit.head()) == []


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
