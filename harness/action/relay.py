"""`relay: WHAT`: what happens to the channel of an agent in a sandbox."""

from __future__ import annotations

from typing import Literal

from harness.action.base import Done, Stage, Verb
from harness.errors import UsageError
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.sandbox.session import SandboxSession


class Params(Frozen):
    """`detach`: the agent's channel ends. `resume`: its session goes on with a new one. `borrow`: it is handed the channel of another
    run. `claim`: it names another run on its own channel. After the last two, `resume` gives it its own again."""

    target: Literal["detach", "resume", "borrow", "claim"]


class Relay(Verb[Params]):
    id = "relay"
    summary = "the relay channel of an agent in a sandbox ends, is renewed, or is misused"
    params = Params
    example = "relay: resume"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        if not isinstance(stage.agent, SandboxSession):
            raise UsageError("the agent has no relay: it stands beside the gateway", where=str(step.location), fix="add place: sandbox")
        answer = await stage.agent.relay(params.target)
        stage.control("relay", answer, phase=phase, step=step.id)
        return Done(answer=answer)


ACTION = Relay()
