"""`come_back: STEP`: the agent makes that step's call again, with the state that it was given then, with a changed one, or as somebody else."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2

from harness.action.base import Done, Stage, Verb
from harness.action.call import digest_or_nothing, said
from harness.errors import ContractBroken, HarnessError, Untestable
from harness.model.evidence import AuditRecord, ClientExchange, Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.setting import setting
from harness.target.wire import WireSession, wire_session

INVENTED = "eyJzdGF0ZSI6Im1hZGUgdXAifQ"


class Params(Frozen):
    """`state`: as it was `given`, `altered` in one character, or `invented`. `run`: the agent's own, or `another` one of the same agent.

    `change`: arguments that differ from that step's.
    """

    target: str
    state: Literal["given", "altered", "invented"] = "given"
    run: Literal["own", "another"] = "own"
    change: Mapping[str, Any] = {}


class ComeBack(Verb[Params]):
    id = "come_back"
    summary = "the agent makes a call again with the state it was given (2026-07-28), with another state, or as another run"
    params = Params
    needs = frozenset({"setup"})
    example = "come_back: ask\nstate: altered"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        first = stage.calls.get(params.target)
        state = (first.result or {}).get("requestState") if first is not None else None
        if first is None or not isinstance(state, str):
            raise ContractBroken(f"step {params.target!r} was given no state", where=str(step.location), fix="see the finding of its own step")
        arguments, trace = {**(first.arguments or {}), **params.change}, stage.new_trace()
        await stage.admit(first.connection, first.tool, arguments, phase)
        sent: dict[str, Any] = {"name": first.exposed_as, "arguments": arguments, "_meta": {"traceparent": trace}}
        sent["requestState"] = _state(state, params.state)
        started, began, at = stage.sequencer.next(), stage.clock.monotonic(), stage.clock.now().isoformat()
        async with self._session(stage, params) as session:
            answer = await session.request("tools/call", sent, timeout=stage.step_timeout_s)
        exchange = ClientExchange(
            item=stage.item, phase=phase, step=step.id, attempt=attempt, connection=first.connection, method="tools/call", tool=first.tool,
            exposed_as=first.exposed_as, arguments=arguments, arguments_digest=digest_or_nothing(arguments), traceparent=trace,
            protocol_version=stage.protocol, at=at, started_seq=started, ended_seq=stage.sequencer.next(), result=answer.result,
            error=answer.error, transport_error=answer.transport_error, said=said(stage, answer),
            latency_ms=round((stage.clock.monotonic() - began) * 1000, 3),
        )  # fmt: skip
        stage.calls[step.id] = exchange
        stage.emit(exchange)
        return Done(answer=answer.result)

    @asynccontextmanager
    async def _session(self, stage: Stage, params: Params) -> AsyncIterator[WireSession]:
        """The agent's own, or one under a run of its own, whose records are read here: the engine reads those of the scenario's run."""
        if params.run == "own":
            if not isinstance(stage.agent, WireSession):
                raise Untestable("this agent's session carries plain calls only", where=params.target, fix="use an agent that is no relay's")
            yield stage.agent
            return
        body = {"connections": list(stage.legs), "task": "another", "agent": "scripted-agent"}
        made = await setting(stage.target).operate(stage.tenant, "start_run", body=body)
        if made.refused or not isinstance(made.body, dict):
            raise HarnessError(f"another run could not be made: {made.refused}", where="POST /runs", fix="see gateway.log")
        run, headers = str(made.body["run"]), {"Authorization": f"Bearer {made.body['token']}"}
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the gateway under test is plain HTTP on loopback
        async with (
            httpx2.AsyncClient(verify=context, trust_env=False, timeout=60.0, headers=headers) as http,
            wire_session(stage.grant.url, http, stage.protocol) as session,
        ):
            yield session
        await stage.target.end_run(stage.tenant, run)
        for record in await stage.target.audit(stage.tenant, run):
            stage.emit(AuditRecord(item=stage.item, record=record))


def _state(given: str, how: str) -> str:
    if how == "invented":
        return INVENTED
    return given if how == "given" else given[:-1] + ("1" if given[-1] == "0" else "0")


ACTION = ComeBack()
