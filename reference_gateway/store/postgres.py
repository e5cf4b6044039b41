"""PostgreSQL: several gateway processes on one database, each transaction serialised against all others by one advisory lock.

Writers take turns because the audit is one gap-free chain: two of them at once would have to wait for each other at its end anyway. What a
crash left unfinished belongs to the process that began it, which holds a lock of its own for as long as it lives; only rows of processes
that are gone are recovered.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import psycopg
from psycopg import errors, sql

from reference_gateway.store import postgres_schema as schema
from reference_gateway.store.base import Document, StoreError
from reference_gateway.store.sql import SqlStore, _load

WRITERS = 0x67_61_74_65
"""Advisory lock of whoever writes."""
INSTANCES = 0x69_6E_73_74
"""First half of the advisory locks of living processes; the second is their number."""
BUSY_MS = 2_000
CONNECT_S = 10
_SETTINGS = (f"SET lock_timeout = {BUSY_MS}", "SET synchronous_commit = on", "SET client_min_messages = warning", "SET timezone = 'UTC'")

_GONE = (
    " AND NOT EXISTS (SELECT 1 FROM pg_locks AS held WHERE held.locktype = 'advisory' AND held.classid = ? AND held.objsubid = 2"
    " AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND held.objid::bigint = {table}.instance)"
)


class PostgresStore(SqlStore):
    """See `store.base.Store`. `url`: `postgresql://…`; its password is in no message."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._where = _without_password(url)
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._lock = threading.RLock()
        self._depth = 0
        self._instance = 0
        self._opened = False

    @property
    def kind(self) -> str:
        return "postgresql"

    @property
    def instance(self) -> int:
        return self._instance

    @property
    def version(self) -> str:
        number = self._open().info.server_version
        return f"{number // 10000}.{number % 10000}"

    # opening and closing

    def open(self) -> None:
        """Creates or migrates the tables. Raises StoreError: no such database, or a schema newer than this program."""
        self._opened = True
        self._connect()
        try:
            with self._told(), self._open().transaction():
                self._prepare(self._open())
        except StoreError:
            self.close()
            raise

    def _connect(self) -> None:
        try:
            connection = psycopg.connect(self._url, autocommit=True, connect_timeout=CONNECT_S)
        except (psycopg.Error, UnicodeError) as error:
            raise StoreError(
                "store_unusable", f"the database cannot be reached: {_reason(error)}", where=self._where, fix="check GATEWAY_STORE and the server"
            ) from error
        try:
            for setting in _SETTINGS:
                connection.execute(cast(Any, setting))
            self._live(connection)
        except psycopg.Error as error:
            connection.close()
            raise StoreError("store_unusable", f"the database cannot be used: {_reason(error)}", where=self._where, fix="check its rights") from error
        self._connection = connection

    def _live(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        """Take this process's number, and the lock that says it lives. After a lost connection the number stays the same.

        The lock is shared, so that a new connection need not wait for the server to notice that the old one is gone.
        """
        if not self._instance:
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITERS,))
                connection.execute("CREATE SEQUENCE IF NOT EXISTS gateway_instances")
                row = connection.execute("SELECT nextval('gateway_instances')").fetchone()
            self._instance = int(row[0]) if row else 1
        connection.execute("SELECT pg_advisory_lock_shared(%s, %s)", (INSTANCES, self._instance))
        connection.execute(sql.SQL("SET gateway.instance = {}").format(sql.Literal(str(self._instance))))

    def _prepare(self, connection: psycopg.Connection[tuple[Any, ...]]) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (WRITERS,))
        connection.execute("CREATE TABLE IF NOT EXISTS gateway_schema (version INTEGER NOT NULL)")
        row = connection.execute("SELECT version FROM gateway_schema").fetchone()
        found = int(row[0]) if row else 0
        if found > schema.VERSION:
            raise StoreError(
                "store_newer",
                f"the database has schema {found}, this program knows {schema.VERSION}",
                where=self._where,
                fix="start the newer gateway that wrote it, or name another database",
            )
        for number in range(found, schema.VERSION):
            connection.execute(cast(Any, schema.STEPS[number]))
        connection.execute("DELETE FROM gateway_schema")
        connection.execute("INSERT INTO gateway_schema VALUES (%s)", (schema.VERSION,))

    def close(self) -> None:
        with self._lock:
            self._opened = False
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    # transactions

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One durable unit; an inner one that fails undoes only itself, if its exception is caught in between."""
        with self._lock, self._told():
            outer = self._depth == 0
            with self._open().transaction():
                self._depth += 1
                try:
                    if outer:
                        self._open().execute("SELECT pg_advisory_xact_lock(%s)", (WRITERS,))
                    yield
                finally:
                    self._depth -= 1

    def _open(self) -> psycopg.Connection[tuple[Any, ...]]:
        """The connection; a lost one is made anew, but never in the middle of a transaction."""
        if not self._opened:
            raise StoreError("store_unusable", "the store is not open", where=self._where, fix="open it first")
        if self._connection is not None and self._connection.closed and self._depth == 0:
            self._connection = None
        if self._connection is None:
            self._connect()
        assert self._connection is not None  # for the type checker: _connect sets it or raises
        return self._connection

    def _run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, self._told():
            cursor = self._open().execute(cast(Any, sql.replace("?", "%s")), values)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except errors.IntegrityError as error:
            raise StoreError("store_conflict", f"refused by the store: {_reason(error)}", where=self._where, http_status=409) from error
        except (errors.LockNotAvailable, errors.DeadlockDetected, errors.SerializationFailure) as error:
            raise StoreError("store_busy", "another process holds the store", where=self._where, fix="try again") from error
        except (errors.DiskFull, errors.ReadOnlySqlTransaction, errors.InsufficientPrivilege, errors.IoError) as error:
            raise StoreError(
                "store_unwritable", f"the store cannot be written: {_reason(error)}", where=self._where, fix="free or mend the database"
            ) from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            raise StoreError("store_unusable", f"the database is gone: {_reason(error)}", where=self._where, fix="check the server") from error
        except psycopg.Error as error:
            raise StoreError("store_failed", f"the store failed: {_reason(error)}", where=self._where, fix="check the database") from error

    # what a crash left, of processes that are gone

    def audit_unfinished(self) -> list[Document]:
        rows = self._run(
            "SELECT record FROM audit AS started WHERE event = 'call_started' AND NOT EXISTS (SELECT 1 FROM audit AS ended"
            " WHERE ended.invocation = started.invocation AND ended.event IN ('call_completed', 'call_failed'))"
            + _GONE.format(table="started")
            + " ORDER BY seq",
            INSTANCES,
        )
        return [_load(row[0]) for row in rows]

    def approvals_orphaned(self) -> list[Document]:
        rows = self._run("SELECT doc FROM approvals WHERE state = 'executing'" + _GONE.format(table="approvals") + " ORDER BY ord", INSTANCES)
        return [_load(row[0]) for row in rows]


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "postgresql://"


def _reason(error: BaseException) -> str:
    """The server's first line. libpq's messages name host, user and database, and never the password."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
