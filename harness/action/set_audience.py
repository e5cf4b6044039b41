"""`set_audience: CONNECTION`: an operator says which users an organization's grant serves."""

from __future__ import annotations

from typing import Literal

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.outer import outer


class Params(Frozen):
    """`to`: the user whom the run acts for (`self`), another one (`others`), `nobody`, or `everybody`."""

    target: str
    to: Literal["self", "others", "nobody", "everybody"]


class SetAudience(Verb[Params]):
    id = "set_audience"
    summary = "an operator says which users an organization's grant serves"
    params = Params
    needs = frozenset({"revoke"})
    example = "set_audience: mem0\nto: others"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection = stage.leg(params.target).name
        audience = {"self": [f"user-{stage.tenant}"], "others": ["user-other"], "nobody": [], "everybody": None}[params.to]
        answer = await outer(stage.target).set_audience(stage.tenant, connection, audience)
        stage.control("audience", dict(answer), phase=phase, step=step.id, connection=connection)
        return Done(answer=dict(answer))


ACTION = SetAudience()
