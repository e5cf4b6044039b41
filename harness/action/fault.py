"""`fault: CONNECTION`: the tap misbehaves towards the gateway in the named way from now on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, field_validator

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.tap.fault import FAULT_KINDS, make_fault


class Params(Frozen):
    """`kind`: a fault of the tap; `with`: its settings; `tool`, `nth`, `times`: which exchanges it hits."""

    target: str
    kind: str
    tool: str | None = None
    nth: int = 1
    times: int | None = None
    with_: Mapping[str, Any] = Field(default_factory=dict, alias="with")

    @field_validator("kind")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in FAULT_KINDS:
            raise ValueError(f"the tap has no such fault; use one of: {', '.join(FAULT_KINDS)}")
        return value


class Fault(Verb[Params]):
    id = "fault"
    summary = "the tap interferes with a provider's answers"
    params = Params
    example = "fault: mem0\nkind: status\ntool: search_memories\nwith: {code: 503}"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.target)
        made = make_fault(params.kind, tool=params.tool, nth=params.nth, times=params.times, **params.with_)
        leg.mount.faults.append(made)
        stage.control("fault", {"kind": params.kind, "tool": params.tool}, phase=phase, step=step.id, connection=leg.name)
        return Done()


ACTION = Fault()
