"""`deliver: FORM`: the gateway writes an agent program's configuration, and a scripted client that obeys the form uses it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.action.call import ACTION as CALL
from harness.action.call import Params as CallParams
from harness.errors import HarnessError
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.forms import Form, scripted_client
from harness.target.setting import setting


class Params(Frozen):
    """`call` and `with`: what the client calls once it has arrived. `to: remote`: a run whose agent stands elsewhere; nothing is called."""

    target: Form
    to: Literal["local", "remote"] = "local"
    call: str | None = None
    with_: Mapping[str, Any] = Field(default_factory=dict, alias="with")


class Deliver(Verb[Params]):
    id = "deliver"
    summary = "the gateway writes a client's configuration, and a client that obeys its form arrives with it"
    params = Params
    needs = frozenset({"setup"})
    example = "deliver: codex\ncall: mem0.get_memories\nwith: {filters: {user_id: ada}}"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        door = setting(stage.target)
        run, token = await self._run(stage, params)
        told = await door.operate(stage.tenant, "write_delivery", run, {"form": params.target, "token": token})
        found: dict[str, Any] = {
            "form": params.target,
            "refused": told.refused,
            "url": "",
            "arrived": False,
            "why": "",
            "instructions": "",
            "tools": 0,
        }
        if not told.refused and isinstance(told.body, dict):
            found["url"] = told.body.get("url", "")
            if params.to == "local":
                await self._arrive(stage, step, params, phase, attempt, str(told.body.get("text", "")), found)
        found["delivery"] = (await door.operate(stage.tenant, "read_delivery", run)).body
        stage.control("deliver", found, phase=phase, step=step.id)
        return Done(answer=found)

    async def _run(self, stage: Stage, params: Params) -> tuple[str, str]:
        if params.to == "local":
            return stage.grant.run, stage.grant.token
        body = {"connections": list(stage.legs), "task": "delivery", "agent": "remote-agent", "place": "remote"}
        made = await setting(stage.target).operate(stage.tenant, "start_run", body=body)
        if made.refused or not isinstance(made.body, dict):
            raise HarnessError(f"a remote run could not be made: {made.refused}", where="POST /runs", fix="see gateway.log")
        return str(made.body["run"]), str(made.body["token"])

    async def _arrive(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int, text: str, found: dict[str, Any]) -> None:
        """A client that does not get in is a finding about the configuration, so it is written down and not raised."""
        try:
            async with scripted_client(params.target, text, stage.protocol) as session:
                found["instructions"] = str(session.server.get("instructions") or "")
                found["tools"] = len((await session.list_tools(timeout=stage.step_timeout_s)).tools)
                found["arrived"] = True
                if params.call is not None:
                    call = CallParams.model_validate({"target": params.call, "with": params.with_})
                    await CALL.run(replace(stage, agent=session), step, call, phase, attempt)
        except HarnessError as error:
            found["why"] = error.what


ACTION = Deliver()
