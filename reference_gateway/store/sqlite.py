"""The default store: one SQLite file, write-ahead log, every commit on disk before the call returns.

`synchronous=FULL`, because with NORMAL a power cut loses acknowledged commits, and a lost intent record is an unaudited call.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from reference_gateway.store import schema
from reference_gateway.store.base import Document, StoreError
from reference_gateway.store.living import Living
from reference_gateway.store.sql import COUNT, SqlStore, _load

# Earlier releases can corrupt a write-ahead log that several connections reset at once.
_FIXED_RELEASES = ((3, 51, 3),)
_FIXED_BACKPORTS = ((3, 50, 7), (3, 44, 6))
_BUSY_MS = 2000
_FILE_MODE = 0o600


def wal_is_safe(release: str) -> bool:
    """Whether this SQLite release carries the write-ahead-log reset fix."""
    parts = tuple(int(part) for part in release.split("."))[:3]
    return parts >= _FIXED_RELEASES[0] or any(parts[:2] == fixed[:2] and parts >= fixed for fixed in _FIXED_BACKPORTS)


class SqliteStore(SqlStore):
    """See `store.base.Store`. One object is safe to share between threads; files are safe to share between processes."""

    def __init__(self, path: str | Path, *, vfs: str | None = None) -> None:
        """`vfs`: another file layer by its SQLite name, through which power cuts and full disks are tried."""
        self._path = str(path)
        self._vfs = vfs
        self._connection: apsw.Connection | None = None
        self._lock = threading.RLock()
        self._depth = 0
        self._instance = 0
        self._living = Living(self._path) if vfs is None else None  # on a file layer of its own there is nobody else

    @property
    def instance(self) -> int:
        return self._instance

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
            if self._living is not None:
                self._living.begin(self._instance)
        except OSError as error:
            connection.close()
            raise StoreError(
                "store_unwritable", f"no file can be made beside the store: {_reason(error)}", where=self._path, fix="free or mend the disk"
            ) from error
        except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError) as error:
            connection.close()
            raise StoreError(
                "store_unwritable", f"the store cannot be written: {_reason(error)}", where=self._path, fix="free or mend the disk"
            ) from error
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
            self._instance = int(connection.execute(COUNT, ("instances",)).get)
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                with suppress(apsw.Error):  # what was committed is on disk; SQLite only tidies up here, and would do it at the next start
                    self._connection.close()
                self._connection = None
                if self._living is not None:
                    self._living.end()

    # what a crash left, of processes that are gone

    def audit_unfinished(self) -> list[Document]:
        # Read off the index of calls alone, in one pass: a start must not take the longer the more calls there were.
        rows = self._run(
            "SELECT instance, record FROM audit WHERE seq IN (SELECT min(seq) FROM audit"
            " WHERE event IN ('call_started', 'call_completed', 'call_failed') GROUP BY invocation"
            " HAVING count(CASE WHEN event <> 'call_started' THEN 1 END) = 0) ORDER BY seq"
        )
        return self._left(rows)

    def approvals_orphaned(self) -> list[Document]:
        return self._left(self._run("SELECT instance, doc FROM approvals WHERE state = 'executing' ORDER BY ord"))

    def _left(self, rows: list[tuple[Any, ...]]) -> list[Document]:
        living = {number for number in {int(row[0]) for row in rows} if self._lives(number)}
        return [_load(row[1]) for row in rows if int(row[0]) not in living]

    def _lives(self, instance: int) -> bool:
        return instance != self._instance and self._living is not None and self._living.lives(instance)

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
                fix = "try again; if it lasts, look who has the file open"
                raise StoreError("store_busy", "another process holds the store", where=self._path, fix=fix) from error
            except (apsw.FullError, apsw.ReadOnlyError, apsw.IOError, apsw.CantOpenError) as error:
                raise StoreError(
                    "store_unwritable", f"the store cannot be written: {_reason(error)}", where=self._path, fix="free or mend the disk"
                ) from error
            except apsw.Error as error:
                raise StoreError("store_failed", f"the store failed: {_reason(error)}", where=self._path, fix="check the file's integrity") from error


def _reason(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error)).strip() or type(error).__name__
