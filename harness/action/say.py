"""`say: success | failure`: the agent states how a call went. It is recorded; whether it is true is for the witnesses."""

from __future__ import annotations

from typing import Literal

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step


class Params(Frozen):
    """`about`: the tool it speaks of, as CONNECTION.TOOL."""

    target: Literal["success", "failure"]
    about: str


class Say(Verb[Params]):
    id = "say"
    summary = "the agent states how its call went"
    params = Params
    example = "say: success\nabout: mem0.add_memory"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        stage.resolve(params.about)
        return Done(said=params.target)


ACTION = Say()
