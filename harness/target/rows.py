"""The reference gateway's stored rows, as somebody sees them who has the disk or the database: to move, to spoil and to search them.

Of its format this file knows two tables: sealed credentials, because a row that somebody moved is what a vault must notice, and settings,
because a policy that cannot be read must deny.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import apsw

from harness.errors import HarnessError, Untestable

STORE_FILE = "gateway.sqlite"
SHARED_STORE = "GATEWAY_STORE"
"""A database for every gateway that this process starts, instead of a file for each: `postgresql://…`."""
SHARED_KEY = "GATEWAY_VAULT_KEY_FILE"
"""Beside it: the file of the wrapping key that all of these gateways share; its predecessor lies beside it."""
UNREADABLE = json.dumps({"policies": [{"id": "half-written", "permission": "allowed", "when": "the moon is full"}]})


class Rows(Protocol):
    """Every method raises HarnessError when the rows cannot be reached."""

    def swap_secrets(self, tenant: str, one: str, other: str) -> int:
        """Each sealed credential of one connection lies where the other's was, and the other way round; how many rows were moved."""
        ...

    def spoil_policies(self, tenant: str) -> None:
        """The tenant's policies become one with a condition that no gateway knows."""
        ...

    def traces(self) -> Mapping[str, bytes]:
        """All that is stored, by where it was found."""
        ...


SECRETS = "SELECT connection, path, version, blob FROM secrets WHERE tenant = ?"
MOVE = "UPDATE secrets SET version = ?, blob = ? WHERE tenant = ? AND connection = ? AND path = ?"
SPOIL = "INSERT INTO settings (tenant, name, doc) VALUES (?, 'policies', ?) ON CONFLICT (tenant, name) DO UPDATE SET doc = excluded.doc"


class SqliteRows:
    """In a file of `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def swap_secrets(self, tenant: str, one: str, other: str) -> int:
        with self._opened() as connection:
            return _swapped(lambda sql, values: list(connection.execute(sql, values)), tenant, one, other)

    def spoil_policies(self, tenant: str) -> None:
        with self._opened() as connection:
            connection.execute(SPOIL, (tenant, UNREADABLE))

    def traces(self) -> Mapping[str, bytes]:
        return {file.name: file.read_bytes() for file in sorted(self._folder.iterdir()) if file.name.startswith(STORE_FILE)}

    @contextmanager
    def _opened(self) -> Iterator[apsw.Connection]:
        """Inside one transaction."""
        connection = apsw.Connection(str(self._folder / STORE_FILE))
        try:
            connection.set_busy_timeout(2000)
            with connection:
                yield connection
        except apsw.Error as error:
            fix = "this is the reference gateway's own format"
            raise HarnessError(f"the store cannot be tampered with: {error}", where=STORE_FILE, fix=fix) from None
        finally:
            connection.close()


class PostgresRows:
    """In the database at `url`, which several gateways may share."""

    def __init__(self, url: str) -> None:
        self._url = url

    def swap_secrets(self, tenant: str, one: str, other: str) -> int:
        with self._opened() as connection:

            def run(sql: str, values: tuple[Any, ...]) -> list[Any]:
                cursor = connection.execute(sql.replace("?", "%s"), values)
                return list(cursor.fetchall()) if cursor.description else []

            return _swapped(run, tenant, one, other)

    def spoil_policies(self, tenant: str) -> None:
        with self._opened() as connection:
            connection.execute(SPOIL.replace("?", "%s"), (tenant, UNREADABLE))

    def traces(self) -> Mapping[str, bytes]:
        """Every value of every table, whoever wrote it: a leak is one wherever it lies."""
        from psycopg import sql

        found: dict[str, bytes] = {}
        with self._opened() as connection:
            tables = connection.execute(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
                " AND table_schema NOT IN ('pg_catalog', 'information_schema') ORDER BY 1, 2"
            ).fetchall()
            for schema, table in tables:
                rows = connection.execute(sql.SQL("SELECT * FROM {}").format(sql.Identifier(schema, table))).fetchall()
                found[f"{STORE_FILE} {schema}.{table}"] = b"\n".join(_bytes(value) for row in rows for value in row)
        return found

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Inside one transaction."""
        try:
            # Imported here: only who shares a database needs its driver.
            import psycopg
        except ImportError:
            raise Untestable("the PostgreSQL driver is not installed", where=SHARED_STORE, fix="install the extra postgres") from None
        try:
            with psycopg.connect(self._url, connect_timeout=10) as connection:
                yield connection
        except psycopg.Error as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise HarnessError(f"the database cannot be tampered with: {reason}", where=SHARED_STORE, fix="see the server's log") from None


def rows_of(folder: Path) -> Rows:
    """Of the gateway whose folder this is."""
    shared = os.environ.get(SHARED_STORE, "")
    return PostgresRows(shared) if shared.startswith(("postgresql://", "postgres://")) else SqliteRows(folder)


def _swapped(run: Any, tenant: str, one: str, other: str) -> int:
    mine = [row for row in run(SECRETS, (tenant,)) if row[0] in (one, other)]
    for source, path, version, blob in mine:
        run(MOVE, (version, blob, tenant, other if source == one else one, path))
    return len(mine)


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode("utf-8", "replace")
