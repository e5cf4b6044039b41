"""Simulated power cuts: what was written and not synced is gone. Whatever was acknowledged before must still be there, whole and chained; and
whatever a whole gateway sent before must have its intent in what is left, and must not be sent again."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from reference_gateway.audit import verify
from reference_gateway.store.base import StoreError
from reference_gateway.store.sqlite import SqliteStore
from torture._bench import Json, client, provider
from torture._faulty import FaultyVfs, faulty
from torture._load import Load
from torture._served import served
from torture.figures import Figures, Scale

SEED = 20261201
WRITES = 800
"""A cut comes with one of so many writes and syncs of a round, whichever."""

ROUND_S = 60
"""By then so many were written, or nothing is written any more."""


def record(number: int) -> dict[str, Any]:
    return {"tenant": "t", "event": "call_started", "invocation": f"i{number}", "details": {"pad": "x" * (number % 700)}}


def run(scale: Scale) -> list[Figures]:
    cuts, rounds = (500, 200) if scale == "full" else (20, 3)
    with tempfile.TemporaryDirectory(prefix="torture-power-") as name, faulty("torture-power") as vfs:
        lost = _cut(Path(name), vfs, cuts, full=True)
    with tempfile.TemporaryDirectory(prefix="torture-power-") as name, faulty("torture-power-control") as vfs:
        control = _cut(Path(name), vfs, 20, full=False)
    sent, wrong, notes = asyncio.run(_dispatched(rounds, full=True))
    _, broken, _ = asyncio.run(_dispatched(2, full=False))
    return [
        Figures("a power cut loses nothing acknowledged", cuts, lost, control, ("control: the same with synchronous=OFF",)),
        Figures("calls and approvals across a power cut: no dispatch without intent, none twice", sent, wrong, broken, notes),
    ]


def _cut(folder: Path, vfs: FaultyVfs, cuts: int, *, full: bool) -> int:
    """How many cuts lost a record that was acknowledged, or left a log that is not whole."""
    odds = random.Random(SEED)
    after, path, wrong = folder / "after", folder / "gateway.db", 0
    for number in range(cuts):
        for old in folder.glob("gateway.db*"):
            old.unlink()
        vfs.images.clear()
        store = SqliteStore(path, vfs=vfs.name)
        store.open()
        if not full:
            store._run("PRAGMA synchronous=OFF")
        acknowledged = _write(store, odds, number)
        vfs.after_power_cut(after)
        found = SqliteStore(after / path.name)
        try:
            found.open()
            kept = found.audit_read(None)
            wrong += [each["hash"] for each in kept[: len(acknowledged)]] != acknowledged or bool(verify(kept))
        except StoreError:
            wrong += 1
        finally:
            found.close()
            store.close()
    return wrong


def _write(store: SqliteStore, odds: random.Random, number: int) -> list[str]:
    """Hashes of what was acknowledged; a transaction is left open in the end, as a cut finds one."""
    hashes: list[str] = []
    for turn in range(odds.randrange(1, 12)):
        hashes += [each["hash"] for each in store.audit_append([record(turn + number) for _ in range(odds.randrange(1, 4))])]
        if odds.random() < 0.1:
            store._run("PRAGMA wal_checkpoint(PASSIVE)")
    try:
        with store.transaction():
            store.audit_append([record(0)])
            raise apsw.FullError  # any way out of it will do
    except (apsw.FullError, StoreError):
        return hashes


class _Power:
    """The power of one disk: on until the round's moment, then off for whoever still has it open."""

    def __init__(self, vfs: FaultyVfs, after: Path) -> None:
        self._vfs, self._after = vfs, after
        self._left = 0
        self.off = asyncio.Event()

    def lasts(self, writes: int) -> None:
        self._left = writes
        self._vfs.fails = self._told

    def _told(self, what: str) -> Exception | None:
        self._left -= 1
        if self._left == 0:
            self._vfs.after_power_cut(self._after)  # before this write or sync is done
            self.off.set()
        return apsw.IOError("the power is off") if self.off.is_set() else None


async def _dispatched(rounds: int, *, full: bool) -> tuple[int, int, tuple[str, ...]]:
    """Calls that were sent, violations, and words. One log lives through all cuts: each round goes on with what the one before left."""
    odds = random.Random(SEED)
    with tempfile.TemporaryDirectory(prefix="torture-power-") as name, faulty(f"torture-power-{full}") as vfs:
        folder = Path(name) / "0"
        folder.mkdir()
        async with provider() as counter:
            load = Load(counter, odds)
            for number in range(rounds):
                power = _Power(vfs, Path(name) / str(number + 1))
                store = _opened(folder, vfs, full=full)
                try:
                    async with client() as http, served(store) as gateway:
                        if number == 0:
                            await load.begin(http, gateway)
                            store._run("PRAGMA wal_checkpoint(FULL)")  # so that the control loses calls, and not the tenants
                        else:
                            await load.after(http, gateway)
                        await load.until_death(http, gateway, number, _until(power, odds.randrange(1, WRITES)))
                finally:
                    with suppress(apsw.Error):  # it would tidy up, and there is no power
                        store.close()
                    vfs.fails = lambda what: None
                folder = Path(name) / str(number + 1)
            store = _opened(folder, vfs, full=full)
            async with client() as http, served(store) as gateway:
                await load.after(http, gateway)
                violations, notes = load.judged(_records(store))
            store.close()
    words = (*notes, f"{load.unknown} approved calls cut off in {rounds} cuts", *load.wrong[:5], "control: the same with synchronous=NORMAL")
    return sum(counter.seen.values()), violations + len(load.wrong), words


def _until(power: _Power, writes: int) -> Callable[[], Awaitable[None]]:
    async def death() -> None:
        power.lasts(writes)
        async with asyncio.timeout(ROUND_S):
            await power.off.wait()

    return death


def _opened(folder: Path, vfs: FaultyVfs, *, full: bool) -> SqliteStore:
    """What lies in `folder` is on the disk."""
    vfs.images = {str(file): file.read_bytes() for file in folder.iterdir()}
    store = SqliteStore(folder / "gateway.db", vfs=vfs.name)
    store.open()
    if not full:
        store._run("PRAGMA synchronous=NORMAL")
    return store


def _records(store: SqliteStore) -> list[Json]:
    records: list[Json] = []
    while page := store.audit_read(None, after=len(records)):
        records += page
    return records
