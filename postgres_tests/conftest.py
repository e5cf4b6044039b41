"""One server for all tests, one database for each that wants one of its own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from postgres_tests.server import database
from reference_gateway.store.postgres import PostgresStore


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with database() as url:
        yield url


@pytest.fixture
def url(server: str) -> Iterator[str]:
    name = f"gateway_{secrets.token_hex(6)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    yield server.rpartition("/")[0] + f"/{name}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(url)
    opened.open()
    yield opened
    opened.close()
