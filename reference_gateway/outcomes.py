"""What calls brought that the store did not take when it was due: kept in memory, and written as soon as the store takes it again.

The call was sent, so that its end is a fact; only a process that ends before it could write it leaves the call `unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from reference_gateway.approval import ApprovalConflict
from reference_gateway.audit import ENDS, SHARED, AuditFields
from reference_gateway.call import Call
from reference_gateway.clock import Timer
from reference_gateway.log import logger
from reference_gateway.parts import Parts
from reference_gateway.store.base import AUDIT_PAGE, StoreError
from reference_gateway.wire import Json

RETRY_S = 0.25

log = logger("outcomes")


class OutcomeNotRecorded(StoreError):
    """The call was sent. Every other StoreError on a call's way means that it was not."""

    def __init__(self, cause: StoreError) -> None:
        super().__init__(
            "outcome_not_recorded",
            "the call was sent and may have been executed; what it brought is not recorded yet",
            where=cause.where,
            fix="do not repeat it; its outcome is recorded as soon as the store can be written",
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call ended: its last record (none under a defect), and what the approval it had is told (`result` or `error`)."""

    call: Call
    records: Sequence[AuditFields]
    outcome: str
    result: Json | None = None
    error: Json | None = None


class Outcomes:
    """Only for the event loop's thread: what is kept is tried again on a timer of it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._kept: list[Outcome] = []
        self._timer: Timer | None = None

    def write(self, outcome: Outcome) -> None:
        """The record and the approval's end, in one transaction. Raises StoreError; and ApprovalConflict if it has ended already."""
        approval = outcome.call.approval
        with self._parts.audit.together(alone=True):
            if outcome.records:
                self._parts.audit.append_many(outcome.records)
            if approval is not None:
                self._parts.approvals.finish(
                    approval.id, outcome.outcome, result=outcome.result, error=outcome.error, invocation=outcome.call.invocation
                )

    def keep(self, outcome: Outcome, cause: StoreError) -> OutcomeNotRecorded:
        """Written later. What to tell whoever waits for the call meanwhile."""
        log.error("outcome_kept", code=cause.code, invocation=outcome.call.invocation)
        outcome.call.target.in_flight.add(outcome.call.invocation)  # its end is not on record
        self._kept.append(outcome)
        if self._timer is None:
            self._timer = self._parts.clock.call_later(RETRY_S, self._again)
        return OutcomeNotRecorded(cause)

    def last_try(self) -> None:
        """The process ends. What cannot be written now either is `unknown` when it starts again."""
        if self._timer is not None:
            self._timer.cancel()
        self._again()
        if self._timer is not None:
            self._timer.cancel()
            log.error("outcomes_left_unknown", calls=len(self._kept))

    def _again(self) -> None:
        self._timer, began = None, self._parts.clock.monotonic()
        waiting, self._kept = self._kept, []
        while waiting:
            try:
                self._late(waiting[0])
            except ApprovalConflict:
                log.error("outcome_too_late", invocation=waiting[0].call.invocation)
            except StoreError as error:
                if error.code in SHARED:
                    break
                if error.code == "store_conflict":
                    log.error("outcome_refused", invocation=waiting[0].call.invocation)
                else:
                    self._kept.append(waiting[0])
            waiting.pop(0)
        self._kept += waiting
        if self._kept:
            # A store that is held by somebody answers slowly, and nothing else is done meanwhile: half of the time is for everybody else.
            spent = self._parts.clock.monotonic() - began
            self._timer = self._parts.clock.call_later(max(RETRY_S, spent), self._again)

    def _late(self, kept: Outcome) -> None:
        call = kept.call
        with self._parts.audit.together(alone=True):
            if not self._recorded(kept):
                self.write(_marked(kept))
        call.target.in_flight.discard(call.invocation)
        log.warning("outcome_recorded_late", invocation=call.invocation)

    def _recorded(self, kept: Outcome) -> bool:
        """A store that is lost while it commits does not say whether it did."""
        call = kept.call
        if call.approval is not None:
            found = self._parts.store.approval_get(call.run.tenant, call.approval.id)
            return found is not None and found["state"] != "executing"
        after = call.started_seq
        while page := self._parts.store.audit_read(call.run.tenant, run=call.run.run, after=after, limit=AUDIT_PAGE):
            if any(record["invocation"] == call.invocation and record["event"] in ENDS for record in page):
                return True
            after = page[-1]["seq"]
        return False


def _marked(kept: Outcome) -> Outcome:
    """As it would be recorded now: who revoked the grant meanwhile has it on record as under way."""
    if not kept.call.target.revoked:
        return kept
    return replace(kept, records=[{**each, "details": {**(each.get("details") or {}), "grant_revoked": True}} for each in kept.records])
