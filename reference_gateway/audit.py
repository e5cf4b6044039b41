"""The audit log: what was decided and what happened, one record each, in a gap-free hash chain.

Arguments and results never enter it; callers pass digests and sizes.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol, Required, TypedDict, Unpack

from reference_gateway.canonical import NotCarried, canonical_bytes
from reference_gateway.errors import GatewayError
from reference_gateway.store.base import AUDIT_PAGE, GENESIS, Document, Store, StoreError

Event = Literal[
    "policy_decision", "call_started", "call_completed", "call_failed", "call_denied", "call_replayed",
    "approval_requested", "approval_resolved",
    "discovery", "connection_created", "connection_deleted", "permission_changed", "grant_revoked", "run_created", "run_ended",
    "grant_audience_changed", "vault_rotated",
    "tool_quarantined", "tool_reviewed", "tool_removed", "policies_changed", "agents_changed",
    "agent_asked", "passed_on", "offers_changed", "list_changed", "cancel_unknown",
    "operator_created", "operator_deleted", "run_mode_changed", "task_taken",
    "setup_started", "setup_refused", "connection_state_changed", "connection_reconnected", "connection_checked", "credential_rotated",
    "instructions_changed", "managed_arguments_changed", "experimental_changed", "delivery_written", "process_started", "process_ended",
    "authorization_started", "authorization_completed", "authorization_failed", "authorization_lost", "scopes_demanded", "token_renewed",
]  # fmt: skip
Outcome = Literal["pending", "success", "failure", "denied", "timeout", "cancelled", "unknown"]
Decision = Literal["allow", "deny", "require_approval"]

ENDS: tuple[Event, ...] = ("call_completed", "call_failed")
"""The last record of a call that was sent."""

_SAFE = 2**53 - 1

SHARED = ("store_busy", "store_unwritable", "store_unusable")
"""What is wrong with the store then, and not with what is to be written: whoever writes next would meet it too, and wait as long for it."""


class Now(Protocol):
    """The one thing that audit and approvals need of a clock."""

    def now(self) -> datetime: ...


class AuditFields(TypedDict, total=False):
    """One record before it gets its place and time. `actor` is `agent:<agent>`, `operator:<by>` or `gateway`."""

    tenant: Required[str]
    actor: Required[str]
    event: Required[Event]
    outcome: Required[Outcome]
    decision: Required[Decision]
    reason: Required[str]
    run: str | None
    task: str | None
    agent: str | None
    connection: str | None
    provider: str | None
    tool: str | None
    invocation: str | None
    approval: str | None
    risk: str | None
    schema_hash: str | None
    arguments_digest: str | None
    traceparent: str | None
    details: Mapping[str, Any] | None


_COLUMNS = (
    "tenant", "run", "task", "agent", "actor", "connection", "provider", "tool", "invocation", "approval",
    "event", "outcome", "decision", "reason", "risk", "schema_hash", "arguments_digest", "traceparent",
)  # fmt: skip
_KNOWN = frozenset((*_COLUMNS, "details"))


def stamp(instant: datetime) -> str:
    """RFC 3339 UTC with microseconds and `Z`, the one spelling in answers, records and the store; such texts sort as their instants do."""
    return instant.astimezone(UTC).isoformat(timespec="microseconds")[: -len("+00:00")] + "Z"


_ALONE = (GatewayError, TypeError)
"""What one entry can cause by itself: it conflicts, or holds what no record can carry."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    entries: Sequence[AuditFields]
    written: Callable[[], None]
    done: asyncio.Future[None]

    def succeeded(self) -> None:
        self.written()
        self.done.set_result(None)


