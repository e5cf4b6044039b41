"""A gateway whose store lies on a small disk, a read-only one or one that is full: in mount namespaces, where such disks can be made."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from tests.reference_gateway.conftest import Bench, provider_served
from tests.reference_gateway.test_process import COMMAND, ENVIRONMENT, failed, operated, started

PLACE = "unshare --user --map-root-user --mount -- sh -c"


@contextlib.contextmanager
def placed(prepare: str) -> Iterator[None]:
    """From here on the gateway starts where `prepare` has been run first, in user and mount namespaces of its own."""
    kept = COMMAND[:]
    COMMAND[:] = [*PLACE.split(), f'{prepare} && exec "$@"', "sh", *kept]
    try:
        yield
    finally:
        COMMAND[:] = kept


def inside(pid: int, command: str) -> None:
    subprocess.run(["nsenter", "--preserve-credentials", "-t", str(pid), "-U", "-m", "sh", "-c", command], check=True, timeout=30, env=ENVIRONMENT)


def test_a_disk_that_fills_up_stops_calls_by_name_and_loses_nothing(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    flags = ["--store", str(disk / "gateway.db"), "--allow-loopback", "--experimental", "memory_connectors"]
    with (
        placed(f"mount -t tmpfs -o size=3m tmpfs {disk}"),
        provider_served() as provider,
        started(*flags) as (child, ready),
        operated(ready) as operator,
    ):
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.connect()
        run, token = bench.run()
        assert bench.call(token, "add_note", {"text": "before"})["_meta"]["gateway/outcome"] == "success"
        inside(child.pid, f"head -c 4m /dev/zero > {disk}/filler || true")
        reasons: list[str] = []
        answered = 1
        while len(reasons) < 3 and answered < 300:  # until the last free page of the log is used up
            try:
                bench.call(token, "add_note", {"text": f"n{answered}"})
                answered += 1
            except MCPError as error:
                reasons.append(error.error.data["gateway/reason"])
        assert reasons == ["store_unwritable"] * 3
        intents = [r for r in bench.records(run) if r["event"] == "call_started"]
        assert len(intents) == len(provider.calls) >= answered
        inside(child.pid, f"rm {disk}/filler")
        assert bench.call(token, "add_note", {"text": "after"})["_meta"]["gateway/outcome"] == "success"
        ends = [r for r in bench.records(run) if r["event"] == "call_completed"]
        assert len(ends) == answered + 1
        assert [r["seq"] for r in bench.records()] == list(range(1, len(bench.records()) + 1))


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        ("mount -t tmpfs -o size=3m tmpfs {disk} && mount -o remount,ro {disk}", "Read-only file system"),
        ("mount -t tmpfs -o size=3m tmpfs {disk} && cp {store} {disk}/gateway.db && mount -o remount,ro {disk}", "Read-only file system"),
        ("mount -t tmpfs -o size=16k tmpfs {disk}", "Free or mend the disk"),
    ],
)
def test_a_disk_that_takes_nothing_is_named_at_the_start(tmp_path: Path, prepare: str, says: str) -> None:
    disk, store = tmp_path / "disk", tmp_path / "earlier.db"
    disk.mkdir()
    sqlite3.connect(store).close()
    with placed(prepare.format(disk=disk, store=store)):
        text = failed("--store", str(disk / "gateway.db"))
    assert says in text
    assert str(disk / "gateway.db") in text


def test_a_store_of_a_newer_gateway_is_refused_and_left_alone(tmp_path: Path) -> None:
    store = tmp_path / "gateway.db"
    with contextlib.closing(sqlite3.connect(store)) as connection:
        connection.execute("PRAGMA user_version = 999")
        connection.commit()
    assert re.search(r"schema 999.+newer", failed("--store", str(store)))
    with contextlib.closing(sqlite3.connect(store)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (999,)
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
