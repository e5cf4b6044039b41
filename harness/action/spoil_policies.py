"""`spoil_policies: gateway`: somebody with access to the gateway's store puts a policy there that no gateway can read."""

from __future__ import annotations

from typing import Literal

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.outer import outer


class Params(Frozen):
    target: Literal["gateway"]


class SpoilPolicies(Verb[Params]):
    id = "spoil_policies"
    summary = "the stored policies become one that cannot be read"
    params = Params
    mutates = True
    needs = frozenset({"credentials", "setup"})
    example = "spoil_policies: gateway"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        outer(stage.target).spoil_policies(stage.tenant)
        stage.control("spoil_policies", None, phase=phase, step=step.id)
        return Done()


ACTION = SpoilPolicies()
