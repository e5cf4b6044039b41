"""`call: CONNECTION.TOOL`: the agent calls a tool through the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.errors import Untestable
from harness.model.digest import NotCanonical, arguments_digest
from harness.model.evidence import ClientExchange, Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.scenario.durations import Seconds
from harness.tap.fault import Hang
from harness.tap.mount import Mount
from harness.target.wire import Answer


class During(Frozen):
    """What happens while the call is under way at the provider: `revoke` takes the connection's grant back, `advance` moves every clock."""

    advance: Seconds
    revoke: bool = False


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
        await stage.admit(connection, tool, params.with_, phase)
        name = tool if params.bare else stage.target.exposed_name(connection, tool)
        trace = stage.new_trace()
        meta: dict[str, Any] = {"traceparent": trace}
        if params.timeout is not None:
            meta["gateway/timeout_s"] = params.timeout
        started, began, at = stage.sequencer.next(), stage.clock.monotonic(), stage.clock.now().isoformat()
        calling = asyncio.ensure_future(stage.agent.call(name, params.with_, meta=meta, timeout=stage.step_timeout_s))
        if params.during is not None:
            await self._meanwhile(stage, connection, tool, params.during, calling)
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
            at=at,
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

    async def _meanwhile(self, stage: Stage, connection: str, tool: str, during: During, calling: asyncio.Future[Answer]) -> None:
        """Move time only once the call waits at the provider's side, or the test would race its own subject."""
        waiting = asyncio.ensure_future(held(stage, stage.leg(connection).mount, tool))
        either: set[asyncio.Future[Any]] = {waiting, calling}
        try:
            await asyncio.wait(either, timeout=stage.step_timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() or waiting.exception() is not None:
                calling.cancel()
                raise Untestable(
                    f"{tool} never waited at the provider, so time was not moved",
                    where=f"step calling {connection}.{tool}",
                    fix="give the stand-in a latency, or the tap a fault of kind latency or hang",
                )
        finally:
            waiting.cancel()
        if during.revoke:
            await stage.target.revoke(stage.tenant, connection)
            stage.control("revoke", None, phase="steps", connection=connection)
        await stage.time.advance(during.advance)


async def held(stage: Stage, mount: Mount, tool: str) -> None:
    """Returns once a new call of `tool` waits: somebody sleeps on the bench's clock for it, or the tap itself holds it (`hang`)."""
    before = len(mount.dispatches(tool))

    def hanging(_: Any) -> bool:
        return any(Hang.kind in (seen.fault or "").split(",") for seen in mount.dispatches(tool)[before:])

    await mount.wait_for(lambda _: len(mount.dispatches(tool)) > before, stage.step_timeout_s)
    waits: list[asyncio.Future[Any]] = [
        asyncio.ensure_future(stage.time.until_sleeping()),
        asyncio.ensure_future(mount.wait_for(hanging, stage.step_timeout_s)),
    ]
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        done.pop().result()
    finally:
        for wait in waits:
            wait.cancel()


def said(stage: Stage, answer: Answer) -> Mapping[str, Any]:
    return stage.target.said(answer.result, answer.error.model_dump() if answer.error else None)


def digest_or_nothing(arguments: dict[str, Any]) -> str:
    try:
        return arguments_digest(arguments)
    except NotCanonical:
        return ""


ACTION = Call()
