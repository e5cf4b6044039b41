"""`request: METHOD`: the agent asks the gateway for something that is no tool call. A refusal is an answer, for an expectation to judge."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.shared.inbound import MCP_NAME_HEADER, NAME_BEARING_METHODS, encode_header_value
from pydantic import Field, field_validator

from harness.action.base import Done, Stage, Verb
from harness.errors import Untestable
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.wire import Answer, WireSession

REASON = "gateway/reason"


class Params(Frozen):
    """`with`: the request's parameters. The refusal's word is the gateway's own reason where it gives one, else the JSON-RPC code."""

    target: str
    with_: Mapping[str, Any] = Field(default_factory=dict, alias="with")

    @field_validator("target")
    @classmethod
    def _no_call(cls, value: str) -> str:
        if value in ("tools/call", "initialize"):
            raise ValueError("calls have a verb of their own; a session is opened by the harness")
        return value


class Request(Verb[Params]):
    id = "request"
    summary = "the agent asks for something that is no tool call, such as a list of resources"
    params = Params
    example = "request: resources/read\nwith: {uri: memo://1}"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        if not isinstance(stage.agent, WireSession):
            raise Untestable("this agent's session carries tool calls only", where=str(step.location), fix="use an agent that is no relay's")
        key = NAME_BEARING_METHODS.get(params.target)
        headers = {MCP_NAME_HEADER: encode_header_value(str(params.with_.get(key, "")))} if key is not None else {}
        answer = await stage.agent.request(params.target, params.with_, timeout=stage.step_timeout_s, headers=headers)
        told = {"operation": params.target, "refused": _refused(answer), "answer": answer.result}
        stage.control("request", told, phase=phase, step=step.id)
        return Done(answer=answer.result)


def _refused(answer: Answer) -> str:
    """Empty where the request was answered."""
    if answer.error is None:
        return answer.transport_error
    data = answer.error.data
    return str(data[REASON]) if isinstance(data, Mapping) and REASON in data else str(answer.error.code)


ACTION = Request()
