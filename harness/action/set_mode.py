"""`set_mode: MODE`: an operator changes what the agent's run may do while it runs."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.governed import Mode, governed


class Params(Frozen):
    target: Mode


class SetMode(Verb[Params]):
    id = "set_mode"
    summary = "the agent's run is set to execute, planning or ask; the last two only read"
    params = Params
    needs = frozenset({"modes", "runs"})
    example = "set_mode: planning"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        answer = await governed(stage.target).set_mode(stage.tenant, stage.grant.run, params.target)
        stage.control("mode", dict(answer), phase=phase, step=step.id)
        return Done(answer=dict(answer))


ACTION = SetMode()
