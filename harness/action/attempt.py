"""`attempt: OPERATION`: an operator of some role does something with a waiting approval. A refusal is an answer, for an expectation to judge."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from harness.action.base import Done, Stage, Verb
from harness.errors import ContractBroken, HarnessError
from harness.model.evidence import ApprovalRecord, Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.setting import Setting, Told, setting

Role = Literal["owner", "operator", "viewer", "outsider"]


class Params(Frozen):
    """`of`: the step whose call waits. `role`: `owner` of the gateway, `operator` or `viewer` of this tenant, or `outsider`: operator of another one.

    `door`: this tenant's, or (`home`) the tenant's where that operator is one. `as`: who they are. The owner decides under that name; the others
    have a name and a token of their own, good for this step alone.
    """

    target: Literal["approve", "reject", "read_approval"]
    of: str
    role: Role = "owner"
    door: Literal["here", "home"] = "here"
    as_: str = Field(default="reviewer", alias="as")


class Attempt(Verb[Params]):
    id = "attempt"
    summary = "somebody with this role tries to decide about a waiting call, or looks at it"
    params = Params
    needs = frozenset({"setup", "approvals"})
    example = "attempt: approve\nof: write\nrole: viewer"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        call = stage.calls.get(params.of)
        approval = str((call.said.get("approval") if call else None) or "")
        if call is None or not approval:
            raise ContractBroken(f"step {params.of!r} left no approval to decide on", where=str(step.location), fix="see the finding of its own step")
        if params.target == "approve":
            await stage.admit(call.connection, call.tool, call.arguments or {}, phase)
        door, started = setting(stage.target), stage.sequencer.next()
        told = await self._told(stage, door, params, approval)
        ended = stage.sequencer.next()
        answer: dict[str, Any] = dict(told.body) if isinstance(told.body, dict) else {}
        if params.target != "read_approval" and not told.refused:
            decided: Any = answer.get("approval") or {}
            stage.emit(
                ApprovalRecord(
                    item=stage.item,
                    phase=phase,
                    step=step.id,
                    decision=params.target,
                    seq=started,
                    ended_seq=ended,
                    approval=dict(decided),
                    result=answer.get("result"),
                    error=answer.get("error"),
                )
            )
        stage.control("operate", {"operation": params.target, "role": params.role, **told.record()}, phase=phase, step=step.id)
        return Done(answer=answer)

    async def _told(self, stage: Stage, door: Setting, params: Params, approval: str) -> Told:
        """What the gateway answers; an operator made for this is gone again afterwards."""
        if params.role == "owner":
            body = {"by": params.as_} if params.target != "read_approval" else None
            return await door.operate(stage.tenant, params.target, approval, body)
        home = stage.tenant
        if params.role == "outsider":
            home = await stage.target.open_tenant(f"{stage.tenant}-next-door")
        made = await door.operate(home, "add_operator", body={"operator": params.as_, "role": "viewer" if params.role == "viewer" else "operator"})
        if made.refused or not isinstance(made.body, dict):
            raise HarnessError(f"no operator could be made: {made.refused}", where=f"POST /tenants/{home}/operators", fix="see gateway.log")
        try:
            tenant = stage.tenant if params.door == "here" else home
            return await door.operate(tenant, params.target, approval, {}, token=str(made.body["token"]))
        finally:
            await door.operate(home, "remove_operator", params.as_)


ACTION = Attempt()
