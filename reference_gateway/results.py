"""What an agent gets back: the provider's result as it came, or a result of the gateway's own, each marked in `_meta` as what it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from reference_gateway.approval import CHANGED, ENDED, Approval
from reference_gateway.catalog import MAX_DEPTH
from reference_gateway.packing import packed
from reference_gateway.provider import RESULT_LIMIT
from reference_gateway.wire import MALFORMED, TOO_LARGE, Json, UpstreamFailure, deeper_than

CallOutcome = Literal["success", "tool_error", "upstream_error", "timeout", "denied", "pending", "input_required", "replayed"]
Origin = Literal["provider", "gateway"]

PREFIX = "gateway/"
INPUT_REQUIRED = "input_required"
"""`resultType` of a result that asks the agent to come back (2026-07-28)."""

WAIT = (
    "This call has not been executed: it waits for a person to approve it. "
    "Wait for the decision and do not repeat the call; it will be executed once, with exactly these arguments, when it is approved."
)

EXECUTING = (
    "A person has approved this call and it is being executed. "
    "Wait for its outcome and do not repeat the call; it is executed once, with exactly these arguments."
)
UNKNOWN = "The call was sent and may have been executed. What it brought is not known."

REFUSALS: Mapping[str, str] = {
    "tool_off": "This tool is switched off.",
    "not_granted": "This agent, or the person it acts for, may not use this connection.",
    "tool_quarantined": "This tool has changed and waits for review.",
    "mode_denied": "This run may only read.",
    "run_ended": "This run has ended.",
    "task_not_owned": "Another run has taken over this task.",
    "policy_block": "A policy forbids this tool.",
    "invalid_arguments": "The arguments are not acceptable",
    "tool_not_found": "There is no such tool.",
    "grant_revoked": "Access to this connection was revoked.",
    "grant_audience_denied": "This connection is not for the person that this run acts for.",
    "grant_credential_invalid": "The credential of this connection cannot be used. An operator has to set it up again.",
    "rate_limited": "Too many calls are waiting for this connection. Try again later.",
    "connection_inactive": "This connection is not in use at the moment.",
    "managed_argument_mismatch": "An operator fixed this argument to another value. Leave it out",
    "runtime_restart_backoff": "The local server has just ended by itself and is started again in a moment. Try again later.",
    "oauth_reauthorization_required": "The provider wants this connection to be authorized again. An operator has to do that.",
    "oauth_token_unavailable": "This connection's authorization could not be renewed just now. Try again later.",
    "oauth_refresh_missing": "This connection's authorization has run out. An operator has to authorize it again.",
    "runtime_restart_suppressed": "The local server has ended by itself too often and is not started again for now.",
    "action_expired": "Nobody decided about this call in time. It has not been executed.",
    "approved_tool_target_changed": "What this call was allowed for has changed. It has not been executed.",
    "action_declined": "A person declined this call. Do not repeat it.",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """The end of a call: a CallToolResult, or (`rpc`) a JSON-RPC error with code, message and perhaps data."""

    result: Json | None
    rpc: Json | None = None


def annotated(result: Mapping[str, Any], invocation: str, outcome: CallOutcome, origin: Origin, reason: str | None, **more: Any) -> Json:
    """`result` with our marks. Marks that somebody else put under our prefix are removed: nobody speaks for the gateway."""
    theirs = result.get("_meta")
    kept = {key: value for key, value in theirs.items() if not key.startswith(PREFIX)} if isinstance(theirs, dict) else {}
    return {**result, "_meta": {**kept, **marks(invocation, outcome, origin, reason, **more)}}


def marks(invocation: str, outcome: CallOutcome, origin: Origin, reason: str | None, **more: Any) -> Json:
    own: Json = {f"{PREFIX}invocation": invocation, f"{PREFIX}outcome": outcome, f"{PREFIX}origin": origin}
    if outcome != "success" and reason is not None:
        own[f"{PREFIX}reason"] = reason
    own.update({f"{PREFIX}{key}": value for key, value in more.items()})
    return own


def own_result(text: str, invocation: str, outcome: CallOutcome, reason: str, **more: Any) -> Json:
    """A result that the gateway made, because there is none of the provider."""
    return annotated({"content": [{"type": "text", "text": text}], "isError": True}, invocation, outcome, "gateway", reason, **more)


def refusal(invocation: str, reason: str, detail: str = "") -> Reply:
    """An unknown tool is a JSON-RPC error; every other refusal is a result that says why."""
    sentence = REFUSALS.get(reason, "This call is not permitted.")
    text = f"{sentence}: {detail}" if detail else sentence
    if reason == "tool_not_found":
        return Reply(None, {"code": -32602, "message": text, "data": marks(invocation, "denied", "gateway", reason)})
    return Reply(own_result(text, invocation, "denied", reason))


def misplaced(invocation: str, detail: str) -> Json:
    """The JSON-RPC error for a state that was not given out for this request: it is the protocol that was broken, not the tool."""
    text = f"{REFUSALS['invalid_arguments']}: {detail}"
    return {"code": -32602, "message": text, "data": marks(invocation, "denied", "gateway", "invalid_arguments")}


def waiting(invocation: str, approval: Approval, reason: str, *, come_back: bool = False) -> Reply:
    """The word that a call waits: a result that says so, or (`come_back`) a request to send the call again with the approval's id."""
    shown = {name: getattr(approval, name) for name in ("id", "state", "expires_at", "arguments_digest")}
    if come_back:
        marked = marks(invocation, "pending", "gateway", reason, approval=shown)
        return Reply({"resultType": INPUT_REQUIRED, "requestState": approval.id, "_meta": marked})
    text = EXECUTING if approval.state == "executing" else WAIT
    return Reply(own_result(text, invocation, "pending", reason, approval=shown))


