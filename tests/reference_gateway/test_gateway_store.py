"""The store's contract: documents, transactions, opening, and several users at once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest

from reference_gateway.audit import verify
from reference_gateway.canonical import canonical_bytes
from reference_gateway.store.base import GENESIS, Store, StoreError
from reference_gateway.store.schema import VERSION
from reference_gateway.store.sqlite import SqliteStore, wal_is_safe


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = SqliteStore(tmp_path / "gateway.db")
    opened.open()
    yield opened
    opened.close()


def record(event: str = "run_created", tenant: str = "t1", **more: Any) -> dict[str, Any]:
    return {"at": "2026-11-30T10:00:00.000000Z", "tenant": tenant, "run": None, "invocation": None, "event": event, "details": {}, **more}


def approval(number: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"ap{number}", "tenant": "t1", "run": "r1", "tool_key": "mem0/add", "arguments_digest": "d1", "state": "pending",
        "expires_at": f"2026-11-30T11:00:{number % 60:02d}.000000Z", "arguments": {"n": number}, **more,
    }  # fmt: skip


# the audit


def test_the_audit_is_dense_chained_and_scoped(store: Store) -> None:
    assert store.audit_head() == (0, GENESIS)
    first = store.audit_append([record(run="r1"), record(tenant="t2"), record(run="r2")])
    second = store.audit_append([record(run="r1")])
    whole = store.audit_read(None)
    assert whole == [*first, *second]
    assert [item["seq"] for item in whole] == [1, 2, 3, 4]
    assert whole[0]["prev_hash"] == GENESIS
    for before, after in pairwise(whole):
        assert after["prev_hash"] == before["hash"]
    body = {key: value for key, value in whole[2].items() if key != "hash"}
    assert whole[2]["hash"] == hashlib.sha256(canonical_bytes(body)).hexdigest()
    assert store.audit_head() == (4, whole[3]["hash"])
    assert [item["seq"] for item in store.audit_read("t1")] == [1, 3, 4]
    assert [item["seq"] for item in store.audit_read("t1", run="r1")] == [1, 4]
    assert [item["seq"] for item in store.audit_read("t1", run="r1", after=1)] == [4]
    assert [item["seq"] for item in store.audit_read("t1", limit=2)] == [1, 3]
    assert store.audit_read("t1", limit=0) == [] == store.audit_read("t3")


def test_a_page_never_exceeds_1000(store: Store) -> None:
    store.audit_append([record() for _ in range(1005)])
    assert len(store.audit_read("t1", limit=5000)) == 1000
    assert len(store.audit_read("t1", after=1000)) == 5


def test_appending_nothing_is_nothing(store: Store) -> None:
    assert store.audit_append([]) == []
    assert store.audit_head() == (0, GENESIS)


def test_unfinished_calls_are_those_without_an_end(store: Store) -> None:
    store.audit_append(
        [
            *(record("call_started", invocation=name) for name in "abc"),
            record("call_completed", invocation="a"),
            record("call_failed", invocation="c"),
            record("policy_decision", invocation="d"),
        ]
    )
    assert [item["invocation"] for item in store.audit_unfinished()] == ["b"]


def test_looking_for_unfinished_calls_takes_as_long_as_there_are_calls_and_no_longer(tmp_path: Path) -> None:
    """A restart after a long life: ten times the calls are ten times the steps of SQLite's machine, not a hundred times."""
    steps: list[int] = []
    for calls in (100, 1000):
        store = SqliteStore(tmp_path / f"{calls}.db")
        store.open()
        for event in ("call_started", "call_completed"):
            store.audit_append([record(event, invocation=f"i{number}") for number in range(calls)])
        counted = 0

        def count() -> bool:
            nonlocal counted
            counted += 1
            return False

        store._open().set_progress_handler(count, 10)
        assert store.audit_unfinished() == []
        steps.append(counted)
        store.close()
    assert 0 < steps[1] < 15 * steps[0]


def test_not_even_sql_alters_the_audit(store: Store, tmp_path: Path) -> None:
    store.audit_append([record()])
    other = apsw.Connection(str(tmp_path / "gateway.db"))
    for statement in ("UPDATE audit SET event = 'x'", "DELETE FROM audit"):
        with pytest.raises(apsw.ConstraintError, match="append-only"):
            other.execute(statement)
    other.close()


# transactions


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    def fail() -> None:
        with store.transaction():
            store.audit_append([record()])
            store.approval_put(approval())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert store.audit_head() == (0, GENESIS)
    assert store.approval_get("t1", "ap1") is None
    assert store.audit_append([record()])[0]["seq"] == 1


