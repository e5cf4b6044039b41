"""`call: CONNECTION.TOOL`: the agent calls a tool through the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.errors import Incomplete, Untestable
from harness.model.digest import NotCanonical, arguments_digest
from harness.model.evidence import ClientExchange, Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.scenario.durations import Seconds
from harness.target.wire import Answer


class During(Frozen):
    """What happens while the call is under way at the provider: `advance` moves every clock."""

    advance: Seconds


class Params(Frozen):
    """`with`: the arguments. `timeout`: what the agent tells the gateway. `bare`: use the tool's bare name."""

    target: str
    with_: Mapping[str, Any] = Field(default_factory=dict, alias="with")
    timeout: Seconds | None = None
    during: During | None = None
    bare: bool = False


class Call(Verb[Params]):
    id = "call"
    summary = "the agent calls a tool through the gateway"
    params = Params
    example = "call: mem0.search_memories\nwith: {query: compass}"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection, tool = stage.resolve(params.target)
        name = tool if params.bare else stage.target.exposed_name(connection, tool)
        trace = stage.new_trace()
        meta: dict[str, Any] = {"traceparent": trace}
        if params.timeout is not None:
            meta["gateway/timeout_s"] = params.timeout
        started, began = stage.sequencer.next(), stage.clock.monotonic()
        calling = asyncio.ensure_future(stage.agent.call(name, params.with_, meta=meta, timeout=stage.step_timeout_s))
        if params.during is not None:
            await self._meanwhile(stage, connection, tool, params.during.advance, calling)
        answer = await calling
        exchange = ClientExchange(
            item=stage.item,
            phase=phase,
            step=step.id,
            attempt=attempt,
            connection=connection,
            method="tools/call",
            tool=tool,
            exposed_as=name,
            arguments=params.with_,
            arguments_digest=digest_or_nothing(dict(params.with_)),
            traceparent=trace,
            protocol_version=stage.protocol,
            started_seq=started,
            ended_seq=stage.sequencer.next(),
            result=answer.result,
            error=answer.error,
            transport_error=answer.transport_error,
            said=said(stage, answer),
            latency_ms=round((stage.clock.monotonic() - began) * 1000, 3),
        )
        stage.calls[step.id] = exchange
        stage.emit(exchange)
        return Done(answer=answer.result)

    async def _meanwhile(self, stage: Stage, connection: str, tool: str, seconds: float, calling: asyncio.Future[Answer]) -> None:
        """Move time only once the provider has the call, or the test would race its own subject."""
        mount = stage.leg(connection).mount
        before = len(mount.dispatches(tool))

        def arrived(_: Any) -> bool:
            return len(mount.dispatches(tool)) > before or calling.done()

        try:
            await mount.wait_for(arrived, stage.step_timeout_s)
            await asyncio.wait_for(stage.time.until_sleeping(), stage.step_timeout_s)
        except (Incomplete, TimeoutError):
            calling.cancel()
            raise Untestable(f"{tool} never waited at the provider, so time was not moved", where=f"step calling {connection}.{tool}") from None
        await stage.time.advance(seconds)


def said(stage: Stage, answer: Answer) -> Mapping[str, Any]:
    return stage.target.said(answer.result, answer.error.model_dump() if answer.error else None)


def digest_or_nothing(arguments: dict[str, Any]) -> str:
    try:
        return arguments_digest(arguments)
    except NotCanonical:
        return ""


ACTION = Call()
