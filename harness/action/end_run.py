"""`end_run: true`: the agent's run ends; its token is worth nothing from then on."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen, Yes
from harness.model.scenario import Step


class Params(Frozen):
    target: Yes


class EndRun(Verb[Params]):
    id = "end_run"
    summary = "the agent's run ends"
    params = Params
    needs = frozenset({"runs"})
    example = "end_run: true"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        await stage.target.end_run(stage.tenant, stage.grant.run)
        stage.control("end_run", {"run": stage.grant.run}, phase=phase, step=step.id)
        return Done()


ACTION = EndRun()
