"""`relay: WHAT`: what happens to the channel of an agent in a sandbox."""

from __future__ import annotations

from typing import Literal

from harness.action.base import Done, Stage, Verb
from harness.errors import HarnessError, UsageError
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.sandbox.session import SandboxSession
from harness.target.setting import setting


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
        visible = await visible_now(stage) if params.target == "resume" else None
        answer = await stage.agent.relay(params.target)
        if visible is not None:
            answer["visible"] = visible
        stage.control("relay", answer, phase=phase, step=step.id)
        return Done(answer=answer)


async def visible_now(stage: Stage) -> list[str]:
    """What the agent's run may see at this moment, by the operator's word on each tool and on the run's mode: what has to be declared."""
    told = await setting(stage.target).operate(stage.tenant, "read_run", stage.grant.run)
    mode = told.body.get("mode") if isinstance(told.body, dict) else None
    if mode is None:
        raise HarnessError(f"the gateway does not tell the mode of its run: {told.refused}", where="GET /runs", fix="see docs/operator-api.md")
    found = []
    for connection in stage.legs:
        for tool in (await stage.target.catalog(stage.tenant, connection)).get("tools", []):
            usable = tool.get("status") == "active" and tool.get("permission") != "off"
            if usable and (mode == "execute" or tool.get("risk") == "read"):
                found.append(stage.target.exposed_name(connection, str(tool.get("name"))))
    return sorted(found)


ACTION = Relay()
