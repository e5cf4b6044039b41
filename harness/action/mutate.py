"""`mutate: CONNECTION`: the tap changes the provider's tool list on its way to the gateway."""

from __future__ import annotations

from pydantic import field_validator

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.tap.mutate import MUTATION_KINDS, Mutation


class Params(Frozen):
    """`kind`: a catalog mutation of the tap; `tool`: which one (none for cursor mutations)."""

    target: str
    kind: str
    tool: str | None = None
    parameter: str | None = None

    @field_validator("kind")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in MUTATION_KINDS:
            raise ValueError(f"the tap has no such mutation; use one of: {', '.join(sorted(MUTATION_KINDS))}")
        return value


class Mutate(Verb[Params]):
    id = "mutate"
    summary = "the tap changes the provider's tool list"
    params = Params
    example = "mutate: mem0\nkind: parameter-added\ntool: add_memory"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.target)
        leg.mount.mutations.append(Mutation(kind=params.kind, tool=params.tool, parameter=params.parameter))
        stage.control("mutation", {"kind": params.kind, "tool": params.tool}, phase=phase, step=step.id, connection=leg.name)
        return Done()


ACTION = Mutate()
