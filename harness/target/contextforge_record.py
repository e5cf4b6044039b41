"""ContextForge's audit trail in the audit's words, by declaration: an entry about a tool that was executed is one call, and nothing else is.

Entries name an action, a kind of resource and whether it went well. Creating or changing a tool or a gateway is no call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.target.names import Naming

CALLS = frozenset({"execute", "invoke", "call", "tool_call", "tools/call", "execute_tool", "invoke_tool"})


def records_of(entries: Sequence[Any], naming: Naming) -> list[Mapping[str, Any]]:
    """Oldest first; `seq` is the place in that order. An entry that is no object is passed over: it tells of nothing."""
    told = [entry for entry in entries if isinstance(entry, Mapping) and _is_call(entry)]
    told.sort(key=lambda entry: str(entry.get("timestamp")))
    return [_record(number, entry) for number, entry in enumerate(told, start=1)]


def _is_call(entry: Mapping[str, Any]) -> bool:
    return str(entry.get("resource_type")) == "tool" and str(entry.get("action")).lower() in CALLS


def _record(number: int, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    went_well = entry.get("success") is True
    return {
        "seq": number,
        "at": entry.get("timestamp"),
        "invocation": str(entry.get("correlation_id") or entry.get("id")),
        "connection": "",
        "tool": str(entry.get("resource_name") or entry.get("resource_id") or ""),
        "event": "call_completed" if went_well else "call_failed",
        "outcome": "success" if went_well else "failure",
        "decision": "allow",
        "reason": "tool_completed" if went_well else "remote_mcp_error",
        "details": {"action": entry.get("action"), "user": entry.get("user_email") or entry.get("user_id")},
    }
