"""Shared by `approve` and `deny`: an operator decides on the call that a step left waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from harness.action.base import Done, Stage
from harness.action.call import During, meanwhile
from harness.errors import ContractBroken, Untestable
from harness.model.evidence import ApprovalRecord, ClientExchange, Phase
from harness.model.scenario import Step


async def repeated(stage: Stage, call: ClientExchange) -> Mapping[str, Any]:
    """The same call again, byte for byte and under the same trace: what the approval was for."""
    meta = {"traceparent": call.traceparent}
    answer = await stage.agent.call(call.exposed_as, call.arguments or {}, meta=meta, timeout=stage.step_timeout_s)
    if answer.transport_error:
        raise Untestable(
            f"the approved call was repeated and brought nothing: {answer.transport_error}", where=call.tool, fix="see the gateway's log"
        )
    return {"result": answer.result, "error": answer.error.model_dump() if answer.error else None}


async def decide(stage: Stage, step: Step, waiting: str, phase: Phase, *, approve: bool, by: str, reason: str, during: During | None = None) -> Done:
    """Waits until the decision is carried out; the stored result is what captures read.

    Where a gateway does not carry out what was approved, the agent repeats the identical call, as part of this very step.
    """
    call = stage.calls.get(waiting)
    approval = call.said.get("approval") if call else None
    if not approval:
        raise ContractBroken(
            f"step {waiting!r} left no approval to decide on",
            where=str(step.location),
            fix="the call was not held: see the finding of its own step",
        )
    if approve and call is not None:
        await stage.admit(call.connection, call.tool, call.arguments or {}, phase)
    started = stage.sequencer.next()
    deciding = asyncio.ensure_future(stage.target.decide(stage.tenant, str(approval), approve=approve, by=by, reason=reason))
    if during is not None and call is not None:
        await meanwhile(stage, call.connection, call.tool, during, deciding)
    answer = await deciding
    if call is not None and approve and not stage.target.executes_on_approval:
        answer = {**answer, **await repeated(stage, call)}
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
