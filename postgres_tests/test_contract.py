"""The store's contract on PostgreSQL: the very tests that SQLite passes, and what only several processes can get wrong."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from reference_gateway.audit import verify
from reference_gateway.store.base import StoreError
from reference_gateway.store.postgres import PostgresStore
from tests.reference_gateway import test_gateway_store as contract

# Those that are about SQLite's file itself want a `tmp_path`, or say so by their annotation.
SAME = {
    name: function
    for name, function in vars(contract).items()
    if name.startswith("test_")
    and inspect.signature(function).parameters.get("store", inspect.Parameter("none", inspect.Parameter.KEYWORD_ONLY)).annotation == "Store"
    and "tmp_path" not in inspect.signature(function).parameters
}
del SAME["test_unfinished_calls_are_those_without_an_end"]  # told of a living process here; below it is told of one that is gone
globals().update(SAME)


def test_the_suite_is_the_same() -> None:
    assert len(SAME) >= 12


def test_not_even_sql_alters_the_audit(store: PostgresStore, url: str) -> None:
    store.audit_append([contract.record()])
    with psycopg.connect(url, autocommit=True) as stranger:
        for statement in (sql.SQL("UPDATE audit SET hash = ''"), sql.SQL("DELETE FROM audit"), sql.SQL("TRUNCATE audit")):
            with pytest.raises(psycopg.errors.IntegrityError, match="append-only"):
                stranger.execute(statement)
    assert len(store.audit_read(None)) == 1


def test_it_reads_back_after_reopening(url: str) -> None:
    first = PostgresStore(url)
    first.open()
    written = first.audit_append([contract.record(), contract.record()])
    first.close()
    second = PostgresStore(url)
    second.open()
    assert second.audit_read(None) == written
    second.close()


def test_a_newer_schema_is_refused_and_left_alone(url: str, store: PostgresStore) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE gateway_schema SET version = 999")
    with pytest.raises(StoreError) as refused:
        PostgresStore(url).open()
    assert refused.value.code == "store_newer"


def test_what_is_no_database_is_refused_without_its_password() -> None:
    with pytest.raises(StoreError) as refused:
        PostgresStore("postgresql://gateway:very-secret-word@127.0.0.1:1/none").open()
    assert refused.value.code == "store_unusable"
    assert "very-secret-word" not in str(refused.value) + refused.value.where + repr(refused.value.__cause__)


def test_a_lost_connection_is_told_and_made_anew(store: PostgresStore, url: str) -> None:
    store.audit_append([contract.record()])
    with psycopg.connect(url, autocommit=True) as stranger:
        stranger.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
    with pytest.raises(StoreError) as lost:
        store.audit_append([contract.record()])
    assert lost.value.code == "store_unusable"
    store.audit_append([contract.record()])
    assert [each["seq"] for each in store.audit_read(None)] == [1, 2]


def test_sequences_stay_exact_among_stores(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(4)]
    for each in stores:
        each.open()

    def append(store: PostgresStore) -> None:
        for _ in range(25):
            store.audit_append([contract.record(), contract.record()])

    threads = [threading.Thread(target=append, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = stores[0].audit_read(None)
    assert [each["seq"] for each in records] == list(range(1, 201))
    assert verify(records) == []
    for each in stores:
        each.close()


def test_one_claim_wins_among_stores(url: str) -> None:
    stores = [PostgresStore(url) for _ in range(4)]
    for each in stores:
        each.open()
    for number in range(25):
        stores[0].approval_put(contract.approval(number))
    won: list[str] = []

    def claim(store: PostgresStore) -> None:
        won.extend(f"ap{n}" for n in range(25) if store.approval_transition(f"ap{n}", "pending", "executing"))

    threads = [threading.Thread(target=claim, args=(each,)) for each in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(won) == sorted(f"ap{n}" for n in range(25))
    for each in stores:
        each.close()


def test_unfinished_calls_of_a_process_that_is_gone_are_those_without_an_end(url: str) -> None:
    gone = PostgresStore(url)
    gone.open()
    gone.audit_append([contract.record("call_started", invocation=name) for name in ("ended", "failed", "lost")])
    gone.audit_append([contract.record("call_completed", invocation="ended"), contract.record("call_failed", invocation="failed")])
    assert gone.audit_unfinished() == []
    gone.close()
    later = PostgresStore(url)
    later.open()
    assert [each["invocation"] for each in later.audit_unfinished()] == ["lost"]
    later.close()


CRASHING = """
    import sys
    from reference_gateway.store.postgres import PostgresStore
    from tests.reference_gateway.test_gateway_store import approval, record
    store = PostgresStore(sys.argv[1])
    store.open()
    store.audit_append([record("call_started", invocation="of-the-dead")])
    store.approval_put(approval(7))
    store.approval_transition("ap7", "pending", "executing")
    print("ready", flush=True)
    sys.stdin.read()
"""


def test_only_what_the_dead_left_is_recovered(url: str, store: PostgresStore) -> None:
    """A process that starts, or starts again, must not declare the calls of its living neighbours lost."""
    store.audit_append([contract.record("call_started", invocation="of-the-living")])
    store.approval_put(contract.approval(1))
    store.approval_transition("ap1", "pending", "executing")
    root = Path(__file__).parents[1]
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CRASHING), url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root, env=os.environ
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    newcomer = PostgresStore(url)
    newcomer.open()
    assert newcomer.audit_unfinished() == []
    assert newcomer.approvals_orphaned() == []
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    deadline = threading.Event()
    for _ in range(100):  # the server notices the closed connection by itself, within moments
        if newcomer.audit_unfinished():
            break
        deadline.wait(0.1)
    assert [each["invocation"] for each in newcomer.audit_unfinished()] == ["of-the-dead"]
    assert [each["id"] for each in newcomer.approvals_orphaned()] == ["ap7"]
    newcomer.close()
