"""Acknowledged writes survive kills and power cuts, and a disk that fails is named and leaves nothing half-written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from reference_gateway.audit import verify
from reference_gateway.store.base import StoreError
from reference_gateway.store.sqlite import SqliteStore
from torture._faulty import FaultyVfs


def record(event: str = "run_created", **more: Any) -> dict[str, Any]:
    return {"tenant": "t1", "event": event, **more}


def approval(number: int) -> dict[str, Any]:
    return {
        "id": f"ap{number}", "tenant": "t1", "run": "r1", "tool_key": "mem0/add", "arguments_digest": "d1", "state": "pending",
        "expires_at": "2026-11-30T11:00:00.000000Z",
    }  # fmt: skip


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[tuple[FaultyVfs, Callable[[], SqliteStore]]]:
    vfs = FaultyVfs(f"faulty-{tmp_path.name}")
    opened: list[SqliteStore] = []

    def make() -> SqliteStore:
        opened.append(SqliteStore(tmp_path / "gateway.db", vfs=f"faulty-{tmp_path.name}"))
        opened[-1].open()
        return opened[-1]

    yield vfs, make
    vfs.fails = lambda what: None
    for store in opened:
        store.close()
    vfs.unregister()


def acknowledge(store: SqliteStore, count: int) -> None:
    for number in range(count):
        store.approval_put(approval(number))
        store.audit_append([record("call_started", invocation=f"i{number}")])


@pytest.mark.parametrize("count", [1, 7, 40])
def test_a_power_cut_loses_no_acknowledged_write(faulty: Any, tmp_path: Path, count: int) -> None:
    vfs, make = faulty
    acknowledge(make(), count)
    vfs.after_power_cut(tmp_path / "disk")
    survivor = SqliteStore(tmp_path / "disk" / "gateway.db")
    survivor.open()
    assert survivor.audit_head()[0] == count == len(survivor.approvals(None))
    assert verify(survivor.audit_read(None), head=survivor.audit_head()) == []
    survivor.close()


def test_the_power_cut_test_can_fail(faulty: Any, tmp_path: Path) -> None:
    vfs, make = faulty
    store = make()
    store._run("PRAGMA synchronous=NORMAL")
    acknowledge(store, 7)
    vfs.after_power_cut(tmp_path / "disk")
    survivor = SqliteStore(tmp_path / "disk" / "gateway.db")
    survivor.open()
    assert survivor.audit_head()[0] < 7
    survivor.close()


@pytest.mark.parametrize("fault", [apsw.FullError("full"), apsw.IOError("broken"), apsw.ReadOnlyError("read-only")])
def test_a_disk_that_fails_is_named_nothing_is_kept_and_it_recovers(faulty: Any, fault: Exception) -> None:
    vfs, make = faulty
    store = make()
    acknowledge(store, 1)

    def both() -> None:
        with store.transaction():
            store.approval_put(approval(8))
            store.audit_append([record()])

    vfs.fails = lambda what: fault if what == "write" else None
    with pytest.raises(StoreError) as caught:
        both()
    assert caught.value.code == "store_unwritable"
    assert caught.value.http_status == 503
    vfs.fails = lambda what: None
    assert store.audit_append([record()])[0]["seq"] == 2
    assert store.approval_get("t1", "ap8") is None
    assert verify(store.audit_read(None)) == []


APPENDER = """
import sys
from reference_gateway.store.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
store.open()
while True:
    done = store.audit_append([{"tenant": "t1", "event": "call_started", "invocation": "x", "run": "r"}])
    print(done[0]["seq"], flush=True)
"""


def test_killed_writers_lose_nothing_they_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    root = Path(__file__).resolve().parents[2]
    acknowledged = 0
    for _ in range(3):
        command = [sys.executable, "-c", APPENDER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}) as child:
            assert child.stdout is not None
            for _ in range(15):
                acknowledged = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            for line in child.stdout:
                acknowledged = int(line)
    store = SqliteStore(path)
    store.open()
    assert store.audit_head()[0] >= acknowledged >= 45
    assert verify(store.audit_read(None)) == []
    store.close()
