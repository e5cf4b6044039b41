"""What one call leaves in the audit, record by record: the vocabulary both sides share (docs/operator-api.md).

Written out again here on purpose: the gateway has its own code, and the difference between the two is the test.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

ALLOW = frozenset({"allow_default", "allow_profile", "allow_grant"})
DENY = frozenset(
    {
        "tool_off",
        "not_granted",
        "tool_quarantined",
        "mode_denied",
        "run_ended",
        "task_not_owned",
        "invalid_arguments",
        "managed_argument_mismatch",
        "tool_not_found",
        "grant_revoked",
        "grant_audience_denied",
        "grant_credential_invalid",
        "policy_block",
        "rate_limited",
        "connection_inactive",
        "runtime_restart_backoff",
        "runtime_restart_suppressed",
        "oauth_reauthorization_required",
        "oauth_refresh_missing",
        "oauth_token_unavailable",
    }
)
UPSTREAM = frozenset(
    {
        "remote_mcp_error",
        "mcp_remote_status",
        "mcp_remote_invalid_json",
        "remote_mcp_malformed_response",
        "mcp_remote_response_too_large",
        "mcp_remote_fetch_failed",
    }
)


@dataclass(frozen=True, slots=True)
class Row:
    """One expected record; `reasons` are the admissible ones."""

    event: str
    outcome: str
    decision: str
    reasons: frozenset[str]

    def matches(self, record: Mapping[str, Any]) -> bool:
        return (
            record.get("event") == self.event
            and record.get("outcome") == self.outcome
            and record.get("decision") == self.decision
            and record.get("reason") in self.reasons
        )

    def __str__(self) -> str:
        reasons = "|".join(sorted(self.reasons))
        return f"{self.event}/{self.outcome}/{self.decision}/{reasons}"


def row(event: str, outcome: str, decision: str, *reasons: str) -> Row:
    return Row(event, outcome, decision, frozenset(reasons))


_ALLOWED = Row("policy_decision", "success", "allow", ALLOW)
_STARTED = row("call_started", "pending", "allow", "dispatching")
_ASKED = (
    row("policy_decision", "pending", "require_approval", "requires_approval_policy"),
    row("approval_requested", "pending", "require_approval", "requires_approval_policy"),
)
_APPROVED = row("approval_resolved", "success", "allow", "approved")

_ENDINGS: dict[str, Row] = {
    "success": row("call_completed", "success", "allow", "tool_completed"),
    "tool_error": row("call_failed", "failure", "allow", "tool_error"),
    "upstream_error": Row("call_failed", "failure", "allow", UPSTREAM),
    "timeout": row("call_failed", "timeout", "allow", "tool_timeout"),
    "cancelled": row("call_failed", "cancelled", "allow", "client_cancelled"),
    "unknown": row("call_failed", "unknown", "allow", "outcome_unrecorded"),
}

TABLE: Mapping[str, tuple[Row, ...]] = {
    **{word: (_ALLOWED, _STARTED, ending) for word, ending in _ENDINGS.items()},
    **{f"approved_{word}": (*_ASKED, _APPROVED, _STARTED, ending) for word, ending in _ENDINGS.items()},
    "denied": (Row("policy_decision", "denied", "deny", DENY), Row("call_denied", "denied", "deny", DENY)),
    "pending": _ASKED,
    "pending_again": (row("policy_decision", "pending", "require_approval", "approval_pending"),),
    "declined_again": (
        row("policy_decision", "denied", "deny", "action_declined"),
        row("call_denied", "denied", "deny", "action_declined"),
    ),
    "declined": (*_ASKED, row("approval_resolved", "denied", "deny", "action_declined")),
    "expired": (*_ASKED, row("approval_resolved", "denied", "deny", "action_expired")),
    "superseded": (*_ASKED, row("approval_resolved", "denied", "deny", "approved_tool_target_changed")),
    "withdrawn": (*_ASKED, row("approval_resolved", "denied", "deny", "run_ended")),
    "input_required": (_ALLOWED, _STARTED, row("call_completed", "pending", "allow", "input_required")),
    "replayed": (Row("call_replayed", "success", "allow", frozenset({"idempotent_replay"})),),
}
WORDS = tuple(TABLE)


def spell(record: Mapping[str, Any]) -> str:
    return "/".join(str(record.get(key)) for key in ("event", "outcome", "decision", "reason"))


def matches(word: str, records: Sequence[Mapping[str, Any]]) -> bool:
    """True when the records are exactly the row sequence of `word`: all of them, in order, nothing else."""
    rows = TABLE[word]
    if word == "replayed":  # carries the original outcome, whatever that was
        return len(records) == 1 and records[0].get("event") == "call_replayed" and records[0].get("reason") == "idempotent_replay"
    return len(records) == len(rows) and all(r.matches(record) for r, record in zip(rows, records, strict=True))


def name_of(records: Sequence[Mapping[str, Any]]) -> str:
    """The word whose sequence this is, or ""."""
    return next((word for word in TABLE if matches(word, records)), "")
