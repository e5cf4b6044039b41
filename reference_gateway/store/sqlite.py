"""The default store: one SQLite file, write-ahead log, every commit on disk before the call returns.

`synchronous=FULL`, because with NORMAL a power cut loses acknowledged commits, and a lost intent record is an unaudited call.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from reference_gateway.canonical import canonical_bytes
from reference_gateway.store import schema
from reference_gateway.store.base import AUDIT_PAGE, GENESIS, Document, StoreError

# Earlier releases can corrupt a write-ahead log that several connections reset at once.
_FIXED_RELEASES = ((3, 51, 3),)
_FIXED_BACKPORTS = ((3, 50, 7), (3, 44, 6))
_BUSY_MS = 2000
_FILE_MODE = 0o600


def _dump(doc: Document) -> str:
    return json.dumps(doc, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


def _load(text: object) -> Document:
    doc: Document = json.loads(str(text))
    return doc


def wal_is_safe(release: str) -> bool:
    """Whether this SQLite release carries the write-ahead-log reset fix."""
    parts = tuple(int(part) for part in release.split("."))[:3]
    return parts >= _FIXED_RELEASES[0] or any(parts[:2] == fixed[:2] and parts >= fixed for fixed in _FIXED_BACKPORTS)


class SqliteStore:
    """See `store.base.Store`. One object is safe to share between threads; files are safe to share between processes."""

    def __init__(self, path: str | Path, *, vfs: str | None = None) -> None:
        """`vfs`: another file layer by its SQLite name, through which power cuts and full disks are tried."""
        self._path = str(path)
        self._vfs = vfs
        self._connection: apsw.Connection | None = None
        self._lock = threading.RLock()
        self._depth = 0

    @property
    def kind(self) -> str:
        return "sqlite"

    @property
    def version(self) -> str:
        return apsw.sqlite_lib_version()

    # opening and closing

    def open(self) -> None:
        """Creates or migrates the file. Raises StoreError: unusable file, unsafe SQLite, or a schema newer than this program."""
        if not wal_is_safe(self.version):
            raise StoreError(
                "store_sqlite_unsafe",
                f"SQLite {self.version} can corrupt a write-ahead log",
                where=self._path,
                fix="install apsw 3.54.1.0 or later",
            )
        try:
            # SQLite gives its -wal and -shm files the mode of the main file, so this is the one place that decides it.
            os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, _FILE_MODE))
            connection = apsw.Connection(self._path, vfs=self._vfs)
        except (OSError, apsw.Error) as error:
            raise StoreError(
                "store_unusable", f"the store cannot be opened: {_reason(error)}", where=self._path, fix="name a writable file"
            ) from error
        try:
            self._prepare(connection)
        except apsw.Error as error:
            connection.close()
            raise StoreError(
                "store_unusable",
                f"the file is not a usable store: {_reason(error)}",
                where=self._path,
                fix="name another file, or restore a backup",
            ) from error
        except StoreError:
            connection.close()
            raise
        self._connection = connection

    def _prepare(self, connection: apsw.Connection) -> None:
        connection.set_busy_timeout(_BUSY_MS)
        mode = connection.execute("PRAGMA journal_mode=WAL").get
        if mode != "wal":
            raise StoreError("store_unusable", f"journal mode is {mode}, not wal", where=self._path, fix="use a local file system")
        for pragma in ("synchronous=FULL", "fullfsync=ON", "foreign_keys=ON", "trusted_schema=OFF"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            found = int(connection.execute("PRAGMA user_version").get)
            if found > schema.VERSION:
                raise StoreError(
                    "store_newer",
                    f"the store has schema {found}, this program knows {schema.VERSION}",
                    where=self._path,
                    fix="start the newer gateway that wrote it, or name another file",
                )
            for number in range(found, schema.VERSION):
                connection.execute(schema.STEPS[number])
            connection.execute(f"PRAGMA user_version={schema.VERSION}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One durable unit; an inner one that fails undoes only itself, if its exception is caught in between."""
        with self._lock:
            level = self._depth
            self._run("BEGIN IMMEDIATE" if level == 0 else f"SAVEPOINT nested_{level}")
            self._depth += 1
            try:
                yield
            except BaseException:
                self._undo(level)
                raise
            finally:
                self._depth = level
            try:
                self._run("COMMIT" if level == 0 else f"RELEASE nested_{level}")
            except StoreError:
                self._undo(level)
                raise

    def _undo(self, level: int) -> None:
        if not self._open().in_transaction:
            return  # SQLite rolled back by itself (disk full, input/output error)
        if level == 0:
            self._run("ROLLBACK")
        else:
            self._run(f"ROLLBACK TO nested_{level}")
            self._run(f"RELEASE nested_{level}")

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreError("store_unusable", "the store is not open", where=self._path, fix="open it first")
        return self._connection

    def _run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock:
            try:
                return list(self._open().execute(sql, values))
            except apsw.ConstraintError as error:
                raise StoreError("store_conflict", f"refused by the store: {_reason(error)}", where=self._path, http_status=409) from error
            except apsw.BusyError as error:
                raise StoreError(
                    "store_busy", "another process holds the store", where=self._path, fix="run one gateway per store"
                ) from error
            except (apsw.FullError, apsw.ReadOnlyError, apsw.IOError, apsw.CantOpenError) as error:
                raise StoreError(
                    "store_unwritable", f"the store cannot be written: {_reason(error)}", where=self._path, fix="free or mend the disk"
                ) from error
            except apsw.Error as error:
                raise StoreError(
                    "store_failed", f"the store failed: {_reason(error)}", where=self._path, fix="check the file's integrity"
                ) from error

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
                    "INSERT INTO audit (seq, tenant, run, invocation, event, hash, record) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    *(seq, full["tenant"], full.get("run"), full.get("invocation"), full["event"], previous, _dump(full)),
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

    def audit_unfinished(self) -> list[Document]:
        return self._docs(
            "SELECT record FROM audit AS started WHERE event = 'call_started' AND NOT EXISTS (SELECT 1 FROM audit AS ended"
            " WHERE ended.invocation = started.invocation AND ended.event IN ('call_completed', 'call_failed')) ORDER BY seq"
        )

    # tenants and connections

    def tenant_add(self, tenant: str) -> None:
        self._run("INSERT OR IGNORE INTO tenants (tenant) VALUES (?)", tenant)

    def tenant_exists(self, tenant: str) -> bool:
        return bool(self._run("SELECT 1 FROM tenants WHERE tenant = ?", tenant))

    def setting_put(self, tenant: str, name: str, doc: Document | None) -> None:
        if doc is None:
            self._run("DELETE FROM settings WHERE tenant = ? AND name = ?", tenant, name)
        else:
            self._run("INSERT OR REPLACE INTO settings (tenant, name, doc) VALUES (?, ?, ?)", tenant, name, _dump(doc))

    def setting_get(self, tenant: str, name: str) -> Document | None:
        return self._doc("SELECT doc FROM settings WHERE tenant = ? AND name = ?", tenant, name)

    def settings(self, prefix: str, tenant: str | None = None) -> list[tuple[str, Document]]:
        where, values = _where(tenant=tenant)
        rows = self._run(f"SELECT tenant, doc FROM settings WHERE substr(name, 1, ?) = ?{where} ORDER BY tenant, name", len(prefix), prefix, *values)
        return [(str(row[0]), _load(row[1])) for row in rows]

    def connection_put(self, tenant: str, name: str, doc: Document) -> None:
        self._run(
            "INSERT OR REPLACE INTO connections (tenant, name, doc) VALUES (?, ?, ?)",
            tenant,
            name,
            _dump({**doc, "tenant": tenant, "name": name}),
        )

    def connection_get(self, tenant: str, name: str) -> Document | None:
        return self._doc("SELECT doc FROM connections WHERE tenant = ? AND name = ?", tenant, name)

    def connection_delete(self, tenant: str, name: str) -> bool:
        return bool(self._run("DELETE FROM connections WHERE tenant = ? AND name = ? RETURNING 1", tenant, name))

    def connections(self, tenant: str | None = None) -> list[Document]:
        where, values = _where(tenant=tenant)
        return self._docs(f"SELECT doc FROM connections WHERE 1{where} ORDER BY tenant, name", *values)

    # secrets: opaque to the store

    def secret_next_version(self, tenant: str, connection: str, path: str) -> int:
        rows = self._run(
            "INSERT INTO secret_versions (tenant, connection, path, last) VALUES (?, ?, ?, 1)"
            " ON CONFLICT DO UPDATE SET last = last + 1 RETURNING last",
            *(tenant, connection, path),
        )
        return int(rows[0][0])

    def secret_put(self, tenant: str, connection: str, path: str, version: int, blob: bytes) -> None:
        self._run(
            "INSERT OR REPLACE INTO secrets (tenant, connection, path, version, blob) VALUES (?, ?, ?, ?, ?)",
            *(tenant, connection, path, version, blob),
        )

    def secret_get(self, tenant: str, connection: str, path: str) -> tuple[int, bytes] | None:
        rows = self._run("SELECT version, blob FROM secrets WHERE tenant = ? AND connection = ? AND path = ?", tenant, connection, path)
        return (int(rows[0][0]), bytes(rows[0][1])) if rows else None

    def secrets_delete(self, tenant: str, connection: str) -> int:
        return len(self._run("DELETE FROM secrets WHERE tenant = ? AND connection = ? RETURNING 1", tenant, connection))

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
            "INSERT INTO approvals (id, tenant, run, tool_key, digest, state, expires_at, doc) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            *(doc["id"], doc["tenant"], doc["run"], doc["tool_key"], doc["arguments_digest"], doc["state"], doc["expires_at"], _dump(doc)),
        )

    def approval_get(self, tenant: str | None, approval: str) -> Document | None:
        where, values = _where(tenant=tenant)
        return self._doc(f"SELECT doc FROM approvals WHERE id = ?{where}", approval, *values)

    def approvals(self, tenant: str | None, *, run: str | None = None, state: str | None = None) -> list[Document]:
        where, values = _where(tenant=tenant, run=run, state=state)
        return self._docs(f"SELECT doc FROM approvals WHERE 1{where} ORDER BY ord", *values)

    def approvals_due(self, instant: str) -> list[Document]:
        return self._docs("SELECT doc FROM approvals WHERE state = 'pending' AND expires_at <= ? ORDER BY expires_at, ord", instant)

    def approval_find(self, run: str, tool_key: str, digest: str) -> Document | None:
        return self._doc(
            "SELECT doc FROM approvals WHERE run = ? AND tool_key = ? AND digest = ? ORDER BY ord DESC LIMIT 1", run, tool_key, digest
        )

    def approval_transition(self, approval: str, from_state: str, to_state: str, **changes: Any) -> bool:
        with self.transaction():
            won = self._run("UPDATE approvals SET state = ? WHERE id = ? AND state = ? RETURNING doc", to_state, approval, from_state)
            if not won:
                return False
            doc = {**_load(won[0][0]), **changes, "state": to_state}
            self._run("UPDATE approvals SET expires_at = ?, doc = ? WHERE id = ?", doc["expires_at"], _dump(doc), approval)
        return True


def _where(**columns: str | None) -> tuple[str, tuple[str, ...]]:
    """SQL for the columns that are given; the names are this module's own, never a caller's."""
    given = {column: value for column, value in columns.items() if value is not None}
    return "".join(f" AND {column} = ?" for column in given), tuple(given.values())


def _reason(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error)).strip() or type(error).__name__
