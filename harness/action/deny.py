"""`deny: STEP`: an operator declines the call that STEP left waiting."""

from __future__ import annotations

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.action.decide import decide
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step


class Params(Frozen):
    target: str
    as_: str = Field(default="operator", alias="as")
    reason: str = "declined by the scenario"


class Deny(Verb[Params]):
    id = "deny"
    summary = "an operator declines the waiting call"
    params = Params
    needs = frozenset({"approvals"})
    example = "deny: write\nreason: not today"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        return await decide(stage, step, params.target, phase, approve=False, by=params.as_, reason=params.reason)


ACTION = Deny()
