"""`settle: CONNECTION`: the provider's own background work (indexing, derivation) moves on; only a stand-in can be told."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.errors import Untestable
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.scenario.durations import Seconds


class Params(Frozen):
    target: str
    by: Seconds = 60.0


class Settle(Verb[Params]):
    id = "settle"
    summary = "the stand-in's own time moves on, so that what is queued gets done"
    params = Params
    example = "settle: cognee\nby: 10s"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.target)
        if leg.settle is None:
            raise Untestable(f"{leg.provider} is no stand-in, its time cannot be moved", where=str(step.location), fix="use eventually: instead")
        await leg.settle(params.by)
        stage.control("settle", {"seconds": params.by}, phase=phase, step=step.id, connection=leg.name)
        return Done()


ACTION = Settle()
