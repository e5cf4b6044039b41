"""`swap_secrets: [CONNECTION, CONNECTION]`: somebody with access to the gateway's disk exchanges two sealed credentials."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.errors import Untestable
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.outer import outer


class Params(Frozen):
    target: tuple[str, str]


class SwapSecrets(Verb[Params]):
    id = "swap_secrets"
    summary = "the sealed credentials of two connections change places in the gateway's store"
    params = Params
    mutates = True
    needs = frozenset({"credentials"})
    example = "swap_secrets: [mem0, other]"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        one, other = (stage.leg(name).name for name in params.target)
        moved = outer(stage.target).swap_secrets(stage.tenant, one, other)
        if moved != 2:
            raise Untestable(f"{moved} sealed credentials were moved, not 2", where=str(step.location), fix="use two connections of one provider")
        stage.control("swap_secrets", {"moved": moved}, phase=phase, step=step.id)
        return Done()


ACTION = SwapSecrets()