class AuditLog:
    """Append and read. A record is durable when `append` returns; StoreError means that nothing was recorded."""

    def __init__(self, store: Store, clock: Now) -> None:
        self._store = store
        self._clock = clock
        self._waiting: list[_Waiting] = []
        self.state = "ok"
        """`ok`, or the store's code since records could not be written, until some were again. For health."""
        self.last = 0
        """The newest sequence number that was written here."""
        self.miswrite: Callable[[Sequence[AuditFields]], Sequence[AuditFields]] = lambda entries: entries
        self.misread: Callable[[list[Document]], list[Document]] = lambda records: records
        """What becomes of records on their way in and out, for deliberate defects."""
        self.written: Callable[[int], None] = lambda seq: None
        """Told the newest sequence number after each append, which a transaction around it may still undo."""

    def append(self, **fields: Unpack[AuditFields]) -> Document:
        return self.append_many([fields])[0]

    def append_many(self, entries: Sequence[AuditFields]) -> list[Document]:
        """All of them or none, in this order and at one instant."""
        at = stamp(self._clock.now())
        prepared = [_record(at, entry) for entry in self.miswrite(entries)]
        with self._told():
            records = self._store.audit_append(prepared)
        if records:
            self.last = records[-1]["seq"]
            self.written(self.last)
        return records

    @contextmanager
    def together(self, *, alone: bool = False) -> Iterator[None]:
        """One transaction for records and what they are about. Raises StoreError; then nothing of it has happened.

        `alone`: there is no other transaction around it, so that what it leaves is durable.
        """
        with self._told(), self._store.transaction():
            yield
        if alone:
            self.state = "ok"

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except StoreError as error:
            if error.code != "store_conflict":
                self.state = error.code
            raise

    async def append_soon(self, entries: Sequence[AuditFields], written: Callable[[], None] = lambda: None) -> None:
        """As `append_many`, in one durable commit with what others append in the same turn of the event loop. `written` is called then.

        A caller that is cancelled meanwhile has its records written all the same, before the cancellation reaches it.
        """
        loop = asyncio.get_running_loop()
        entry = _Waiting(entries, written, loop.create_future())
        self._waiting.append(entry)
        if len(self._waiting) == 1:
            loop.call_soon(self.flush)
        try:
            await asyncio.shield(entry.done)
        except asyncio.CancelledError:
            self.flush()
            entry.done.exception()
            raise

    def flush(self) -> None:
        """Writes what waits, in one commit for all.

        If that fails for what one of them may have caused, one for each, so that nobody fails for a neighbour. If it fails for the store,
        all fail at once: each would only find the same, after as long a wait, while the whole gateway stands still.
        """
        waiting, self._waiting = self._waiting, []
        why = StoreError("store_failed", "the record could not be written")
        try:
            if len(waiting) > 1:
                try:
                    self._append_alone([entry for each in waiting for entry in each.entries])
                except _ALONE as error:
                    if isinstance(error, StoreError) and error.code in SHARED:
                        why = error
                        return
                else:
                    for each in waiting:
                        each.succeeded()
                    return
            for each in waiting:
                try:
                    self._append_alone(each.entries)
                except _ALONE as error:
                    each.done.set_exception(error)
                else:
                    each.succeeded()
        finally:
            for each in waiting:
                if not each.done.done():  # to each its own, for each is raised in another task
                    each.done.set_exception(StoreError(why.code, why.message, where=why.where, fix=why.fix))

    def _append_alone(self, entries: Sequence[AuditFields]) -> None:
        self.append_many(entries)
        self.state = "ok"

    def read(self, tenant: str | None, *, run: str | None = None, after: int = 0, limit: int = AUDIT_PAGE) -> list[Document]:
        """Ascending by `seq`; at most 1000; `tenant` None reads the whole store."""
        return self.misread(self._store.audit_read(tenant, run=run, after=after, limit=limit))

    def head(self) -> tuple[int, str]:
        return self._store.audit_head()

    def recover(self) -> list[Document]:
        """At start: every call that was started and never ended gets `call_failed/unknown/outcome_unrecorded`. Harmless to repeat."""
        with self._store.transaction():
            return self.append_many([_unknown(started) for started in self._store.audit_unfinished()])


def _record(at: str, entry: AuditFields) -> Document:
    fields: Mapping[str, Any] = entry
    unexpected = fields.keys() - _KNOWN
    if unexpected:
        raise TypeError(f"no such audit field: {', '.join(sorted(unexpected))}")
    record: Document = {"at": at}
    for column in _COLUMNS:
        value = fields.get(column)
        record[column] = value if value is None else _carried(value)
    record["details"] = _carried(dict(fields.get("details") or {}))
    return record


def _carried(value: Any) -> Any:
    """`value` as canonical JSON can hold it. Names and codes come from strangers; a record must never fail for what they hold."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if abs(value) <= _SAFE else hex(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(_carried(str(key))): _carried(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_carried(item) for item in value]
    raise TypeError(f"{type(value).__name__} cannot be recorded")


def _unknown(started: Document) -> AuditFields:
    return {
        "tenant": started["tenant"],
        "run": started["run"],
        "task": started["task"],
        "agent": started["agent"],
        "actor": "gateway",
        "connection": started["connection"],
        "provider": started["provider"],
        "tool": started["tool"],
        "invocation": started["invocation"],
        "approval": started["approval"],
        "event": "call_failed",
        "outcome": "unknown",
        "decision": "allow",
        "reason": "outcome_unrecorded",
        "risk": started["risk"],
        "schema_hash": started["schema_hash"],
        "arguments_digest": started["arguments_digest"],
        "traceparent": started["traceparent"],
        "details": dict(started["details"]),
    }


def verify(records: Sequence[Mapping[str, Any]], *, whole: bool = True, head: tuple[int, str] | None = None) -> list[str]:
    """What is wrong with these records, in words; nothing wrong is an empty list.

    `whole`: they are the entire log from the first record, so that a gap is a fault; otherwise (one tenant's view) only neighbours
    must chain. `head`: the (seq, hash) known from elsewhere; a chain alone cannot show that its own tail was cut off.
    """
    problems: list[str] = []
    seq, link = 0, GENESIS
    for record in records:
        here = record.get("seq")
        if not isinstance(here, int) or isinstance(here, bool) or here <= seq:
            problems.append(f"seq {here!r} does not follow {seq}")
            continue
        if whole and here != seq + 1:
            problems.append(f"seq {seq + 1} to {here - 1} are missing")
        if here == seq + 1 and record.get("prev_hash") != link:
            problems.append(f"seq {here} does not chain to the record before it")
        if record.get("hash") != hash_of(record):
            problems.append(f"seq {here} was altered: its hash is not that of its content")
        seq, link = here, str(record.get("hash"))
    if head is not None and (seq, link) != head:
        problems.append(
            f"the log ends at seq {seq}, but its head is known to be seq {head[0]}" if seq != head[0] else f"seq {seq} is not the known head"
        )
    return problems


def hash_of(record: Mapping[str, Any]) -> str | None:
    """What its `hash` should be, from its content; None when the content has no canonical text."""
    try:
        return hashlib.sha256(canonical_bytes({key: value for key, value in record.items() if key != "hash"})).hexdigest()
    except NotCarried:
        return None
