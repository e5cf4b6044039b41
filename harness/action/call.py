"""`call: CONNECTION.TOOL`: the agent calls a tool through the gateway."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.action.sent import Sent
from harness.errors import HarnessError, Untestable
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.scenario.durations import Seconds
from harness.tap.fault import Hang
from harness.tap.mount import Mount
from harness.target.wire import Answer

GIVEN_UP_WITHIN_S = 5.0
"""Real seconds that a gateway has for giving up what its agent gave up."""


class During(Frozen):
    """What happens while the call is under way at the provider: `revoke` takes the connection's grant back, `advance` moves every clock, and
    with `leave` the agent gives the call up as its protocol says, and hears nothing more of it."""

    advance: Seconds = 0.0
    revoke: bool = False
    leave: bool = False


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
        sent = Sent.begin(stage, connection, tool, name, params.with_, trace)
        calling = asyncio.ensure_future(stage.agent.call(name, params.with_, meta=meta, timeout=stage.step_timeout_s))
        if params.during is not None:
            await meanwhile(stage, connection, tool, params.during, calling)
            if params.during.leave:
                await left(stage.leg(connection).mount, calling)
                return sent.ended(stage, step, phase, attempt, Answer(transport_error="the agent gave the call up"))
        return sent.ended(stage, step, phase, attempt, await calling)


async def meanwhile(stage: Stage, connection: str, tool: str, during: During, calling: asyncio.Future[Any]) -> None:
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
    if during.advance:
        await stage.time.advance(during.advance)


async def left(mount: Mount, calling: asyncio.Future[Answer]) -> None:
    """The agent gives up, and the gateway has done so too at the provider; if it does not, that is for an expectation to judge."""
    calling.cancel()
    await asyncio.wait({calling})
    with contextlib.suppress(HarnessError):
        await mount.wait_for(lambda exchanges: all(seen.outcome is not None or seen.method == "GET" for seen in exchanges), GIVEN_UP_WITHIN_S)


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


ACTION = Call()
