"""Records of many calls in one commit: all durable, none lost for a neighbour's fault, none dispatched without its own."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest

from reference_gateway.audit import AuditFields, AuditLog, verify
from reference_gateway.store.base import Document, StoreError
from reference_gateway.store.sqlite import SqliteStore
from torture._faulty import faulty

from .trouble import held


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 11, 30, 10, tzinfo=UTC)


class Counted(SqliteStore):
    """Counts what is tried and what is committed, and takes no record of tool `poison`."""

    tried = 0
    commits = 0

    def audit_append(self, records: Sequence[Document]) -> list[Document]:
        self.tried += 1
        if any(record["tool"] == "poison" for record in records):
            raise StoreError("store_conflict", "there is such a record")
        done = super().audit_append(records)
        self.commits += 1
        return done


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Counted]:
    opened = Counted(tmp_path / "gateway.db")
    opened.open()
    yield opened
    opened.close()


def unrecordable() -> AuditFields:
    return {**entry("odd"), "details": {"what": object()}}


def entry(tool: str) -> AuditFields:
    return {
        "tenant": "t", "actor": "agent:a", "event": "call_started", "outcome": "pending", "decision": "allow", "reason": "dispatching",
        "tool": tool, "invocation": tool,
    }  # fmt: skip


def run(store: Counted, tools: Sequence[str]) -> list[Any]:
    async def go() -> list[Any]:
        log = AuditLog(store, Clock())
        return await asyncio.gather(*(log.append_soon([entry(tool), entry(tool)]) for tool in tools), return_exceptions=True)

    return asyncio.run(go())


def test_what_comes_in_one_turn_is_one_commit_and_one_chain(store: Counted) -> None:
    assert run(store, [f"t{n}" for n in range(40)]) == [None] * 40
    records = store.audit_read(None)
    assert store.commits == 1
    assert len(records) == 80
    assert verify(records, head=store.audit_head()) == []


def test_one_that_cannot_be_written_fails_alone(store: Counted) -> None:
    found = run(store, ["a", "poison", "b"])
    assert [type(each) for each in found] == [type(None), StoreError, type(None)]
    assert [record["tool"] for record in store.audit_read(None)] == ["a", "a", "b", "b"]


def test_one_that_no_record_can_carry_fails_alone(store: Counted) -> None:
    async def go() -> list[Any]:
        log = AuditLog(store, Clock())
        waiting = [[entry("a")], [unrecordable()], [entry("b")]]
        return await asyncio.gather(*(log.append_soon(each) for each in waiting), return_exceptions=True)

    assert [type(each) for each in asyncio.run(go())] == [type(None), TypeError, type(None)]
    assert [record["tool"] for record in store.audit_read(None)] == ["a", "b"]


def test_a_store_that_somebody_holds_fails_all_at_once_after_one_wait(store: Counted, tmp_path: Path) -> None:
    """Each by itself would wait as long again, and with it everything else that the gateway does."""
    store._open().set_busy_timeout(50)
    with held(tmp_path / "gateway.db"):
        found = run(store, [f"t{n}" for n in range(16)])
    assert [getattr(each, "code", "") for each in found] == ["store_busy"] * 16
    assert len({id(each) for each in found}) == 16, "to each its own, which it may raise"
    assert store.tried == 1
    assert store.audit_read(None) == []
    assert run(store, ["later", "too"]) == [None] * 2


@pytest.mark.parametrize("trouble", [apsw.FullError("full"), apsw.ReadOnlyError("read-only"), apsw.IOError("broken")])
def test_a_store_that_cannot_be_written_fails_all_at_once(tmp_path: Path, trouble: Exception) -> None:
    with faulty(f"grouping-{uuid.uuid4().hex}") as vfs:
        store = Counted(tmp_path / "gateway.db", vfs=vfs.name)
        store.open()
        vfs.fails = lambda what: trouble if what == "write" else None
        found = run(store, [f"t{n}" for n in range(16)])
        vfs.fails = lambda what: None
        assert [getattr(each, "code", "") for each in found] == ["store_unwritable"] * 16
        assert store.tried == 1
        store.close()


def test_a_store_that_refuses_them_all_fails_each_of_them(store: Counted) -> None:
    assert [type(each) for each in run(store, ["poison"] * 3)] == [StoreError] * 3
    assert store.audit_read(None) == []


def test_the_log_tells_whether_it_could_be_written_last(store: Counted, tmp_path: Path) -> None:
    store._open().set_busy_timeout(50)
    log = AuditLog(store, Clock())
    told = [log.state]

    async def append(tool: str) -> None:
        with contextlib.suppress(StoreError):
            await log.append_soon([entry(tool)])
        told.append(log.state)

    with held(tmp_path / "gateway.db"):
        asyncio.run(append("a"))
    asyncio.run(append("poison"))
    asyncio.run(append("b"))
    asyncio.run(append("poison"))  # what one record causes is no trouble of the store
    assert told == ["ok", "store_busy", "store_busy", "ok", "ok"]


def test_what_is_written_is_told_before_a_cancellation_is(store: Counted) -> None:
    """Or a call could be recorded as started and never as ended."""
    told: list[str] = []

    async def go() -> None:
        log = AuditLog(store, Clock())
        task = asyncio.ensure_future(log.append_soon([entry("t")], lambda: told.append("written")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        told.append(str(len(store.audit_read(None))))

    asyncio.run(go())
    assert told == ["written", "1"]


def test_nothing_is_told_of_what_could_not_be_written(store: Counted) -> None:
    told: list[str] = []

    async def go() -> None:
        log = AuditLog(store, Clock())
        task = asyncio.ensure_future(log.append_soon([entry("poison")], lambda: told.append("written")))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(go())
    assert told == []
