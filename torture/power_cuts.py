"""Simulated power cuts: what was written and not synced is gone; whatever was acknowledged before must still be there, whole and chained."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import apsw

from reference_gateway.audit import verify
from reference_gateway.store.base import StoreError
from reference_gateway.store.sqlite import SqliteStore
from torture._faulty import FaultyVfs, faulty
from torture.figures import Figures, Scale

SEED = 20261201


def record(number: int) -> dict[str, Any]:
    return {"tenant": "t", "event": "call_started", "invocation": f"i{number}", "details": {"pad": "x" * (number % 700)}}


def run(scale: Scale) -> list[Figures]:
    cuts = 500 if scale == "full" else 20
    with tempfile.TemporaryDirectory(prefix="torture-power-") as name, faulty("torture-power") as vfs:
        lost = _cut(Path(name), vfs, cuts, full=True)
    with tempfile.TemporaryDirectory(prefix="torture-power-") as name, faulty("torture-power-control") as vfs:
        control = _cut(Path(name), vfs, 20, full=False)
    return [Figures("a power cut loses nothing acknowledged", cuts, lost, control, ("control: the same with synchronous=OFF",))]


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
