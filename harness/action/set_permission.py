"""`set_permission: CONNECTION.TOOL`: an operator changes what the agent may do; restored after cleanup."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Permission, Step


class Params(Frozen):
    target: str
    to: Permission


class SetPermission(Verb[Params]):
    id = "set_permission"
    summary = "an operator sets a tool to allowed, ask_first or off; the harness restores it after cleanup"
    params = Params
    needs = frozenset({"permissions"})
    example = "set_permission: mem0.add_memory\nto: ask_first"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection, tool = stage.resolve(params.target)
        stage.changed_permissions.add(connection)
        answer = await stage.target.set_permissions(stage.tenant, connection, {tool: params.to})
        stage.control("permissions", {tool: answer.get(tool)}, phase=phase, step=step.id, connection=connection)
        return Done(answer=dict(answer))


ACTION = SetPermission()
