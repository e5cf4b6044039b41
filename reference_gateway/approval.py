"""Approvals: a call that waits for a person, is claimed at most once, and is never tried again.

States: pending → executing → executed | failed | unknown; pending → rejected | expired | cancelled. Each arrow is one atomic
compare-and-set in the store, with its audit record in the same transaction, so that whoever decides and however often,
in however many processes, one claim wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal

from reference_gateway.audit import AuditFields, AuditLog, Decision, Event, Now, Outcome, stamp
from reference_gateway.canonical import arguments_digest
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.ids import Ids, RandomIds
from reference_gateway.store.base import Document, Store

State = Literal["pending", "executing", "executed", "failed", "rejected", "expired", "cancelled", "unknown"]

LIFETIME = timedelta(minutes=60)
ENDED = "run_ended"
"""Why an approval was cancelled whose run ended first."""
CHANGED = "approved_tool_target_changed"
"""Why an approval was cancelled when what was asked for is no longer what would be done."""


class ApprovalUnknown(GatewayError):
    http_status = 404

    def __init__(self, approval: str) -> None:
        super().__init__("approval_unknown", "there is no such approval", where=approval, fix="list the tenant's approvals")


class ApprovalConflict(GatewayError):
    """It has been decided already; `state` says how."""

    http_status = 409

    def __init__(self, approval: str, state: str) -> None:
        super().__init__("approval_not_pending", f"the approval is {state}, not pending", where=approval, fix="read its state and result")
        self.state = state


class RunOver(GatewayError):
    """The run that asks has ended since it was let in."""

    http_status = 409

    def __init__(self, run: str) -> None:
        super().__init__(ENDED, "the run has ended", where=run, fix="create another")


class ApprovalExpired(GatewayError):
    http_status = 409
    state = "expired"

    def __init__(self, approval: str) -> None:
        super().__init__("action_expired", "the approval expired before it was decided", where=approval, fix="let the agent ask again")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The call that waits: who, where, what, exactly as it would be sent. `credential_version` pins the secret it would be sent with."""

    tenant: str
    run: str
    task: str | None
    agent: str | None
    invocation: str
    connection: str
    provider: str
    tool: str
    risk: str
    schema_hash: str
    arguments: Mapping[str, Any]
    credential_version: int = 0
    traceparent: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    """What of the agent's `_meta` is the provider's business."""
    era: str = "modern"
    timeout_s: float | None = None
    connection_id: str = ""
    """Which of all connections that ever had this name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """Every field of docs/operator-api.md, the call's own context, and what execution brought (`result` or `error`)."""

    id: str
    state: State
    tenant: str
    run: str
    task: str | None
    agent: str | None
    invocation: str
    connection: str
    provider: str
    tool: str
    risk: str
    arguments: dict[str, Any]
    arguments_digest: str
    schema_hash: str
    credential_version: int
    traceparent: str | None
    requested_at: str
    expires_at: str
    meta: dict[str, Any] = field(default_factory=dict)
    era: str = "modern"
    timeout_s: float | None = None
    connection_id: str = ""
    decided_by: str | None = None
    decided_at: str | None = None
    reason: str | None = None
    execution: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None

    def public(self) -> dict[str, Any]:
        """As the operator API shows it."""
        return {name: getattr(self, name) for name in _PUBLIC}


_PUBLIC = (
    "id", "state", "run", "invocation", "connection", "tool", "risk", "arguments", "arguments_digest", "schema_hash",
    "requested_at", "expires_at", "decided_by", "decided_at", "reason", "execution",
)  # fmt: skip
_FIELDS = tuple(each.name for each in fields(Approval))


def _tool_key(connection: str, tool: str, connection_id: str) -> str:
    """Of one tool of one connection, and not of another one that has its name later. Ids hold no space, names and lengths neither."""
    key = f"{len(connection)}:{connection}{tool}"
    return f"{connection_id} {key}" if connection_id else key


