"""Records of many calls in one commit: all durable, none lost for a neighbour's fault, none dispatched without its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from reference_gateway.audit import AuditFields, AuditLog, verify
from reference_gateway.store.base import Document, StoreError
from reference_gateway.store.sqlite import SqliteStore


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 11, 30, 10, tzinfo=UTC)


class Counted(SqliteStore):
    """Counts commits, and cannot write records of tool `poison`."""

    commits = 0

    def audit_append(self, records: Sequence[Document]) -> list[Document]:
        if any(record["tool"] == "poison" for record in records):
            raise StoreError("store_unwritable", "the disk is full")
        self.commits += 1
        return super().audit_append(records)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Counted]:
    opened = Counted(tmp_path / "gateway.db")
    opened.open()
    yield opened
    opened.close()


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


def test_a_full_store_fails_every_one_of_them(store: Counted) -> None:
    assert [type(each) for each in run(store, ["poison"] * 3)] == [StoreError] * 3
    assert store.audit_read(None) == []


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
