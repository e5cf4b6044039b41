"""ctrlrun's events and receipts in the audit's words, by declaration.

An event says what happened to an action, the receipt which tool and arguments it was; an action that waits has no receipt yet, only its
approval and, through its hash, the receipt of the later call that was carried out. One approval is one invocation: the asking action and
the one that used the approval. What ctrlrun calls ambiguous stays `unknown`: that is what its record says of a call.

event                        audit
POLICY_EVALUATED allow       policy_decision / success / allow / allow_profile
POLICY_EVALUATED approve     policy_decision / pending / require_approval (left out where the approval is already there)
APPROVAL_REQUESTED           approval_requested / pending
APPROVAL_GRANTED, _DENIED, _EXPIRED   approval_resolved / approved, action_declined, action_expired
EXECUTION_STARTED            call_started
EXECUTION_COMMITTED, _FAILED, _AMBIGUOUS   call_completed, call_failed / remote_mcp_error, call_failed / outcome_unrecorded
ACTION_DENIED                policy_decision / denied and call_denied
EFFECT_RESERVATION_REFUSED   call_replayed / idempotent_replay
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.model.digest import NotCanonical, arguments_digest

Row = tuple[str, str, str, str]
Event = Mapping[str, Any]

DENIALS: Mapping[str, str] = {"decision": "tool_off", "rule": "policy_block", "unknown_action": "tool_not_found"}
"""Its reason for a denial → the audit's. Anything else is the policy's own: policy_block."""
ASKS: Row = ("policy_decision", "pending", "require_approval", "requires_approval_policy")
ROWS: Mapping[str, Row] = {
    "APPROVAL_REQUESTED": ("approval_requested", "pending", "require_approval", "requires_approval_policy"),
    "APPROVAL_GRANTED": ("approval_resolved", "success", "allow", "approved"),
    "APPROVAL_DENIED": ("approval_resolved", "denied", "deny", "action_declined"),
    "APPROVAL_EXPIRED": ("approval_resolved", "denied", "deny", "action_expired"),
    "EXECUTION_STARTED": ("call_started", "pending", "allow", "dispatching"),
    "EXECUTION_COMMITTED": ("call_completed", "success", "allow", "tool_completed"),
    "EXECUTION_FAILED": ("call_failed", "failure", "allow", "remote_mcp_error"),
    "EXECUTION_AMBIGUOUS": ("call_failed", "unknown", "allow", "outcome_unrecorded"),
    "EFFECT_RESERVATION_REFUSED": ("call_replayed", "denied", "deny", "idempotent_replay"),
}


def records_of(events: Sequence[Event], receipts: Sequence[Event], connection: str) -> list[Mapping[str, Any]]:
    """The audit's records in ctrlrun's order. `seq` has room for the two records that one denial makes."""
    return list(_Reading(events, receipts, connection).records())


@dataclass
class _Reading:
    events: Sequence[Event]
    receipts: Sequence[Event]
    connection: str
    approval_of: dict[str, str] = field(default_factory=dict)
    hash_of: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for event in self.events:
            action = str(event.get("action_id"))
            if event.get("approval_id"):
                self.approval_of.setdefault(action, str(event["approval_id"]))
            if (event.get("data") or {}).get("action_hash"):
                self.hash_of.setdefault(action, str(event["data"]["action_hash"]))

    def records(self) -> Iterator[Mapping[str, Any]]:
        asked: set[str] = set()
        for event in self.events:
            action = str(event.get("action_id"))
            approval = self.approval_of.get(action)
            again = approval is not None and approval in asked
            if event.get("type") == "APPROVAL_REQUESTED" and approval is not None:
                asked.add(approval)
            for number, row in enumerate(self._rows(event, again)):
                yield self._record(event, action, approval, row, number)

    def _rows(self, event: Event, again: bool) -> tuple[Row, ...]:
        kind, data = str(event.get("type")), event.get("data") or {}
        if kind == "POLICY_EVALUATED" and data.get("decision") == "allow":
            return (("policy_decision", "success", "allow", "allow_profile"),)
        if kind == "POLICY_EVALUATED" and data.get("decision") == "approve":
            return () if again else (ASKS,)
        if kind == "ACTION_DENIED":
            reason = denial(data.get("reason"))
            return ("policy_decision", "denied", "deny", reason), ("call_denied", "denied", "deny", reason)
        return (ROWS[kind],) if kind in ROWS else ()

    def _record(self, event: Event, action: str, approval: str | None, row: Row, number: int) -> dict[str, Any]:
        receipt = self._receipt(action)
        arguments = receipt.get("arguments")
        details = {key: receipt[key] for key in ("receipt_id", "result", "approver", "policy_hash", "effect_key") if receipt.get(key)}
        return {
            "seq": int(event.get("event_id", 0)) * 2 + number,
            "at": event.get("ts"),
            "invocation": approval or action,
            "connection": self.connection,
            "tool": self._tool(receipt, event),
            "event": row[0],
            "outcome": row[1],
            "decision": row[2],
            "reason": row[3],
            "arguments_digest": digest(arguments),
            "approval": approval,
            "details": {**details, "event": event.get("type")},
        }

    def _receipt(self, action: str) -> Event:
        """Its own, else that of the same action carried out later."""
        own = [r for r in self.receipts if r.get("action_id") == action]
        same = [r for r in self.receipts if self.hash_of.get(action) and r.get("action_hash") == self.hash_of[action]]
        return (own or same or [{}])[0]

    def _tool(self, receipt: Event, event: Event) -> str:
        named = str(receipt.get("action") or str(event.get("effect_key") or "").partition(":")[0])
        return named.removeprefix(f"mcp.{self.connection}.")


def denial(reason: Any) -> str:
    return DENIALS.get(str(reason), "policy_block")


def digest(arguments: Any) -> str:
    try:
        return arguments_digest(arguments) if isinstance(arguments, dict) else ""
    except NotCanonical:
        return ""