class Approvals:
    """All methods are synchronous and durable when they return; an approval's audit records are written with its state or not at all."""

    def __init__(self, store: Store, audit: AuditLog, clock: Now, *, ids: Ids | None = None, defects: Defects | None = None) -> None:
        self._store = store
        self._defects = defects or Defects()
        self._audit = audit
        self._clock = clock
        self._ids = ids or RandomIds()
        self._watchers: list[Callable[[str], None]] = []

    def watch(self, watcher: Callable[[str], None]) -> None:
        """`watcher` is called with the id of each approval whose state changes in this process; it must not raise."""
        self._watchers.append(watcher)

    def tell(self, approvals: Iterable[str]) -> None:
        """Wakes whoever waits for these, once what changed is committed."""
        for approval in approvals:
            for watcher in self._watchers:
                watcher(approval)

    def pending_until(self) -> list[str]:
        """When each pending approval of the whole store expires."""
        return [doc["expires_at"] for doc in self._store.approvals(None, state="pending")]

    def request(self, call: Call) -> Approval:
        """A pending approval and its audit pair. Raises NotCarried for arguments that have no exact digest."""
        now = self._clock.now()
        context = {name: getattr(call, name) for name in Call.__dataclass_fields__}
        approval = Approval(
            **{**context, "arguments": dict(call.arguments), "meta": dict(call.meta)},
            id=self._ids.new("ap"),
            state="pending",
            arguments_digest=arguments_digest(call.arguments),
            requested_at=stamp(now),
            expires_at=stamp(now + LIFETIME),
        )
        actor = f"agent:{call.agent}"
        events: tuple[Event, ...] = ("policy_decision", "approval_requested")
        with self._audit.together():
            self._store.approval_put({**asdict(approval), "tool_key": _tool_key(call.connection, call.tool, call.connection_id)})
            self._audit.append_many(
                [self.record(approval, event, "pending", "require_approval", "requires_approval_policy", actor) for event in events]
            )
        return approval

    def request_once(self, call: Call, anew: Callable[[Approval], bool]) -> tuple[Approval, bool]:
        """The identical call's approval and False; or, if there is none or it is one to ask `anew` after, a pending one and True.

        Looked for and made in one transaction, so that of identical calls in many processes one asks. Raises NotCarried, and RunOver: what
        waits in a run is withdrawn when it ends, and nothing may begin to wait after that.
        """
        with self._audit.together(alone=True):
            known = self.find_identical(call.run, call.connection, call.tool, arguments_digest(call.arguments), call.connection_id)
            if known is not None and not anew(known):
                return known, False
            run = self._store.run_get(call.run)
            if run is not None and run["state"] == "ended" and "ended-run-calls" not in self._defects:
                raise RunOver(call.run)
            return self.request(call), True

    @staticmethod
    def record(
        approval: Approval,
        event: Event,
        outcome: Outcome,
        decision: Decision,
        reason: str,
        actor: str,
        details: Mapping[str, Any] | None = None,
    ) -> AuditFields:
        """An audit record about this approval's call, with its id."""
        return {
            "tenant": approval.tenant,
            "run": approval.run,
            "task": approval.task,
            "agent": approval.agent,
            "actor": actor,
            "connection": approval.connection,
            "provider": approval.provider,
            "tool": approval.tool,
            "invocation": approval.invocation,
            "approval": approval.id,
            "event": event,
            "outcome": outcome,
            "decision": decision,
            "reason": reason,
            "risk": approval.risk,
            "schema_hash": approval.schema_hash,
            "arguments_digest": approval.arguments_digest,
            "traceparent": approval.traceparent,
            "details": details,
        }

    # looking

    def get(self, tenant: str | None, approval: str) -> Approval:
        """Raises ApprovalUnknown, also for another tenant's. What has just fallen due reads as expired."""
        self.expire_due()
        doc = self._store.approval_get(None if "approval-of-any-tenant" in self._defects else tenant, approval)
        if doc is None:
            raise ApprovalUnknown(approval)
        return _from(doc)

    def of(self, tenant: str, *, run: str | None = None, state: str | None = None) -> list[Approval]:
        """Oldest first."""
        self.expire_due()
        return [_from(doc) for doc in self._store.approvals(tenant, run=run, state=state)]

    def find_identical(self, run: str, connection: str, tool: str, digest: str, connection_id: str = "") -> Approval | None:
        """The latest approval of the same call in the same run, whatever its state."""
        self.expire_due()
        doc = self._store.approval_find(run, _tool_key(connection, tool, connection_id), digest)
        return _from(doc) if doc is not None else None

    # deciding

    def claim(self, approval: str, by: str) -> Approval:
        """pending → executing, for exactly one caller. Raises ApprovalConflict, ApprovalExpired or ApprovalUnknown.

        The caller has checked the target anew in the same breath, and must now execute and `finish`, whatever happens.
        """
        return self._decide(approval, "executing", by, "success", "allow", "approved", None)

    def reject(self, approval: str, by: str, reason: str | None = None) -> Approval:
        """pending → rejected. Raises as `claim`."""
        return self._decide(approval, "rejected", by, "denied", "deny", "action_declined", reason)

    def supersede(self, approval: str, by: str, reason: str = CHANGED) -> Approval:
        """pending → cancelled: what was asked for is no longer what would be done. Raises as `claim`."""
        return self._decide(approval, "cancelled", by, "denied", "deny", reason, reason)

    def withdraw(self, tenant: str, run: str, actor: str) -> list[str]:
        """The run has ended: every pending approval of it becomes cancelled. Their ids, for `tell` after the caller's transaction.

        One that is executing goes on: it was claimed before.
        """
        with self._audit.together():
            return self._cancelled(self.of(tenant, run=run, state="pending"), ENDED, actor)

    def no_longer_asked(self, tenant: str, actor: str, unasked: Callable[[Approval], bool]) -> list[str]:
        """Every pending approval for which `unasked` becomes cancelled: its call may be made without one, and must not run beside that.

        To be called in the transaction of the change that loosened something. Their ids, for `tell`.
        """
        with self._audit.together():
            return self._cancelled([each for each in self.of(tenant, state="pending") if unasked(each)], CHANGED, actor)

    def _cancelled(self, approvals: Iterable[Approval], reason: str, actor: str) -> list[str]:
        done: list[str] = []
        for approval in approvals:
            if self._store.approval_transition(approval.id, "pending", "cancelled", decided_at=stamp(self._clock.now()), reason=reason):
                self._audit.append(**self.record(approval, "approval_resolved", "denied", "deny", reason, actor))
                done.append(approval.id)
        return done

    def _decide(self, approval: str, state: State, by: str, outcome: Outcome, decision: Decision, audit_reason: str, reason: str | None) -> Approval:
        current = self.get(None, approval)
        if current.state == "expired":
            raise ApprovalExpired(approval)
        changes = {"decided_by": by, "decided_at": stamp(self._clock.now()), "reason": reason}
        with self._audit.together():
            expected = self.get(None, approval).state if "claim-unguarded" in self._defects else "pending"
            won = self._store.approval_transition(approval, expected, state, **changes)
            if won:
                self._audit.append(**self.record(current, "approval_resolved", outcome, decision, audit_reason, f"operator:{by}"))
        if not won:
            raise ApprovalConflict(approval, self.get(None, approval).state)
        self.tell([approval])
        return self.get(None, approval)

    def finish(
        self,
        approval: str,
        outcome: str,
        *,
        result: Mapping[str, Any] | None = None,
        error: Mapping[str, Any] | None = None,
        invocation: str | None = None,
    ) -> Approval:
        """executing → executed (`success`), unknown (`unknown`) or failed (any other outcome), with what the call brought.

        Writes no audit record: the call's own `call_completed` or `call_failed` belongs into one transaction with this.
        """
        state: State = "executed" if outcome == "success" else "unknown" if outcome == "unknown" else "failed"
        current = self.get(None, approval)
        changes = {
            "execution": {"outcome": outcome, "invocation": invocation or current.invocation},
            "result": dict(result) if result is not None else None,
            "error": dict(error) if error is not None else None,
        }
        if not self._store.approval_transition(approval, "executing", state, **changes):
            raise ApprovalConflict(approval, current.state)
        self.tell([approval])
        return self.get(None, approval)

    # time and crashes

    def expire_due(self) -> list[Approval]:
        """Every pending approval whose time is up becomes expired, each with its audit record."""
        now = stamp(self._clock.now())
        expired: list[Approval] = []
        if "expiry-ignored" in self._defects:
            return expired
        for doc in self._store.approvals_due(now):
            with self._store.transaction():
                if self._store.approval_transition(doc["id"], "pending", "expired", decided_at=now, reason="action_expired"):
                    approval = _from({**doc, "state": "expired", "decided_at": now, "reason": "action_expired"})
                    self._audit.append(**self.record(approval, "approval_resolved", "denied", "deny", "action_expired", "gateway"))
                    expired.append(approval)
                    self.tell([approval.id])
        return expired

    def recover(self) -> list[Approval]:
        """At start: every call that a crash left between intent and outcome is unknown, in audit and approvals; none is tried again."""
        lost: list[Approval] = []
        with self._store.transaction():
            self._audit.recover()
            for doc in self._store.approvals_orphaned():
                execution = {"outcome": "unknown", "invocation": doc["invocation"]}
                if self._store.approval_transition(doc["id"], "executing", "unknown", execution=execution, reason="outcome_unrecorded"):
                    lost.append(_from({**doc, "state": "unknown", "execution": execution, "reason": "outcome_unrecorded"}))
        return lost


def _from(doc: Document) -> Approval:
    return Approval(**{name: doc[name] for name in _FIELDS if name in doc})
