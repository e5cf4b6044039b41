"""Ask first: a call is held for a person, or an earlier decision about the identical call stands.

How the agent waits is its run's choice: it is told at once (`result`), its call is held until the decision (`hold`), or it is asked to
come back (`input_required`, the form of 2026-07-28). However it waits, what it gets in the end is marked as what it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

import anyio

from reference_gateway.approval import ENDED, LIFETIME, Approval, Approvals, RunOver
from reference_gateway.approval import Call as Held
from reference_gateway.audit import AuditFields
from reference_gateway.call import Call, record
from reference_gateway.clock import Clock, Deadline
from reference_gateway.connections import Connections
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.log import logger
from reference_gateway.results import Reply, decided, ended_without, replayed, waiting
from reference_gateway.upstream import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

HEARTBEAT_S = 15.0
LOOK_S = 1.0
"""Of real time: another gateway on the same store, whose clock is not ours to move, may have decided."""
OPEN = ("pending", "executing")
AGAIN = ("expired", "cancelled")
"""States after which the identical call is a new request: nothing was sent. `unknown` is none of them, for there something may have been."""

log = logger("holding")


@dataclass(slots=True)
class _Waiter:
    progress: Progress | None
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class Holding:
    """`append` writes records, `deny` refuses with a reason and a detail; `dispatch` is only for the defect that does not wait."""

    def __init__(
        self,
        approvals: Approvals,
        connections: Connections,
        clock: Clock,
        defects: Defects,
        *,
        append: Callable[[list[AuditFields]], None],
        deny: Callable[[Call, str, str], Reply],
        dispatch: Callable[[Call], Awaitable[None]],
    ) -> None:
        self._approvals = approvals
        self._connections = connections
        self._clock = clock
        self._defects = defects
        self._append = append
        self._deny = deny
        self._dispatch = dispatch
        self._waiters: dict[str, list[_Waiter]] = {}
        approvals.watch(self._changed)

    async def ask(self, call: Call) -> Reply:
        """The end of a call that needs a person's word."""
        known, new = self._identical(call), False
        if call.request_state is not None and (known is None or known.id != call.request_state):
            return self._deny(call, "invalid_arguments", "requestState does not belong to this call")
        if known is None or self._asks_anew(known):
            try:
                known, new = self._approvals.request_once(self._asked(call), self._asks_anew)
            except RunOver:
                return self._deny(call, ENDED, "")
        call.approval = known
        if new:
            return await self._hold(call, known)
        if known.state in OPEN and call.run.waiting == "hold":
            return self._joined(call, await self._decision(call, known.id))
        return self._known(call, known)

    def _identical(self, call: Call) -> Approval | None:
        if "arguments-alike" in self._defects:
            return next((each for each in self._approvals.of(call.run.tenant, run=call.run.run) if _alike(each.arguments, call.arguments)), None)
        return self._approvals.find_identical(call.run.run, call.target.name, call.entry.name, call.digest or "", call.target.id)

    def _asks_anew(self, known: Approval) -> bool:
        """Also for the defects that ask a person once more."""
        declined = "decline-forgotten" in self._defects and known.state == "rejected"
        return known.state in AGAIN or declined or ("asks-twice" in self._defects and known.state in OPEN)

    def _joined(self, call: Call, ended: Approval) -> Reply:
        """The end of a call that waited for another one's approval. It asks for none of its own: what allowed that was judged long ago."""
        call.approval = ended
        return self._deny(call, ended_without(ended), "") if ended.state in AGAIN else self._known(call, ended)

    def remembered(self, call: Call) -> Reply | None:
        """What the identical call brought, for the defect that asks memory before permission."""
        call.approval = known = self._identical(call)
        return self._known(call, known) if known is not None and known.state == "executed" else None

    def progress_of(self, approval: str) -> Progress | None:
        """Progress of the execution goes to whoever waits for it, as long as they do."""
        waiters = self._waiters.get(approval)
        if not waiters:
            return None

        async def pass_on(done: float, total: float | None, text: str | None) -> None:
            for waiter in tuple(waiters):
                if waiter.progress is not None:
                    # Whoever waited may just be leaving; the execution goes on all the same.
                    with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                        await waiter.progress(done, total, text)

        return pass_on

    def expire_due(self) -> None:
        try:
            self._approvals.expire_due()
        except GatewayError as error:  # a timer has nobody to tell; the next look at the approval expires it all the same
            log.error("approvals_not_expired", code=error.code)

    def watch_expiry(self) -> None:
        """At start: a timer for each approval that was still pending when the gateway last ended."""
        now = self._clock.now()
        for expires_at in self._approvals.pending_until():
            self._clock.call_later((datetime.fromisoformat(expires_at) - now).total_seconds(), self.expire_due)

    def _known(self, call: Call, known: Approval) -> Reply:
        if known.state in OPEN:
            self._append([record(call, "policy_decision", "pending", "require_approval", "approval_pending")])
            return waiting(call.invocation, known, "approval_pending", come_back=_comes_back(call))
        if known.state == "rejected":
            return self._deny(call, "action_declined", "")
        execution = known.execution or {}
        original, outcome = str(execution.get("invocation")), str(execution.get("outcome"))
        self._append([record(call, "call_replayed", outcome, "allow", "idempotent_replay", {"replay_of": original})])
        return replayed(call.invocation, known, original, as_success="replay-as-success" in self._defects)

    def _asked(self, call: Call) -> Held:
        return Held(
            tenant=call.run.tenant,
            run=call.run.run,
            task=call.run.task,
            agent=call.run.agent,
            invocation=call.invocation,
            connection=call.target.name,
            connection_id=call.target.id,
            provider=call.target.settings.provider,
            tool=call.entry.name,
            risk=call.entry.risk,
            schema_hash=call.entry.schema_hash,
            arguments=call.arguments,
            credential_version=self._connections.credential_version(call.target),
            traceparent=call.traceparent,
            meta=call.forwarded_meta,
            era=call.era,
            timeout_s=call.timeout_s,
        )

    async def _hold(self, call: Call, approval: Approval) -> Reply:
        self._clock.call_later(LIFETIME.total_seconds(), self.expire_due)
        if "dispatch-before-approval" in self._defects:
            await self._dispatch(call)
        if call.run.waiting != "hold" or "hold-answers-early" in self._defects:
            return waiting(call.invocation, approval, "requires_approval_policy", come_back=_comes_back(call))
        return decided(call.invocation, await self._decision(call, approval.id))

    async def _decision(self, call: Call, approval: str) -> Approval:
        """Waits until the approval is decided and carried out. An agent that leaves meanwhile leaves the approval as it is."""
        beats, due = 0, self._clock.monotonic()
        with self._waiting(approval, call.progress) as waiter:
            while True:
                waiter.changed.clear()  # before looking, so that no change is missed between the look and the wait
                found = self._approvals.get(call.run.tenant, approval)
                if found.state not in OPEN:
                    return found
                if self._clock.monotonic() >= due:
                    due += HEARTBEAT_S
                    if call.progress is not None and found.state == "pending":
                        # In fractions, so that what the provider counts from 1 still goes up.
                        await call.progress(beats / 1000, None, "waiting for a person's approval")
                        beats += 1
                with anyio.move_on_after(LOOK_S), Deadline(self._clock, max(due - self._clock.monotonic(), 0.0)):
                    await waiter.changed.wait()

    @contextmanager
    def _waiting(self, approval: str, progress: Progress | None) -> Iterator[_Waiter]:
        waiter = _Waiter(progress)
        everybody = self._waiters.setdefault(approval, [])
        everybody.append(waiter)
        try:
            yield waiter
        finally:
            everybody.remove(waiter)
            if not everybody:
                self._waiters.pop(approval, None)

    def _changed(self, approval: str) -> None:
        for waiter in self._waiters.get(approval, ()):
            waiter.changed.set()


def _comes_back(call: Call) -> bool:
    return call.run.waiting == "input_required" and call.era == "modern"


def _alike(one: object, other: object) -> bool:
    """For the defect that does not tell 7 from "7", nor true from 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one)
    return one == other or str(one) == str(other)
