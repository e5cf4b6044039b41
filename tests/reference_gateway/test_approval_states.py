"""Every state of an approval against every event; arguments that only look alike; and whatever may change between request and approval."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reference_gateway.app import Gateway, Options, opened_store
from reference_gateway.approval import LIFETIME, Approval, ApprovalConflict, ApprovalExpired, Approvals, Call
from reference_gateway.audit import AuditLog
from reference_gateway.clock import TestClock
from reference_gateway.store.base import Store
from reference_gateway.store.sqlite import SqliteStore

from .conftest import OPERATOR_TOKEN, PENDING, SECRET, Bench, Operator, Provider, Refused, Served

STATES = ("pending", "executing", "executed", "failed", "rejected", "expired", "cancelled", "unknown")
LATER = LIFETIME.total_seconds() + 1


class Desk:
    """Approvals over a store of their own, on a clock that stands still."""

    def __init__(self, path: Path) -> None:
        self.clock = TestClock()
        self.store: Store = SqliteStore(path)
        self.store.open()
        self.audit = AuditLog(self.store, self.clock)
        self.approvals = Approvals(self.store, self.audit, self.clock)

    def later(self) -> None:
        self.clock._elapsed += LIFETIME * 2

    def made(self, state: str) -> Approval:
        """An approval that has come into this state by the ways there are."""
        asked = self.approvals.request(
            Call(
                tenant="t", run="r", task="k", agent="a", invocation="i", connection="c", provider="p", tool="x", risk="write",
                schema_hash="5c", arguments={"n": 1},
            )
        )  # fmt: skip
        if state in ("executing", "executed", "failed", "unknown"):
            self.approvals.claim(asked.id, "ann")
        if state in ("executed", "failed", "unknown"):
            self.approvals.finish(asked.id, {"executed": "success", "failed": "tool_error", "unknown": "unknown"}[state])
        elif state == "rejected":
            self.approvals.reject(asked.id, "ann")
        elif state == "cancelled":
            self.approvals.supersede(asked.id, "ann")
        elif state == "expired":
            self.later()
        return self.approvals.get("t", asked.id)


EVENTS: dict[str, Callable[[Desk, str], Any]] = {
    "approve": lambda desk, approval: desk.approvals.claim(approval, "bob"),
    "reject": lambda desk, approval: desk.approvals.reject(approval, "bob"),
    "supersede": lambda desk, approval: desk.approvals.supersede(approval, "bob"),
    "succeed": lambda desk, approval: desk.approvals.finish(approval, "success"),
    "fail": lambda desk, approval: desk.approvals.finish(approval, "timeout"),
    "an hour": lambda desk, approval: (desk.later(), desk.approvals.expire_due()),
    "restart": lambda desk, approval: desk.approvals.recover(),
    "run ends": lambda desk, approval: desk.approvals.withdraw("t", "r", "operator:bob"),
}
WITHOUT_ASKING = ("an hour", "restart", "run ends")
"""Nobody decides about this one approval, so where nothing is to be done nobody is refused."""
LEADS = {
    ("pending", "approve"): "executing",
    ("pending", "reject"): "rejected",
    ("pending", "supersede"): "cancelled",
    ("pending", "an hour"): "expired",
    ("pending", "run ends"): "cancelled",
    ("executing", "succeed"): "executed",
    ("executing", "fail"): "failed",
    ("executing", "restart"): "unknown",
}
"""All transitions there are. Every other pair leaves the state as it is, and a person's or an execution's is refused."""


@pytest.mark.parametrize(("state", "event"), list(itertools.product(STATES, EVENTS)))
def test_every_state_meets_every_event(tmp_path: Path, state: str, event: str) -> None:
    desk = Desk(tmp_path / "gateway.db")
    try:
        before = desk.made(state)
        assert before.state == state
        if (state, event) in LEADS or event in WITHOUT_ASKING:
            EVENTS[event](desk, before.id)
        else:
            error = ApprovalExpired if state == "expired" and event in ("approve", "reject", "supersede") else ApprovalConflict
            with pytest.raises(error):
                EVENTS[event](desk, before.id)
        after = desk.approvals.get("t", before.id)
        assert after.state == LEADS.get((state, event), state)
        if after.state == state:
            assert after == before
        resolved = [r for r in desk.audit.read("t") if r["event"] == "approval_resolved"]
        assert len(resolved) == (after.state != "pending")
    finally:
        desk.store.close()


# arguments that only look alike

ALIKE = [
    ({"n": 7}, {"n": "7"}),
    ({"n": True}, {"n": 1}),
    ({"n": False}, {"n": 0}),
    ({"n": None}, {}),
    ({"n": []}, {"n": {}}),
    ({"n": ""}, {"n": " "}),
    ({"n": 10**20}, {"n": 10**20 + 1}),
    ({"n": 2**53}, {"n": 2**53 + 1}),
    ({"n": [1, 2]}, {"n": [2, 1]}),
    ({"n": unicodedata.normalize("NFC", "é")}, {"n": unicodedata.normalize("NFD", "é")}),
    ({"a": {"b": 1}}, {"a": {"b": 1, "c": None}}),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_an_approval_is_for_these_very_arguments(bench: Bench, one: dict[str, Any], other: dict[str, Any]) -> None:
    bench.permit(get_echo="ask_first")
    _, token = bench.run()
    held = bench.call(token, "get_echo", one)["_meta"]["gateway/approval"]["id"]
    bench.op("POST", f"/approvals/{held}/approve", {"by": "ann"})
    again = bench.call(token, "get_echo", other)["_meta"]
    assert again["gateway/outcome"] == "pending"
    assert again["gateway/approval"]["id"] != held
    assert [call["arguments"] for call in bench.provider.calls] == [one]


def test_the_order_of_keys_makes_no_other_call(bench: Bench) -> None:
    bench.permit(get_echo="ask_first")
    _, token = bench.run()
    first, second = (bench.call(token, "get_echo", each)["_meta"]["gateway/approval"]["id"] for each in ({"a": 1, "b": 2}, {"b": 2, "a": 1}))
    assert first == second


# between request and approval

CHANGES: dict[str, Callable[[Bench, str], Any]] = {
    "policy": lambda bench, run: bench.op("PUT", "/policies", {"policies": [{"id": "x", "permission": "off", "risks": ["write"]}]}),
    "agents": lambda bench, run: bench.op("PUT", "/connections/notes/agents", {"agents": []}),
    "mode": lambda bench, run: bench.op("POST", f"/runs/{run}/mode", {"mode": "ask"}),
    "task": lambda bench, run: bench.run(takes_task=True),
    "grant": lambda bench, run: bench.op("POST", "/connections/notes/revoke"),
    "permission": lambda bench, run: bench.permit(add_note="off"),
    "audience": lambda bench, run: bench.op("PUT", "/connections/notes/audience", {"audience": []}),
    "pause": lambda bench, run: bench.op("POST", "/connections/notes/state", {"state": "paused"}),
    "deletion": lambda bench, run: bench.op("DELETE", "/connections/notes"),
    "credential": lambda bench, run: bench.op("POST", "/connections/notes/rotate", {"values": {"credentials.authorization": SECRET}}),
    "fixed argument": lambda bench, run: bench.op("PUT", "/connections/notes/managed", {"managed": {"text": "fixed"}}),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changed_since_the_request_is_not_executed(bench: Bench, what: str) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run()
    held = bench.call(token, "add_note", {"text": "x"})["_meta"]["gateway/approval"]["id"]
    CHANGES[what](bench, run)
    answer = bench.op("POST", f"/approvals/{held}/approve", {"by": "ann"})
    assert (answer["approval"]["state"], answer["error"]["code"]) == ("cancelled", "approved_tool_target_changed")
    assert bench.trail(run) == [*PENDING, ("approval_resolved", "denied", "deny", "approved_tool_target_changed")]
    assert bench.provider.calls == []


def test_what_waits_in_a_run_that_ends_is_cancelled_and_what_waits_in_others_is_not(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run()
    other, others = bench.run()
    first, second = (bench.call(token, "add_note", {"text": text})["_meta"]["gateway/approval"]["id"] for text in ("x", "y"))
    elsewhere = bench.call(others, "add_note", {"text": "x"})["_meta"]["gateway/approval"]["id"]
    bench.op("POST", f"/approvals/{first}/reject", {"by": "ann"})
    for _ in range(2):
        bench.op("POST", f"/runs/{run}/end")
    ended = bench.op("GET", f"/approvals/{second}")
    assert (ended["state"], ended["reason"], ended["decided_by"], ended["execution"]) == ("cancelled", "run_ended", None, None)
    assert ended["decided_at"] is not None
    assert bench.op("GET", f"/approvals/{first}")["state"] == "rejected"
    assert bench.trail(run)[-1] == ("approval_resolved", "denied", "deny", "run_ended")
    assert [r["event"] for r in bench.records(run)][-2:] == ["run_ended", "approval_resolved"]
    assert bench.records(run)[-1]["actor"] == "operator:operator"
    for decision in ("approve", "reject"):
        with pytest.raises(Refused) as refused:
            bench.op("POST", f"/approvals/{second}/{decision}", {"by": "ann"})
        assert (refused.value.code, refused.value.error["state"]) == ("approval_not_pending", "cancelled")
    assert bench.op("POST", f"/approvals/{elsewhere}/approve", {"by": "ann"})["approval"]["state"] == "executed"
    assert [call["arguments"] for call in bench.provider.calls] == [{"text": "x"}]
    assert bench.trail(other)[-1] == ("call_completed", "success", "allow", "tool_completed")


def test_arguments_that_were_changed_in_the_store_are_not_executed(provider: Provider) -> None:
    settings = Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, test_clock=True, experimental=("memory_connectors",))
    with opened_store(None) as store, Served(Gateway(settings, store, lambda: None).asgi()) as served:
        operator = Operator(f"http://127.0.0.1:{served.port}")
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.connect(permissions={"add_note": "ask_first"})
        _, token = bench.run()
        held = bench.call(token, "add_note", {"text": "harmless"})["_meta"]["gateway/approval"]["id"]
        assert store.approval_transition(held, "pending", "pending", arguments={"text": "harmful"})
        assert bench.op("POST", f"/approvals/{held}/approve", {"by": "ann"})["approval"]["state"] == "cancelled"
        assert provider.calls == []
        operator.http.close()


def test_what_waits_in_one_run_is_nothing_to_another_run_agent_or_tenant(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    _, token = bench.run()
    held = bench.call(token, "add_note", {"text": "x"})["_meta"]["gateway/approval"]["id"]
    bench.op("POST", f"/approvals/{held}/approve", {"by": "ann"})
    for more in ({}, {"agent": "agent-2"}, {"task": "task-2"}):
        _, other = bench.run(**more)
        meta = bench.call(other, "add_note", {"text": "x"})["_meta"]
        assert (meta["gateway/outcome"], meta["gateway/approval"]["id"] == held) == ("pending", False)
    stranger = Bench(bench.operator, bench.provider, bench.operator("POST", "/tenants", {})["tenant"])
    for method, path, body in (("GET", "", None), ("GET", "/outcome", None), ("POST", "/approve", {"by": "eve"}), ("POST", "/reject", {"by": "eve"})):
        with pytest.raises(Refused) as refused:
            stranger.op(method, f"/approvals/{held}{path}", body)
        assert (refused.value.status, refused.value.code) == (404, "approval_unknown")
    assert len(bench.provider.calls) == 1
