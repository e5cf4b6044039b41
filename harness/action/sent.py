"""A call that the agent makes, from its first byte to the record of its answer; and a run of its own to make it under."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from harness.action.base import Done, Stage
from harness.errors import HarnessError
from harness.model.digest import NotCanonical, arguments_digest
from harness.model.evidence import AuditRecord, ClientExchange, Phase
from harness.model.scenario import Step
from harness.target.setting import setting
from harness.target.wire import Answer, WireSession, wire_session


@dataclass(frozen=True, slots=True)
class Sent:
    """`seq`, `since` (monotonic seconds) and `at` (RFC 3339): when it began."""

    connection: str
    tool: str
    exposed_as: str
    arguments: Mapping[str, Any]
    trace: str
    seq: int
    since: float
    at: str

    @staticmethod
    def begin(stage: Stage, connection: str, tool: str, exposed_as: str, arguments: Mapping[str, Any], trace: str) -> Sent:
        started, began, at = stage.sequencer.next(), stage.clock.monotonic(), stage.clock.now().isoformat()
        return Sent(connection, tool, exposed_as, arguments, trace, started, began, at)

    def ended(self, stage: Stage, step: Step, phase: Phase, attempt: int, answer: Answer) -> Done:
        """Into the evidence, and what later steps know of this one."""
        exchange = ClientExchange(
            item=stage.item,
            phase=phase,
            step=step.id,
            attempt=attempt,
            connection=self.connection,
            method="tools/call",
            tool=self.tool,
            exposed_as=self.exposed_as,
            arguments=self.arguments,
            arguments_digest=digest_or_nothing(dict(self.arguments)),
            traceparent=self.trace,
            protocol_version=stage.protocol,
            at=self.at,
            started_seq=self.seq,
            ended_seq=stage.sequencer.next(),
            result=answer.result,
            error=answer.error,
            transport_error=answer.transport_error,
            said=stage.target.said(answer.result, answer.error.model_dump() if answer.error else None),
            latency_ms=round((stage.clock.monotonic() - self.since) * 1000, 3),
        )
        stage.calls[step.id] = exchange
        stage.emit(exchange)
        return Done(answer=answer.result)


@asynccontextmanager
async def run_of_its_own(stage: Stage, task: str, **how: str) -> AsyncIterator[tuple[str, WireSession]]:
    """Its id, and a session of the same agent under it. Its records are read at the end: the engine reads those of the scenario's run."""
    body = {"connections": list(stage.legs), "task": task, "agent": "scripted-agent", **how}
    made = await setting(stage.target).operate(stage.tenant, "start_run", body=body)
    if made.refused or not isinstance(made.body, dict):
        raise HarnessError(f"a run of its own could not be made: {made.refused}", where="POST /runs", fix="see gateway.log")
    stage.control("run_of_its_own", {"run": made.body["run"], "task": task}, phase="steps")
    run, headers = str(made.body["run"]), {"Authorization": f"Bearer {made.body['token']}"}
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the gateway under test is plain HTTP on loopback
    async with (
        httpx2.AsyncClient(verify=context, trust_env=False, timeout=60.0, headers=headers) as http,
        wire_session(stage.grant.url, http, stage.protocol) as session,
    ):
        yield run, session
    await stage.target.end_run(stage.tenant, run)
    for record in await stage.target.audit(stage.tenant, run):
        stage.emit(AuditRecord(item=stage.item, record=record))


def digest_or_nothing(arguments: dict[str, Any]) -> str:
    try:
        return arguments_digest(arguments)
    except NotCanonical:
        return ""
