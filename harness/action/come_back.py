"""`come_back: STEP`: the agent makes that step's call again, with the state that it was given then, with a changed one, or as somebody else."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from harness.action.base import Done, Stage, Verb
from harness.action.sent import Sent, run_of_its_own
from harness.errors import ContractBroken, Untestable
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.wire import WireSession

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
        async with self._session(stage, params) as session:
            begun = Sent.begin(stage, first.connection, first.tool, first.exposed_as, arguments, trace)
            return begun.ended(stage, step, phase, attempt, await session.request("tools/call", sent, timeout=stage.step_timeout_s))

    @asynccontextmanager
    async def _session(self, stage: Stage, params: Params) -> AsyncIterator[WireSession]:
        """The agent's own, or one under a run of its own."""
        if params.run == "own":
            if not isinstance(stage.agent, WireSession):
                raise Untestable("this agent's session carries plain calls only", where=params.target, fix="use an agent that is no relay's")
            yield stage.agent
            return
        async with run_of_its_own(stage, "another") as (_, session):
            yield session


def _state(given: str, how: str) -> str:
    if how == "invented":
        return INVENTED
    return given if how == "given" else given[:-1] + ("1" if given[-1] == "0" else "0")


ACTION = ComeBack()
