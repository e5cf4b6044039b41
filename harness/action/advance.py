"""`advance: DURATION`: every clock of the bench moves on; nothing waits for real time it can be told."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.scenario.durations import Seconds


class Params(Frozen):
    target: Seconds


class Advance(Verb[Params]):
    id = "advance"
    summary = "gateway, stand-ins and tap move their clocks forward"
    params = Params
    needs = frozenset({"test_clock"})
    mutates = True
    example = "advance: 61m"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        await stage.time.advance(params.target)
        stage.control("clock", {"advanced_s": params.target}, phase=phase, step=step.id)
        return Done()


ACTION = Advance()
