"""What every SQL store says in the same words: one statement per method, `?` for values, documents as JSON text.

A store adds how it connects, what a transaction is, and how its engine's errors read.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from reference_gateway.canonical import canonical_bytes
from reference_gateway.packing import packed
from reference_gateway.store.base import AUDIT_PAGE, GENESIS, Document

_UPSERT_DOC = " ON CONFLICT (tenant, name) DO UPDATE SET doc = excluded.doc"
_CONNECTIONS = "connections"
COUNT = "INSERT INTO counters (name, last) VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET last = counters.last + 1 RETURNING last"
"""The next number of that name, never given twice."""


def _dump(doc: Document) -> str:
    return packed(doc).decode()


def _load(text: object) -> Document:
    doc: Document = json.loads(str(text))
    return doc


class SqlStore(ABC):
    """See `store.base.Store`."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """One durable unit, serialised against every other one; an inner one that fails undoes only itself."""

    @abstractmethod
    def _run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """One statement. Raises StoreError."""

    @property
    @abstractmethod
    def instance(self) -> int:
        """The number of this process among all that ever had the store open."""

    def _doc(self, sql: str, *values: Any) -> Document | None:
        rows = self._run(sql, *values)
        return _load(rows[0][0]) if rows else None

    def _docs(self, sql: str, *values: Any) -> list[Document]:
        return [_load(row[0]) for row in self._run(sql, *values)]

    # audit

    def audit_append(self, records: Sequence[Document]) -> list[Document]:
        done: list[Document] = []
        with self.transaction():
            seq, previous = self.audit_head()
            for record in records:
                seq += 1
                full = {"seq": seq, **record, "prev_hash": previous}
                previous = hashlib.sha256(canonical_bytes(full)).hexdigest()
                full["hash"] = previous
                self._run(
                    "INSERT INTO audit (seq, tenant, run, invocation, event, hash, record, instance) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    *(seq, full["tenant"], full.get("run"), full.get("invocation"), full["event"], previous, _dump(full), self.instance),
                )
                done.append(full)
        return done

    def audit_read(self, tenant: str | None, *, run: str | None = None, after: int = 0, limit: int = AUDIT_PAGE) -> list[Document]:
        where, values = _where(tenant=tenant, run=run)
        limit = max(0, min(limit, AUDIT_PAGE))
        return self._docs(f"SELECT record FROM audit WHERE seq > ?{where} ORDER BY seq LIMIT ?", after, *values, limit)

    def audit_head(self) -> tuple[int, str]:
        rows = self._run("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1")
        return (int(rows[0][0]), str(rows[0][1])) if rows else (0, GENESIS)

    @abstractmethod
    def audit_unfinished(self) -> list[Document]:
        """See `store.base.Store`."""

    # tenants and connections

    def tenant_add(self, tenant: str) -> None:
        self._run("INSERT INTO tenants (tenant) VALUES (?) ON CONFLICT DO NOTHING", tenant)

    def tenant_exists(self, tenant: str) -> bool:
        return bool(self._run("SELECT 1 FROM tenants WHERE tenant = ?", tenant))

    def setting_put(self, tenant: str, name: str, doc: Document | None) -> None:
        if doc is None:
            self._run("DELETE FROM settings WHERE tenant = ? AND name = ?", tenant, name)
        else:
            self._run(f"INSERT INTO settings (tenant, name, doc) VALUES (?, ?, ?){_UPSERT_DOC}", tenant, name, _dump(doc))

    def setting_get(self, tenant: str, name: str) -> Document | None:
        return self._doc("SELECT doc FROM settings WHERE tenant = ? AND name = ?", tenant, name)

    def settings(self, prefix: str, tenant: str | None = None) -> list[tuple[str, Document]]:
        where, values = _where(tenant=tenant)
        rows = self._run(f"SELECT tenant, doc FROM settings WHERE substr(name, 1, ?) = ?{where} ORDER BY tenant, name", len(prefix), prefix, *values)
        return [(str(row[0]), _load(row[1])) for row in rows]

    def connection_put(self, tenant: str, name: str, doc: Document) -> int:
        with self.transaction():
            revision = int(self._run(COUNT, _CONNECTIONS)[0][0])
            self._run(
                "INSERT INTO connections (tenant, name, doc, revision) VALUES (?, ?, ?, ?)"
                " ON CONFLICT (tenant, name) DO UPDATE SET doc = excluded.doc, revision = excluded.revision",
                *(tenant, name, _dump({**doc, "tenant": tenant, "name": name}), revision),
            )
        return revision

    def connection_get(self, tenant: str, name: str) -> Document | None:
        found = self._connections(" AND tenant = ? AND name = ?", tenant, name)
        return found[0] if found else None

    def connection_delete(self, tenant: str, name: str) -> bool:
        with self.transaction():
            self._run(COUNT, _CONNECTIONS)
            return bool(self._run("DELETE FROM connections WHERE tenant = ? AND name = ? RETURNING 1", tenant, name))

    def connections(self, tenant: str | None = None) -> list[Document]:
        where, values = _where(tenant=tenant)
        return self._connections(where, *values)

    def _connections(self, where: str, *values: Any) -> list[Document]:
        rows = self._run(f"SELECT doc, revision FROM connections WHERE TRUE{where} ORDER BY tenant, name", *values)
        return [{**_load(row[0]), "revision": int(row[1])} for row in rows]

    def connections_revision(self) -> int:
        rows = self._run("SELECT last FROM counters WHERE name = ?", _CONNECTIONS)
        return int(rows[0][0]) if rows else 0

    def connection_revisions(self) -> dict[tuple[str, str], int]:
        return {(str(row[0]), str(row[1])): int(row[2]) for row in self._run("SELECT tenant, name, revision FROM connections")}

    # secrets: opaque to the store

    def secret_next_version(self, tenant: str, connection: str, path: str) -> int:
        rows = self._run(
            "INSERT INTO secret_versions (tenant, connection, path, last) VALUES (?, ?, ?, 1)"
            " ON CONFLICT (tenant, connection, path) DO UPDATE SET last = secret_versions.last + 1 RETURNING last",
            *(tenant, connection, path),
        )
        return int(rows[0][0])

    def secret_put(self, tenant: str, connection: str, path: str, version: int, blob: bytes) -> None:
        self._run(
            "INSERT INTO secrets (tenant, connection, path, version, blob) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (tenant, connection, path) DO UPDATE SET version = excluded.version, blob = excluded.blob",
            *(tenant, connection, path, version, blob),
        )

    def secret_get(self, tenant: str, connection: str, path: str) -> tuple[int, bytes] | None:
        rows = self._run("SELECT version, blob FROM secrets WHERE tenant = ? AND connection = ? AND path = ?", tenant, connection, path)
        return (int(rows[0][0]), bytes(rows[0][1])) if rows else None

    def secrets_delete(self, tenant: str, connection: str) -> int:
        return len(self._run("DELETE FROM secrets WHERE tenant = ? AND connection = ? RETURNING 1", tenant, connection))

    def secrets(self) -> list[tuple[str, str, str, int, bytes]]:
        rows = self._run("SELECT tenant, connection, path, version, blob FROM secrets ORDER BY tenant, connection, path")
        return [(str(tenant), str(connection), str(path), int(version), bytes(blob)) for tenant, connection, path, version, blob in rows]

    # runs

    def run_put(self, doc: Document) -> None:
        self._run(
            "INSERT INTO runs (run, tenant, token_digest, doc) VALUES (?, ?, ?, ?)",
            doc["run"],
            doc["tenant"],
            doc["token_digest"],
            _dump(doc),
        )

    def run_get(self, run: str) -> Document | None:
        return self._doc("SELECT doc FROM runs WHERE run = ?", run)

    def run_by_token_digest(self, digest: str) -> Document | None:
        return self._doc("SELECT doc FROM runs WHERE token_digest = ?", digest)

    def run_update(self, run: str, **changes: Any) -> Document | None:
        with self.transaction():
            doc = self.run_get(run)
            if doc is None:
                return None
            doc.update(changes)
            self._run("UPDATE runs SET token_digest = ?, doc = ? WHERE run = ?", doc["token_digest"], _dump(doc), run)
        return doc

    # approvals

    def approval_put(self, doc: Document) -> None:
        self._run(
            "INSERT INTO approvals (id, tenant, run, tool_key, digest, state, expires_at, doc, instance) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(doc["id"], doc["tenant"], doc["run"], doc["tool_key"], doc["arguments_digest"], doc["state"], doc["expires_at"]),
            *(_dump(doc), self.instance),
        )

    def approval_get(self, tenant: str | None, approval: str) -> Document | None:
        where, values = _where(tenant=tenant)
        return self._doc(f"SELECT doc FROM approvals WHERE id = ?{where}", approval, *values)

    def approvals(self, tenant: str | None, *, run: str | None = None, state: str | None = None) -> list[Document]:
        where, values = _where(tenant=tenant, run=run, state=state)
        return self._docs(f"SELECT doc FROM approvals WHERE TRUE{where} ORDER BY ord", *values)

    def approvals_due(self, instant: str) -> list[Document]:
        return self._docs("SELECT doc FROM approvals WHERE state = 'pending' AND expires_at <= ? ORDER BY expires_at, ord", instant)

    @abstractmethod
    def approvals_orphaned(self) -> list[Document]:
        """See `store.base.Store`."""

    def approval_find(self, run: str, tool_key: str, digest: str) -> Document | None:
        return self._doc("SELECT doc FROM approvals WHERE run = ? AND tool_key = ? AND digest = ? ORDER BY ord DESC LIMIT 1", run, tool_key, digest)

    def approval_transition(self, approval: str, from_state: str, to_state: str, **changes: Any) -> bool:
        with self.transaction():
            won = self._run(
                "UPDATE approvals SET state = ?, instance = ? WHERE id = ? AND state = ? RETURNING doc",
                *(to_state, self.instance, approval, from_state),
            )
            if not won:
                return False
            doc = {**_load(won[0][0]), **changes, "state": to_state}
            self._run("UPDATE approvals SET expires_at = ?, doc = ? WHERE id = ?", doc["expires_at"], _dump(doc), approval)
        return True


def _where(**columns: str | None) -> tuple[str, tuple[str, ...]]:
    """SQL for the columns that are given; the names are this module's own, never a caller's."""
    given = {column: value for column, value in columns.items() if value is not None}
    return "".join(f" AND {column} = ?" for column in given), tuple(given.values())
