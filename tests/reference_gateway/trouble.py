"""A gateway whose disk can be made to fail, and a second hand on its file."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import apsw

from reference_gateway.app import Gateway, Options
from reference_gateway.store.sqlite import SqliteStore
from torture._faulty import FaultyVfs, faulty

from .conftest import OPERATOR_TOKEN, Bench, Operator, Provider, Served, provider_served

VAULT_KEY = "5c" * 32


@dataclass
class Troubled:
    """A bench whose disk can be made to fail, and a second hand on its file."""

    bench: Bench
    store: SqliteStore
    vfs: FaultyVfs
    path: Path


@contextlib.contextmanager
def troubled_gateway(path: Path, **words: str) -> Iterator[Troubled]:
    """`words`: what the connection `notes` says of its tools. The store waits 20 ms for whoever holds it, and not seconds."""
    with faulty(f"trouble-{uuid.uuid4().hex}") as vfs:
        store = SqliteStore(path, vfs=vfs.name)
        store.open()
        store._open().set_busy_timeout(20)
        settings = Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, test_clock=True, vault_key=VAULT_KEY)
        try:
            with provider_served(Provider()) as provider, Served(Gateway(settings, store, lambda: None).asgi()) as served:
                operator = Operator(f"http://127.0.0.1:{served.port}")
                bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
                bench.connect(permissions=words)
                yield Troubled(bench, store, vfs, path)
                operator.http.close()
        finally:
            store.close()


def until(holds: Callable[[], object], within_s: float = 15.0) -> None:
    """Returns as soon as `holds` does."""
    waited = threading.Event()
    for _ in range(int(within_s / 0.02)):
        if holds():
            return
        waited.wait(0.02)
    assert holds()


@contextlib.contextmanager
def failing(troubled: Troubled, error: Exception) -> Iterator[None]:
    troubled.vfs.fails = lambda what: error if what == "write" else None
    try:
        yield
    finally:
        troubled.vfs.fails = lambda what: None


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Somebody else has the store for writing."""
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


TROUBLES: dict[str, tuple[str, Callable[[Troubled], contextlib.AbstractContextManager[None]]]] = {
    "full": ("store_unwritable", lambda troubled: failing(troubled, apsw.FullError("full"))),
    "read-only": ("store_unwritable", lambda troubled: failing(troubled, apsw.ReadOnlyError("read-only"))),
    "broken": ("store_unwritable", lambda troubled: failing(troubled, apsw.IOError("broken"))),
    "held": ("store_busy", lambda troubled: held(troubled.path)),
}
