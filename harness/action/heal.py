"""`heal: CONNECTION`: the tap stops interfering: every fault and every mutation of the connection is taken back."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step


class Params(Frozen):
    target: str


class Heal(Verb[Params]):
    id = "heal"
    summary = "the tap takes back its faults and mutations"
    params = Params
    example = "heal: mem0"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.target)
        leg.mount.faults.clear()
        leg.mount.mutations.clear()
        stage.control("heal", None, phase=phase, step=step.id, connection=leg.name)
        return Done()


ACTION = Heal()
