"""ctrlrun's lines in the audit's words."""

from __future__ import annotations

from typing import Any

from harness.expect.audit_table import name_of
from harness.model.digest import arguments_digest
from harness.target.ctrlrun import effect_of, policy_text
from harness.target.ctrlrun_record import records_of

ASKED: dict[str, Any] = {"text": "x"}


def event(number: int, kind: str, action: str = "act_1", approval: str | None = None, **data: str) -> dict[str, Any]:
    effect = "mcp.mem0.add_memory:x"
    return {"event_id": number, "ts": "2026-01-01", "type": kind, "action_id": action, "effect_key": effect, "approval_id": approval, "data": data}


def receipt(action: str, result: str, **more: str) -> dict[str, Any]:
    return {"action_id": action, "action": "mcp.mem0.add_memory", "action_hash": "h", "arguments": ASKED, "result": result, **more}


def words(events: list[dict[str, Any]], receipts: list[dict[str, Any]]) -> dict[str, str]:
    trails: dict[str, list[Any]] = {}
    for record in sorted(records_of(events, receipts, "mem0"), key=lambda r: int(r["seq"])):
        trails.setdefault(str(record["invocation"]), []).append(record)
    return {key: name_of(trail) for key, trail in trails.items()}


START = [event(1, "ACTION_PROPOSED", action_hash="h"), event(2, "POLICY_EVALUATED", decision="allow"), event(3, "EXECUTION_STARTED")]
WAIT = [
    event(1, "ACTION_PROPOSED", action_hash="h"),
    event(2, "POLICY_EVALUATED", decision="approve"),
    event(3, "APPROVAL_REQUESTED", approval="apr_1", action_hash="h"),
]


def test_calls_that_are_carried_out_at_once() -> None:
    assert words([*START, event(4, "EXECUTION_COMMITTED")], [receipt("act_1", "committed")]) == {"act_1": "success"}
    assert words([*START, event(4, "EXECUTION_AMBIGUOUS")], [receipt("act_1", "ambiguous")]) == {"act_1": "unknown"}
    assert words([*START, event(4, "EXECUTION_FAILED")], [receipt("act_1", "failed")]) == {"act_1": "upstream_error"}
    assert words(START, []) == {"act_1": ""}


def test_a_denial_is_a_decision_and_its_consequence() -> None:
    for reason, ours in (("decision", "tool_off"), ("unknown_action", "tool_not_found"), ("rule[2]", "policy_block")):
        events = [event(1, "POLICY_EVALUATED", decision="deny"), event(2, "ACTION_DENIED", reason=reason)]
        found = records_of(events, [receipt("act_1", "denied")], "mem0")
        assert words(events, []) == {"act_1": "denied"}
        assert [(r["reason"], r["tool"], r["arguments_digest"]) for r in found] == [(ours, "add_memory", arguments_digest(ASKED))] * 2


def test_one_approval_is_one_call_from_asking_to_its_end() -> None:
    carried_out = [
        event(5, "ACTION_PROPOSED", "act_2", action_hash="h"),
        event(6, "POLICY_EVALUATED", "act_2", decision="approve"),
        event(7, "APPROVAL_CONSUMED", "act_2", "apr_1"),
        event(8, "EFFECT_RESERVED", "act_2"),
        event(9, "EXECUTION_STARTED", "act_2"),
        event(10, "EXECUTION_COMMITTED", "act_2"),
    ]
    granted = event(4, "APPROVAL_GRANTED", "act_1", "apr_1")
    assert words(WAIT, []) == {"apr_1": "pending"}
    assert words([*WAIT, granted, *carried_out], [receipt("act_2", "committed")]) == {"apr_1": "approved_success"}
    assert words([*WAIT, event(4, "APPROVAL_DENIED", "act_1", "apr_1")], []) == {"apr_1": "declined"}
    assert words([*WAIT, event(4, "APPROVAL_EXPIRED", "act_1", "apr_1")], []) == {"apr_1": "expired"}
    unasked = words([*WAIT, *carried_out], [receipt("act_2", "committed")])
    assert unasked == {"apr_1": ""}, "a call carried out without a grant fits no outcome"


def test_what_waits_is_known_by_the_receipt_of_the_same_action() -> None:
    found = records_of(WAIT, [receipt("act_2", "committed")], "mem0")
    assert {r["arguments_digest"] for r in found} == {arguments_digest(ASKED)}
    assert {r["tool"] for r in records_of(WAIT, [], "mem0")} == {"add_memory"}


def test_only_what_asks_first_declares_an_effect() -> None:
    schema = {"type": "object", "required": ["text", "tags"], "properties": {"text": {"type": "string"}, "tags": {"type": "array"}}}
    effect = effect_of("mem0", {"name": "add_memory", "inputSchema": schema})
    assert effect == "mcp.mem0.add_memory:{text}"
    assert effect_of("mem0", {"name": "list_all", "inputSchema": {"type": "object"}}) == ""
    text = policy_text("mem0", {"add_memory": {"decision": "approve", "effect": effect}, "search": {"decision": "allow", "effect": effect}})
    assert text.count('"effect"') == 1
