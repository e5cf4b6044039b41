"""`review: CONNECTION`: an operator decides on a tool that the gateway holds back; the catalog is read back."""

from __future__ import annotations

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.governed import Decision, governed


class Params(Frozen):
    """`tool`: the one held back. `as`: who decides; it stands in the audit."""

    target: str
    tool: str
    decision: Decision
    as_: str = Field(default="operator", alias="as")


class Review(Verb[Params]):
    id = "review"
    summary = "an operator allows a quarantined tool, or keeps it blocked; the catalog is read back"
    params = Params
    needs = frozenset({"catalog", "quarantine"})
    example = "review: mem0\ntool: add_memory\ndecision: allow"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection = stage.leg(params.target).name
        target = governed(stage.target)
        answer = await target.review(stage.tenant, connection, params.tool, decision=params.decision, by=params.as_)
        stage.control("review", dict(answer), phase=phase, step=step.id, connection=connection)
        catalog = await stage.target.catalog(stage.tenant, connection)
        stage.control("catalog", dict(catalog), phase=phase, step=step.id, connection=connection)
        return Done(answer=dict(answer))


ACTION = Review()
