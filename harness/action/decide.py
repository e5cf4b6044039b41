"""Shared by `approve` and `deny`: an operator decides on the call that a step left waiting."""

from __future__ import annotations

from harness.action.base import Done, Stage
from harness.errors import ContractBroken
from harness.model.evidence import ApprovalRecord, Phase
from harness.model.scenario import Step


async def decide(stage: Stage, step: Step, waiting: str, phase: Phase, *, approve: bool, by: str, reason: str) -> Done:
    """Waits until the decision is carried out; the stored result is what captures read."""
    call = stage.calls.get(waiting)
    approval = call.said.get("approval") if call else None
    if not approval:
        raise ContractBroken(
            f"step {waiting!r} left no approval to decide on",
            where=str(step.location),
            fix="the call was not held: see the finding of its own step",
        )
    started = stage.sequencer.next()
    answer = await stage.target.decide(stage.tenant, str(approval), approve=approve, by=by, reason=reason)
    stage.emit(
        ApprovalRecord(
            item=stage.item,
            phase=phase,
            step=step.id,
            decision="approve" if approve else "reject",
            seq=started,
            ended_seq=stage.sequencer.next(),
            approval=dict(answer.get("approval") or {}),
            result=answer.get("result"),
            error=answer.get("error"),
        )
    )
    return Done(answer=answer.get("result"))