def ended_without(approval: Approval) -> str:
    """Why an approval ended and nothing was executed, as the audit's word."""
    if approval.state == "cancelled" and approval.reason == ENDED:
        return ENDED
    return {"rejected": "action_declined", "expired": "action_expired"}.get(approval.state, CHANGED)


def decided(invocation: str, approval: Approval) -> Reply:
    """The end of a call that was held until the decision: what its one execution brought, or why there was none."""
    if approval.state in ("executed", "failed") and approval.result is not None:
        return Reply(approval.result)
    error = approval.error or {}
    if isinstance(error.get("code"), int):
        return Reply(None, error)
    if approval.state in ("executed", "failed", "unknown"):
        text = str(error.get("message", UNKNOWN))
        return Reply(own_result(text, invocation, "upstream_error", str(error.get("code", "outcome_unrecorded"))))
    reason = ended_without(approval)
    return Reply(own_result(REFUSALS[reason], invocation, "denied", reason))


def replayed(invocation: str, approval: Approval, original: str, *, as_success: bool = False) -> Reply:
    """What the execution brought, again, without another execution. A call that failed stays one that failed."""
    if approval.result is None:
        error = approval.error or {}
        if isinstance(error.get("code"), int):
            return Reply(None, error)
        text = str(error.get("message", UNKNOWN))
        return Reply(own_result(text, invocation, "replayed", "idempotent_replay", replay_of=original))
    meta = approval.result.get("_meta")
    origin: Origin = "gateway" if isinstance(meta, dict) and meta.get(f"{PREFIX}origin") == "gateway" else "provider"
    flags = meta.get(f"{PREFIX}flags") if isinstance(meta, dict) else None
    more = {"flags": flags} if flags else {}
    result = {**approval.result, "isError": False} if as_success else approval.result
    return Reply(annotated(result, invocation, "replayed", origin, "idempotent_replay", replay_of=original, **more))


@dataclass(frozen=True, slots=True)
class Measure:
    """Bytes and SHA-256 hex of a result's JSON."""

    size: int
    digest: str


def judged(result: Json) -> tuple[Json, Measure]:
    """The result if it is one, and its measure. Raises UpstreamFailure for what is not a tool result, or too large."""
    problem = _problem(result)
    if problem:
        raise UpstreamFailure(MALFORMED, f"the provider's result {problem}", answered=True)
    encoded = packed(result)
    if encoded.count(b"{") + encoded.count(b"[") > MAX_DEPTH and deeper_than(result, MAX_DEPTH):
        raise UpstreamFailure(MALFORMED, "the provider's result is nested too deeply", answered=True)
    size = len(encoded)
    if size > RESULT_LIMIT or b"\\ud" in encoded:
        try:
            size = len(json.dumps(result, separators=(",", ":"), ensure_ascii=False).encode())
        except UnicodeEncodeError as error:
            raise UpstreamFailure(MALFORMED, "the provider's result holds text that is not Unicode", answered=True) from error
    if size > RESULT_LIMIT:
        raise UpstreamFailure(TOO_LARGE, f"the provider's result is larger than {RESULT_LIMIT} bytes", answered=True)
    return result, Measure(len(encoded), hashlib.sha256(encoded).hexdigest())


def _problem(result: Json) -> str:
    content = result.get("content")
    if result.get("resultType", "complete") != "complete":
        return "asks for something instead of answering"
    if not isinstance(content, list):
        return "has no list of content"
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return "holds a content block without a type"
        if block["type"] == "text" and not isinstance(block.get("text"), str):
            return "holds a text block without text"
    if not isinstance(result.get("isError", False), bool):
        return "has an isError that is neither true nor false"
    return ""
