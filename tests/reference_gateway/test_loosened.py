"""A tool that asked first and asks nobody any more: what waited for it is withdrawn, and the call that the agent makes instead is the only one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reference_gateway.app import opened_store

from .conftest import PENDING, Bench, Refused, denied
from .test_identical import approve, two_gateways

NOTE = {"text": "x"}
CHANGED = "approved_tool_target_changed"
WITHDRAWN = ("approval_resolved", "denied", "deny", CHANGED)


def policies(bench: Bench, *policies: dict[str, Any]) -> None:
    bench.op("PUT", "/policies", {"policies": list(policies)})


ASKS: dict[str, Any] = {"id": "ask", "permission": "ask_first", "tools": ["add_note"]}
WAYS: dict[str, tuple[Callable[[Bench], None], Callable[[Bench], None]]] = {
    "word": (lambda bench: bench.permit(add_note="ask_first"), lambda bench: bench.permit(add_note="allowed")),
    "policy": (lambda bench: policies(bench, ASKS), lambda bench: policies(bench)),
    "policy for others": (lambda bench: policies(bench, ASKS), lambda bench: policies(bench, {**ASKS, "agents": ["agent-2"]})),
}


def held(bench: Bench, token: str, tool: str = "add_note") -> str:
    approval: str = bench.call(token, tool, NOTE)["_meta"]["gateway/approval"]["id"]
    return approval


@pytest.mark.parametrize("way", WAYS)
def test_what_waits_is_withdrawn_when_nobody_has_to_be_asked_any_more(bench: Bench, way: str) -> None:
    tighten, loosen = WAYS[way]
    tighten(bench)
    run, token = bench.run()
    approval = held(bench, token)
    loosen(bench)
    shown = bench.op("GET", f"/approvals/{approval}")
    assert (shown["state"], shown["reason"], shown["decided_by"]) == ("cancelled", CHANGED, None)
    assert bench.trail(run) == [*PENDING, WITHDRAWN]
    assert bench.records(run)[-1]["actor"] == "operator:operator"
    assert bench.call(token, "add_note", NOTE)["_meta"]["gateway/outcome"] == "success"
    tighten(bench)  # and it does not come to life when the tool asks again
    with pytest.raises(Refused) as refused:
        approve(bench, approval)
    assert (refused.value.code, refused.value.error["state"]) == ("approval_not_pending", "cancelled")
    assert [call["arguments"] for call in bench.provider.calls] == [NOTE]


def test_what_still_has_to_be_asked_goes_on_waiting(bench: Bench) -> None:
    bench.permit(add_note="ask_first", get_echo="ask_first")
    policies(bench, ASKS)
    _, token = bench.run()
    approvals = [held(bench, token), held(bench, token, "get_echo")]
    bench.permit(add_note="allowed")  # the policy still asks
    assert [bench.op("GET", f"/approvals/{each}")["state"] for each in approvals] == ["pending", "pending"]
    policies(bench)
    assert [bench.op("GET", f"/approvals/{each}")["state"] for each in approvals] == ["cancelled", "pending"]
    assert approve(bench, approvals[1])["approval"]["state"] == "executed"


def test_what_waits_for_a_tool_that_is_off_is_left_to_whoever_decides(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run()
    approval = held(bench, token)
    bench.permit(add_note="off")
    assert bench.op("GET", f"/approvals/{approval}")["state"] == "pending"
    assert bench.call(token, "add_note", NOTE)["_meta"]["gateway/reason"] == "tool_off"
    assert bench.trail(run) == [*PENDING, *denied("tool_off")]


def test_other_tenants_go_on_waiting(bench: Bench) -> None:
    other = Bench(bench.operator, bench.provider, bench.operator("POST", "/tenants", {})["tenant"])
    other.connect(permissions={"add_note": "ask_first"})
    approval = held(other, other.run()[1])
    bench.permit(add_note="allowed")
    assert other.op("GET", f"/approvals/{approval}")["state"] == "pending"


def test_a_change_at_one_gateway_withdraws_what_waits_at_another(tmp_path: Path) -> None:
    with two_gateways(str(tmp_path / "gateway.db")) as (bench, other):
        _, token = bench.run()
        approval = held(bench, token)
        other.permit(add_note="allowed")
        assert bench.op("GET", f"/approvals/{approval}")["state"] == "cancelled"
        assert bench.call(token, "add_note", NOTE)["_meta"]["gateway/outcome"] == "success"


def test_a_request_that_was_made_too_late_to_be_withdrawn_is_not_executed(tmp_path: Path) -> None:
    """As by a gateway that had judged the call just before the change."""
    path = str(tmp_path / "gateway.db")
    with two_gateways(path) as (bench, _), opened_store(path) as store:
        run, token = bench.run()
        approval = held(bench, token)
        bench.permit(add_note="allowed")
        assert store.approval_transition(approval, "cancelled", "pending")
        answer = approve(bench, approval)
        assert (answer["approval"]["state"], answer["error"]["code"]) == ("cancelled", CHANGED)
        assert bench.trail(run) == [*PENDING, WITHDRAWN, WITHDRAWN]
        assert bench.provider.calls == []
