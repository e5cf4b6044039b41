"""`approve: STEP`: an operator allows the call that STEP left waiting; waits for its execution."""

from __future__ import annotations

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.action.call import During
from harness.action.decide import decide
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.scenario.durations import Seconds


class Advancing(Frozen):
    """`advance` moves every clock."""

    advance: Seconds


class Params(Frozen):
    """`as`: who decides; it stands in the audit. `during`: what happens while the approved call is under way at the provider."""

    target: str
    during: Advancing | None = None
    as_: str = Field(default="operator", alias="as")


class Approve(Verb[Params]):
    id = "approve"
    summary = "an operator allows the waiting call once and waits for its execution"
    params = Params
    needs = frozenset({"approvals"})
    example = "approve: write\nas: operator"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        during = None if params.during is None else During(advance=params.during.advance)
        return await decide(stage, step, params.target, phase, approve=True, by=params.as_, reason="", during=during)


ACTION = Approve()
