"""`revoke: CONNECTION`: an operator revokes the connection's grant."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step


class Params(Frozen):
    target: str


class Revoke(Verb[Params]):
    id = "revoke"
    summary = "the connection's grant is revoked; the next call must be refused"
    params = Params
    needs = frozenset({"revoke"})
    example = "revoke: mem0"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection = stage.leg(params.target).name
        await stage.target.revoke(stage.tenant, connection)
        stage.control("revoke", None, phase=phase, step=step.id, connection=connection)
        return Done()


ACTION = Revoke()