def test_an_inner_failure_that_is_caught_undoes_only_itself(store: Store) -> None:
    def fail() -> None:
        with store.transaction():
            store.audit_append([record()])
            store.approval_put(approval())
            store.approval_put(approval())

    with store.transaction():
        store.audit_append([record()])
        with pytest.raises(StoreError) as caught:
            fail()
        assert caught.value.code == "store_conflict"
        store.audit_append([record()])
    assert [item["seq"] for item in store.audit_read(None)] == [1, 2]
    assert store.approval_get("t1", "ap1") is None


# documents


def test_tenants(store: Store) -> None:
    assert not store.tenant_exists("t1")
    store.tenant_add("t1")
    store.tenant_add("t1")
    assert store.tenant_exists("t1")


def test_connections_are_per_tenant(store: Store) -> None:
    store.connection_put("t1", "mem0", {"url": "a"})
    store.connection_put("t2", "mem0", {"url": "b"})
    store.connection_put("t1", "zep", {"url": "c"})
    store.connection_put("t1", "mem0", {"url": "d", "unicode": "\ud83e", "big": 10**30})
    assert store.connection_get("t1", "mem0") == {"url": "d", "unicode": "\ud83e", "big": 10**30, "tenant": "t1", "name": "mem0", "revision": 4}
    assert [(doc["tenant"], doc["name"]) for doc in store.connections()] == [("t1", "mem0"), ("t1", "zep"), ("t2", "mem0")]
    assert [doc["name"] for doc in store.connections("t2")] == ["mem0"]
    assert store.connection_delete("t1", "mem0")
    assert not store.connection_delete("t1", "mem0")
    assert store.connection_get("t1", "mem0") is None
    assert store.connection_get("t2", "mem0") is not None


def test_secrets_are_replaced_and_versions_never_come_back(store: Store) -> None:
    assert store.secret_get("t1", "mem0", "p") is None
    assert [store.secret_next_version("t1", "mem0", "p") for _ in range(2)] == [1, 2]
    store.secret_put("t1", "mem0", "p", 1, b"one")
    store.secret_put("t1", "mem0", "p", 2, b"\x00two")
    store.secret_put("t1", "mem0", "q", 1, b"q")
    store.secret_put("t2", "mem0", "p", 1, b"other")
    assert store.secret_get("t1", "mem0", "p") == (2, b"\x00two")
    assert store.secrets_delete("t1", "mem0") == 2
    assert store.secret_get("t1", "mem0", "p") is None
    assert store.secret_get("t2", "mem0", "p") == (1, b"other")
    assert store.secret_next_version("t1", "mem0", "p") == 3


def test_runs(store: Store) -> None:
    store.run_put({"run": "r1", "tenant": "t1", "token_digest": "x", "state": "active"})
    assert store.run_by_token_digest("x") == store.run_get("r1")
    assert store.run_by_token_digest("y") is None is store.run_get("r2")
    assert store.run_update("r1", state="ended") == {"run": "r1", "tenant": "t1", "token_digest": "x", "state": "ended"}
    assert store.run_get("r1")["state"] == "ended"  # type: ignore[index]
    assert store.run_update("r2", state="ended") is None
    with pytest.raises(StoreError) as caught:
        store.run_put({"run": "r2", "tenant": "t1", "token_digest": "x"})
    assert caught.value.code == "store_conflict"


def test_approvals_are_found_listed_and_due(store: Store) -> None:
    for number in (3, 1, 2):
        store.approval_put(approval(number))
    store.approval_put(approval(4, tenant="t2", run="r9", arguments_digest="d2"))
    assert [doc["id"] for doc in store.approvals("t1")] == ["ap3", "ap1", "ap2"]
    assert [doc["id"] for doc in store.approvals(None)] == ["ap3", "ap1", "ap2", "ap4"]
    assert [doc["id"] for doc in store.approvals("t1", run="r9")] == []
    assert store.approval_get("t1", "ap4") is None
    assert store.approval_get(None, "ap4") == store.approval_get("t2", "ap4") == approval(4, tenant="t2", run="r9", arguments_digest="d2")
    assert store.approval_find("r1", "mem0/add", "d1") == approval(2)
    assert store.approval_find("r1", "mem0/add", "d2") is None is store.approval_find("r9", "mem0/del", "d2")
    assert [doc["id"] for doc in store.approvals_due("2026-11-30T11:00:02.000000Z")] == ["ap1", "ap2"]
    assert store.approval_transition("ap1", "pending", "executing", decided_by="ann")
    assert [doc["id"] for doc in store.approvals("t1", state="executing")] == ["ap1"]
    assert [doc["id"] for doc in store.approvals_due("2026-11-30T11:00:02.000000Z")] == ["ap2"]


