"""`refresh: CONNECTION`: an operator has the gateway discover the provider's tools anew; the catalog is read back."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step


class Params(Frozen):
    target: str


class Refresh(Verb[Params]):
    id = "refresh"
    summary = "the gateway discovers a provider's tools again, and its catalog is read back"
    params = Params
    needs = frozenset({"catalog", "refresh"})
    example = "refresh: mem0"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection = stage.leg(params.target).name
        answer = await stage.target.refresh(stage.tenant, connection)
        stage.control("refresh", dict(answer), phase=phase, step=step.id, connection=connection)
        catalog = await stage.target.catalog(stage.tenant, connection)
        stage.control("catalog", dict(catalog), phase=phase, step=step.id, connection=connection)
        return Done(answer=dict(answer))


ACTION = Refresh()
