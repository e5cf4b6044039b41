"""`call_waiting: CONNECTION.TOOL`: an agent whose run waits for people calls a tool, somebody acts meanwhile, and the agent gets its end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.action.sent import Sent, run_of_its_own
from harness.errors import Untestable
from harness.model.evidence import ApprovalRecord, Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.setting import setting
from harness.target.wire import Answer, WireSession

LOOK_EVERY_S = 0.02


class Params(Frozen):
    """`waits`: the call is held until the decision (`hold`), or asked to come back (`input_required`, 2026-07-28), which the agent does once.

    `meanwhile`: what happens to the request; `end_run` ends the agent's run. The run is one of its own, of the same agent.
    """

    target: str
    with_: Mapping[str, Any] = Field(default_factory=dict, alias="with")
    waits: Literal["hold", "input_required"] = "hold"
    meanwhile: Literal["approve", "reject", "end_run"] = "approve"
    as_: str = Field(default="reviewer", alias="as")


@dataclass(frozen=True, slots=True)
class _Held:
    """The call, as it goes to the gateway."""

    run: str
    name: str
    arguments: Mapping[str, Any]
    trace: str
    timeout: float

    async def send(self, session: WireSession, state: str | None = None) -> Answer:
        params = {"name": self.name, "arguments": dict(self.arguments), "_meta": {"traceparent": self.trace}}
        return await session.request("tools/call", {**params, **({"requestState": state} if state is not None else {})}, timeout=self.timeout)


class CallWaiting(Verb[Params]):
    id = "call_waiting"
    summary = "an agent that waits for a person calls a tool, somebody decides, and the agent gets the end of its call"
    params = Params
    needs = frozenset({"setup", "approvals", "modes"})
    example = "call_waiting: mem0.add_memory\nwith: {text: A compass., user_id: ada}\nwaits: hold\nmeanwhile: approve"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection, tool = stage.resolve(params.target)
        await stage.admit(connection, tool, params.with_, phase)
        async with run_of_its_own(stage, "waiting", waiting=params.waits) as (run, session):
            held = _Held(run, stage.target.exposed_name(connection, tool), params.with_, stage.new_trace(), stage.step_timeout_s)
            sent = Sent.begin(stage, connection, tool, held.name, params.with_, held.trace)
            return sent.ended(stage, step, phase, attempt, await self._conversation(stage, step, params, phase, session, held))

    async def _conversation(self, stage: Stage, step: Step, params: Params, phase: Phase, session: WireSession, held: _Held) -> Answer:
        """The call's last answer. One that came before anybody decided is the answer, whatever it is: judging it is not done here."""
        calling = asyncio.ensure_future(held.send(session))
        try:
            if params.waits == "input_required":
                first = await calling
                state = (first.result or {}).get("requestState")
                if (first.result or {}).get("resultType") != "input_required" or not isinstance(state, str):
                    return first
                await self._meanwhile(stage, step, params, phase, held.run, state)
                return await held.send(session, state)
            approval = await self._waiting(stage, held, calling)
            if approval is not None:
                await self._meanwhile(stage, step, params, phase, held.run, approval)
            return await calling
        finally:
            calling.cancel()

    async def _waiting(self, stage: Stage, held: _Held, calling: asyncio.Future[Answer]) -> str | None:
        """The request that came of the call; None if the call ended while nobody had decided."""
        try:
            async with asyncio.timeout(held.timeout):
                while not calling.done():
                    told = await setting(stage.target).operate(stage.tenant, "approvals_of", held.run)
                    found = told.body.get("approvals") if isinstance(told.body, dict) else None
                    if found and not calling.done():
                        return str(found[0]["id"])
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            raise Untestable("the call neither ended nor asked for a decision", where=held.name, fix="put the tool under Ask first") from None
        return None

    async def _meanwhile(self, stage: Stage, step: Step, params: Params, phase: Phase, run: str, approval: str) -> None:
        if params.meanwhile == "end_run":
            await stage.target.end_run(stage.tenant, run)
            stage.control("end_run", {"run": run}, phase=phase, step=step.id)
            return
        yes, started = params.meanwhile == "approve", stage.sequencer.next()
        answer = await stage.target.decide(stage.tenant, approval, approve=yes, by=params.as_, reason="")
        stage.emit(
            ApprovalRecord(
                item=stage.item,
                phase=phase,
                step=step.id,
                decision=params.meanwhile,
                seq=started,
                ended_seq=stage.sequencer.next(),
                approval=dict(answer.get("approval") or {}),
                result=answer.get("result"),
                error=answer.get("error"),
            )
        )


ACTION = CallWaiting()
