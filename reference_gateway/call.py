"""One call on its way through the pipeline, and what the audit says of it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, cast

from reference_gateway.approval import Approval
from reference_gateway.audit import AuditFields
from reference_gateway.catalog import Tool
from reference_gateway.connection import Connection
from reference_gateway.peer import Agent, Limited
from reference_gateway.permission import Decision
from reference_gateway.provider import Answer
from reference_gateway.results import PREFIX, Measure
from reference_gateway.runs import Run
from reference_gateway.upstream import Era, Progress
from reference_gateway.wire import Json, UpstreamFailure

NO_MEASURE = Measure(0, "")


@dataclass(slots=True)
class Call:
    """One call on its way. The first block is what the agent sent; the rest is filled in by the stages."""

    run: Run
    name: str
    arguments: dict[str, Any]
    meta: Json
    era: Era
    invocation: str
    progress: Progress | None = None
    request_state: str | None = None
    """What the gateway gave the agent to come back with (2026-07-28)."""
    responses: Json | None = None
    """What it answered to what the provider asked for."""
    agent: Agent | None = None
    peer: Limited | None = None
    extra: Json = field(default_factory=dict)
    """What of the two goes on to the provider."""

    connection: Connection | None = None
    tool: Tool | None = None
    decision: Decision | None = None
    digest: str | None = None
    unsound: str = ""
    timeout_s: float | None = None
    approval: Approval | None = None
    started_at: float | None = None
    started_seq: int = 0
    """The log was at least so long when the call was recorded as sent."""
    where: Json = field(default_factory=dict)
    answer: Answer | UpstreamFailure | None = None
    measure: Measure = NO_MEASURE
    flags: tuple[str, ...] = ()
    ended: bool = False
    holds: AsyncExitStack = field(default_factory=AsyncExitStack)

    @property
    def target(self) -> Connection:
        assert self.connection is not None
        return self.connection

    @property
    def entry(self) -> Tool:
        assert self.tool is not None
        return self.tool

    @property
    def traceparent(self) -> str | None:
        value = self.meta.get("traceparent")
        return value if isinstance(value, str) and len(value) <= 256 else None

    @property
    def forwarded_meta(self) -> Json:
        """What of the agent's `_meta` is the provider's business."""
        return forwarded(self.meta)

    @property
    def asked_timeout(self) -> object:
        return self.meta.get(f"{PREFIX}timeout_s")


def forwarded(meta: Mapping[str, Any]) -> Json:
    return {k: v for k, v in meta.items() if k != "progressToken" and not k.startswith((PREFIX, "io.modelcontextprotocol/"))}


def record(call: Call, event: str, outcome: str, decision: str, reason: str, details: Mapping[str, Any] | None = None) -> AuditFields:
    """An audit record about this call, from whatever is known of it so far."""
    connection, tool = call.connection, call.tool
    fields = {
        "tenant": call.run.tenant,
        "run": call.run.run,
        "task": call.run.task,
        "agent": call.run.agent,
        "actor": f"agent:{call.run.agent}",
        "connection": connection.name if connection is not None else None,
        "provider": connection.settings.provider if connection is not None else None,
        "tool": tool.name if tool is not None else call.name[:200],
        "invocation": call.invocation,
        "approval": call.approval.id if call.approval is not None else None,
        "event": event,
        "outcome": outcome,
        "decision": decision,
        "reason": reason,
        "risk": tool.risk if tool is not None else None,
        "schema_hash": tool.schema_hash if tool is not None else None,
        "arguments_digest": call.digest,
        "traceparent": call.traceparent,
        "details": dict(details or {}),
    }
    return cast(AuditFields, fields)
