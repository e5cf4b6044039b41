"""What the gateway remembers, behind one protocol.

Every method is synchronous and short, and a write is durable when the method returns. Several writes become one by
`with store.transaction():`, which nests; an exception inside undoes all of it. Documents are plain JSON objects; a store adds
nothing to them and reads only the keys named here.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from reference_gateway.errors import GatewayError

Document = dict[str, Any]

GENESIS = "0" * 64
"""`prev_hash` of the first audit record."""

AUDIT_PAGE = 1000
"""Records that one `audit_read` returns at most."""


class StoreError(GatewayError):
    """The store cannot be opened, read or written. Nothing of the failed transaction is kept.

    Codes: `store_unusable`, `store_newer`, `store_sqlite_unsafe`, `store_busy`, `store_unwritable`, `store_failed`, `store_conflict`.
    """

    http_status = 503


class Store(Protocol):
    """One gateway's durable state. Documents that come back are copies."""

    @property
    def kind(self) -> str: ...
    @property
    def version(self) -> str:
        """Version of the engine behind it, for health."""
        ...

    def open(self) -> None: ...
    def close(self) -> None: ...
    def transaction(self) -> AbstractContextManager[None]: ...

    # audit: append-only; `seq` is dense per store, `hash` chains each record to the one before
    def audit_append(self, records: Sequence[Document]) -> list[Document]:
        """Adds `seq`, `prev_hash` and `hash` to each record, in one transaction, and returns the completed records."""
        ...

    def audit_read(self, tenant: str | None, *, run: str | None = None, after: int = 0, limit: int = AUDIT_PAGE) -> list[Document]:
        """Ascending by `seq`, those with `seq > after`; `tenant` None means the whole store."""
        ...

    def audit_head(self) -> tuple[int, str]:
        """(seq, hash) of the last record, or (0, GENESIS)."""
        ...

    def audit_unfinished(self) -> list[Document]:
        """The `call_started` records whose invocation has neither `call_completed` nor `call_failed`, and whose process is no more."""
        ...

    def tenant_add(self, tenant: str) -> None:
        """Repeating is harmless."""
        ...

    def tenant_exists(self, tenant: str) -> bool: ...

    def setting_put(self, tenant: str, name: str, doc: Document | None) -> None:
        """What else is remembered of a tenant, under a name; None forgets it."""
        ...

    def setting_get(self, tenant: str, name: str) -> Document | None: ...
    def settings(self, prefix: str, tenant: str | None = None) -> list[tuple[str, Document]]:
        """(tenant, document) of every setting whose name begins so, ordered by tenant and name; `tenant` None means all."""
        ...

    def connection_put(self, tenant: str, name: str, doc: Document) -> int:
        """The revision under which it is stored now: higher than every one before, of any connection."""
        ...

    def connection_get(self, tenant: str, name: str) -> Document | None:
        """The stored document, with `tenant`, `name` and `revision` set."""
        ...

    def connection_delete(self, tenant: str, name: str) -> bool: ...
    def connections(self, tenant: str | None = None) -> list[Document]:
        """As `connection_get`, ordered by tenant and name; `tenant` None means all."""
        ...

    def connections_revision(self) -> int:
        """Goes up whenever any process stores or deletes any connection."""
        ...

    def connection_revisions(self) -> dict[tuple[str, str], int]:
        """Tenant and name of each connection → the revision under which it is stored."""
        ...

    def secret_next_version(self, tenant: str, connection: str, path: str) -> int:
        """A version never given before for this path, not even to a connection of the same name that was deleted."""
        ...

    def secret_put(self, tenant: str, connection: str, path: str, version: int, blob: bytes) -> None: ...
    def secret_get(self, tenant: str, connection: str, path: str) -> tuple[int, bytes] | None: ...
    def secrets_delete(self, tenant: str, connection: str) -> int: ...
    def secrets(self) -> list[tuple[str, str, str, int, bytes]]:
        """(tenant, connection, path, version, blob) of every secret, ordered; for changing the key that they are under."""
        ...

    def run_put(self, doc: Document) -> None:
        """Needs `run`, `tenant` and `token_digest`; the last is unique (`store_conflict`)."""
        ...

    def run_get(self, run: str) -> Document | None: ...
    def run_by_token_digest(self, digest: str) -> Document | None: ...
    def run_update(self, run: str, **changes: Any) -> Document | None:
        """The changed document, or None for an unknown run."""
        ...

    def approval_put(self, doc: Document) -> None:
        """Needs `id`, `tenant`, `run`, `tool_key`, `arguments_digest`, `state` and `expires_at` (RFC 3339, microseconds, Z)."""
        ...

    def approval_get(self, tenant: str | None, approval: str) -> Document | None:
        """None unless it exists in that tenant; `tenant` None asks the whole store."""
        ...

    def approvals(self, tenant: str | None, *, run: str | None = None, state: str | None = None) -> list[Document]:
        """Oldest first."""
        ...

    def approvals_due(self, instant: str) -> list[Document]:
        """Pending ones whose `expires_at` is not after `instant`, the earliest first."""
        ...

    def approvals_orphaned(self) -> list[Document]:
        """Those in state `executing` whose process is no more: at start, of a store with one process, all of them."""
        ...

    def approval_find(self, run: str, tool_key: str, digest: str) -> Document | None:
        """The latest approval of the identical call."""
        ...

    def approval_transition(self, approval: str, from_state: str, to_state: str, **changes: Any) -> bool:
        """Atomic compare-and-set: true for exactly one of any number of callers, in any number of processes."""
        ...
