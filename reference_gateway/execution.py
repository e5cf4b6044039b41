"""The last stages of a call: sent once, its answer guarded, its end recorded."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from reference_gateway.answers import agent_side, belongs, guarded, output_missing
from reference_gateway.audit import AuditFields
from reference_gateway.call import Call, record
from reference_gateway.clock import Deadline
from reference_gateway.errors import GatewayError
from reference_gateway.health import observe
from reference_gateway.outcomes import Outcome, Outcomes
from reference_gateway.parts import MAX_TIMEOUT_S, Parts
from reference_gateway.provider import Answer, ProviderCall
from reference_gateway.results import INPUT_REQUIRED, CallOutcome, Reply, annotated, own_result
from reference_gateway.spoiling import spoiled
from reference_gateway.store.base import StoreError
from reference_gateway.wire import FETCH_FAILED, Json, UpstreamFailure


class Execution:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.outcomes = Outcomes(parts)
        self.early: dict[str, Answer | UpstreamFailure] = {}
        """Answers by approval, for the defect that does not wait for one."""

    async def dispatch(self, call: Call) -> Reply | None:
        """Exactly one request. Its answer, or the way it failed, is left in `call.answer`; None means that time ran out."""
        if call.approval is not None and call.approval.id in self.early:
            call.answer = self.early.pop(call.approval.id)
            return None
        call.target.in_flight.add(call.invocation)
        schema = call.entry.input_schema if call.entry.mirrored else None
        call.peer = agent_side(call.agent, call.target.settings.offers, lambda method, how: self._asked(call, method, how))
        sent = ProviderCall(call.entry.name, call.arguments, call.forwarded_meta, call.era, schema, call.progress, call.peer, call.extra)
        with Deadline(self._parts.clock, call.timeout_s or MAX_TIMEOUT_S):
            try:
                if call.approval is not None and "approve-twice" in self._parts.defects:
                    await call.target.client.call(sent)
                call.answer = await call.target.client.call(sent)
            except UpstreamFailure as failure:
                call.answer = failure
            except GatewayError as error:  # a credential that cannot be opened: nothing was sent
                call.answer = UpstreamFailure(FETCH_FAILED, error.message)
        return None

    def _asked(self, call: Call, method: str, how: str) -> None:
        self.append([record(call, "agent_asked", how, "allow", method)])

    async def guard_result(self, call: Call) -> Reply | None:
        """What came back is a tool result within bounds, or it is a failure of the provider."""
        if isinstance(call.answer, Answer):
            try:
                answer = guarded(call, call.answer, self._parts.defects, call.peer)
                call.answer = spoiled(call, answer, self._parts.defects, self._parts.connections)
            except UpstreamFailure as failure:
                failure.status = call.answer.status
                call.answer = failure
        return None

    async def record_outcome(self, call: Call) -> Reply | None:
        answer = call.answer
        observe(call.target, answer)
        if answer is None:
            text = f"The provider did not answer within {call.timeout_s:g} seconds. Whether it acted is not known."
            reply = Reply(own_result(text, call.invocation, "timeout", "tool_timeout"))
            return self.end(call, "call_failed", "timeout", "tool_timeout", reply)
        if isinstance(answer, UpstreamFailure):
            if answer.rpc is not None:
                return self.end(call, "call_failed", "failure", answer.reason, Reply(None, answer.rpc))
            reply = Reply(own_result(f"The call failed: {answer.message}.", call.invocation, "upstream_error", answer.reason))
            return self.end(call, "call_failed", "failure", answer.reason, reply)
        if answer.result.get("resultType") == INPUT_REQUIRED:
            sealed = {**answer.result, "requestState": self._parts.sealer.seal(answer.result.get("requestState"), belongs(call))}
            reply = Reply(annotated(sealed, call.invocation, "input_required", "provider", INPUT_REQUIRED))
            return await self._ended(call, "call_completed", "pending", INPUT_REQUIRED, reply)
        failed = answer.result.get("isError") is True
        outcome: CallOutcome = "tool_error" if failed else "success"
        more = {"flags": list(call.flags)} if call.flags else {}
        reply = Reply(annotated(answer.result, call.invocation, outcome, "provider", "tool_error" if failed else None, **more))
        if failed:
            return self.end(call, "call_failed", "failure", "tool_error", reply)
        if call.approval is None:
            return await self._ended(call, "call_completed", "success", "tool_completed", reply)
        return self.end(call, "call_completed", "success", "tool_completed", reply)

    # records

    async def _ended(self, call: Call, event: str, outcome: str, reason: str, reply: Reply) -> Reply:
        """The last record of a call that no approval waits for, in one commit with those of others. Raises OutcomeNotRecorded."""
        ended = self._outcome(call, event, outcome, reason, reply)
        written: list[bool] = [not ended.records]
        try:
            if ended.records:
                await self._parts.audit.append_soon(ended.records, lambda: written.append(True))
        except StoreError as error:
            raise self.outcomes.keep(ended, error) from error
        except asyncio.CancelledError:
            if not any(written):  # who called has left; what the call brought is to be recorded all the same
                self.outcomes.keep(ended, StoreError(self._parts.audit.state, "the record could not be written"))
            raise
        return reply

    def end(self, call: Call, event: str, outcome: str, reason: str, reply: Reply) -> Reply:
        """The call's last record and, for an approved call, the approval's end, in one transaction. Raises OutcomeNotRecorded."""
        ended = self._outcome(call, event, outcome, reason, reply)
        try:
            self.outcomes.write(ended)
        except StoreError as error:
            raise self.outcomes.keep(ended, error) from error
        return reply

    def _outcome(self, call: Call, event: str, outcome: str, reason: str, reply: Reply) -> Outcome:
        records = self.kept([self._last_record(call, event, outcome, reason)])
        return Outcome(call, records, outcome, result=reply.result, error=_error(reply, reason, outcome))

    def _last_record(self, call: Call, event: str, outcome: str, reason: str) -> AuditFields:
        call.ended = True
        call.target.in_flight.discard(call.invocation)
        if event == "call_failed" and "wrong-outcome" in self._parts.defects:
            event, recorded, reason = "call_completed", "success", "tool_completed"
        else:
            recorded = outcome
        details = {
            **call.where,
            "latency_ms": round(max(0.0, self._parts.clock.monotonic() - (call.started_at or 0.0)) * 1000),
            "result_bytes": call.measure.size,
            "result_digest": call.measure.digest or None,
        }
        with suppress(StoreError):  # somebody may have revoked it at another gateway; where that cannot be read, what was known holds
            self._parts.connections.current()
        if call.target.revoked:  # it was not when the call left
            details["grant_revoked"] = True
        if call.flags:
            details["result_flags"] = list(call.flags)
        if output_missing(call):
            details["output_missing"] = True
        if call.answer is not None and call.answer.status is not None:
            details["provider_status"] = call.answer.status
        if isinstance(call.answer, UpstreamFailure) and call.answer.rpc is not None:
            details["provider_code"] = call.answer.rpc["code"]
        return record(call, event, recorded, "allow", reason, details)

    def append(self, records: list[AuditFields]) -> None:
        if records := self.kept(records):
            self._parts.audit.append_many(records)

    def kept(self, records: list[AuditFields]) -> list[AuditFields]:
        if "drop-audit" not in self._parts.defects:
            return records
        dropped = (self._parts.defects["drop-audit"],) if self._parts.defects["drop-audit"] else ("call_completed", "call_failed")
        return [record for record in records if record["event"] not in dropped]


def _error(reply: Reply, reason: str, outcome: str) -> Json | None:
    """What a stored approval says about a failure, beside the result that the agent would have seen."""
    if reply.rpc is not None:
        return reply.rpc
    if outcome == "success" or reason == "tool_error":
        return None
    content = (reply.result or {}).get("content") or [{}]
    return {"code": reason, "message": content[0].get("text", reason)}