def test_a_transition_is_a_compare_and_set(store: Store) -> None:
    store.approval_put(approval())
    assert not store.approval_transition("ap1", "executing", "executed")
    assert not store.approval_transition("nobody", "pending", "executing")
    assert store.approval_transition("ap1", "pending", "executing", decided_by="ann", nothing=None)
    assert not store.approval_transition("ap1", "pending", "rejected", decided_by="bob")
    assert store.approval_get("t1", "ap1") == approval(state="executing", decided_by="ann", nothing=None)


# opening


def test_it_reads_back_after_reopening_and_the_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    for number in (1, 2):
        store = SqliteStore(path)
        store.open()
        assert store.audit_append([record()])[0]["seq"] == number
        assert {file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {0o600}
        store.close()
        store.close()


def test_writes_are_synchronous_in_full(store: SqliteStore) -> None:
    assert store._run("PRAGMA synchronous") == [(2,)]
    assert store._run("PRAGMA journal_mode") == [("wal",)]


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "gateway.db"
    raw = apsw.Connection(str(path))
    raw.execute(f"PRAGMA user_version={VERSION + 1}")
    raw.close()
    with pytest.raises(StoreError, match="schema") as caught:
        SqliteStore(path).open()
    assert caught.value.code == "store_newer"
    assert caught.value.fix
    raw = apsw.Connection(str(path))
    assert raw.execute("PRAGMA user_version").get == VERSION + 1
    assert raw.execute("SELECT count(*) FROM sqlite_schema").get == 0
    raw.close()


@pytest.mark.parametrize("kind", ["folder", "missing", "junk"])
def test_what_is_no_store_is_refused_with_its_name(tmp_path: Path, kind: str) -> None:
    path = {"folder": tmp_path, "missing": tmp_path / "no" / "such" / "gateway.db", "junk": tmp_path / "junk.db"}[kind]
    if kind == "junk":
        path.write_bytes(b"this is not a database file, " * 100)
    with pytest.raises(StoreError) as caught:
        SqliteStore(path).open()
    assert caught.value.code == "store_unusable"
    assert str(path) in str(caught.value)


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not open"):
        SqliteStore(tmp_path / "gateway.db").audit_head()


@pytest.mark.parametrize(
    ("release", "safe"),
    [
        ("3.40.1", False), ("3.44.5", False), ("3.44.6", True), ("3.50.6", False),
        ("3.50.7", True), ("3.51.2", False), ("3.51.3", True), ("3.54.1", True),
    ],
)  # fmt: skip
def test_releases_that_can_corrupt_the_log_are_known(release: str, safe: bool) -> None:
    assert wal_is_safe(release) is safe


# several at once


def test_one_claim_wins_among_threads_with_connections_of_their_own(tmp_path: Path) -> None:
    path, count = tmp_path / "gateway.db", 20
    setup = SqliteStore(path)
    setup.open()
    for number in range(count):
        setup.approval_put(approval(number))
    wins: list[tuple[int, int]] = []
    start = threading.Barrier(4)

    def contend(name: int) -> None:
        mine = SqliteStore(path)
        mine.open()
        start.wait()
        for number in range(count):
            while True:
                try:
                    if mine.approval_transition(f"ap{number}", "pending", "executing", decided_by=str(name)):
                        mine.audit_append([record(run=str(name))])
                        wins.append((number, name))
                    break
                except StoreError as error:
                    if error.code != "store_busy":  # a loaded machine; being busy is not winning
                        raise
        mine.close()

    threads = [threading.Thread(target=contend, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number, _ in wins) == list(range(count))
    assert {doc["id"]: doc["decided_by"] for doc in setup.approvals(None)} == {f"ap{number}": str(name) for number, name in wins}
    assert verify(setup.audit_read(None), head=setup.audit_head()) == []
    assert setup.audit_head()[0] == count
    setup.close()


def test_one_store_is_safe_to_share_between_threads(store: Store) -> None:
    def append() -> None:
        for _ in range(10):
            with store.transaction():
                store.audit_append([record()])
                store.audit_append([record()])

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.audit_head()[0] == 80
    assert verify(store.audit_read(None)) == []


def test_a_held_store_is_reported_busy_and_works_again_after(store: Store, tmp_path: Path) -> None:
    other = apsw.Connection(str(tmp_path / "gateway.db"))
    other.execute("BEGIN IMMEDIATE")
    store._open().set_busy_timeout(20)  # type: ignore[attr-defined]
    with pytest.raises(StoreError) as caught:
        store.audit_append([record()])
    assert caught.value.code == "store_busy"
    other.execute("ROLLBACK")
    other.close()
    assert store.audit_append([record()])[0]["seq"] == 1
