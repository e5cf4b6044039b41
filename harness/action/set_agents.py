"""`set_agents: CONNECTION`: an operator says which agents may use a connection at all; every agent again unless a list is given."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.governed import governed


class Params(Frozen):
    """`agents`: their names, an empty list for nobody; left out: everybody. The harness's own agent is called scripted-agent."""

    target: str
    agents: tuple[str, ...] | None = None


class SetAgents(Verb[Params]):
    id = "set_agents"
    summary = "an operator says which agents may use a connection"
    params = Params
    needs = frozenset({"permissions", "modes"})
    example = "set_agents: mem0\nagents: [scripted-agent]"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection = stage.leg(params.target).name
        answer = await governed(stage.target).set_agents(stage.tenant, connection, params.agents)
        stage.control("agents", dict(answer), phase=phase, step=step.id, connection=connection)
        return Done(answer=dict(answer))


ACTION = SetAgents()
