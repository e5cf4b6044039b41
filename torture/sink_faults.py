"""A disk that fails now and then, in every way, under calls: no call goes out whose intent is not on it, and calls work again when it does."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

import apsw
import httpx2

from reference_gateway.canonical import arguments_digest
from reference_gateway.store.sqlite import SqliteStore
from torture._bench import Gateway, Person, call, client, outcome, provider
from torture._faulty import FaultyVfs, faulty
from torture._served import served
from torture.figures import Figures, Scale

SEED = 20261201
AT_ONCE = 8
FAULTS = (apsw.FullError, apsw.IOError, apsw.ReadOnlyError)


def run(scale: Scale) -> list[Figures]:
    calls = 3_000 if scale == "full" else 80
    violations, notes = asyncio.run(_faults(calls))
    control, _ = asyncio.run(_faults(80, "drop-audit=call_started"))
    return [Figures("no dispatch without a durable intent while the disk fails", calls, violations, control, notes)]


async def _faults(calls: int, *defects: str) -> tuple[int, tuple[str, ...]]:
    with tempfile.TemporaryDirectory(prefix="torture-sink-") as name, faulty(f"torture-sink-{len(defects)}") as vfs:
        store = SqliteStore(Path(name) / "gateway.db", vfs=vfs.name)
        store.open()
        try:
            async with provider() as counter, client() as http, served(store, defects) as gateway:
                try:
                    await Person(http, gateway).connect("t", counter, "allowed")
                    answers = await _calls(http, gateway, vfs, calls)
                    return await _judged(store, counter.seen, answers, http, gateway)
                finally:
                    vfs.fails = lambda what: None
        finally:
            store.close()


async def _calls(http: httpx2.AsyncClient, gateway: Gateway, vfs: FaultyVfs, calls: int) -> list[str]:
    """Outcomes. The disk is whole for a while, then every fifth write fails, then all of them, and so on."""
    odds = random.Random(SEED)
    token = await Person(http, gateway).run("t")
    outcomes: list[str] = []
    for first in range(0, calls, AT_ONCE):
        rate = (0.0, 0.2, 1.0)[(first // AT_ONCE) % 3]
        fault = odds.choice(FAULTS)

        def fails(what: str, rate: float = rate, fault: type[Exception] = fault) -> Exception | None:
            return fault() if odds.random() < rate else None

        vfs.fails = fails
        answers = await asyncio.gather(*(call(http, gateway, token, {"id": f"s{number}"}) for number in range(first, min(first + AT_ONCE, calls))))
        outcomes += [outcome(answer) for answer in answers]
    vfs.fails = lambda what: None
    return outcomes


async def _judged(store: SqliteStore, seen: Any, outcomes: list[str], http: httpx2.AsyncClient, gateway: Gateway) -> tuple[int, tuple[str, ...]]:
    token = await Person(http, gateway).run("t")
    recovered = outcome(await call(http, gateway, token, {"id": "after"})) == "success"
    records: list[dict[str, Any]] = []
    while page := store.audit_read(None, after=len(records)):
        records += page
    started = {record["arguments_digest"] for record in records if record["event"] == "call_started"}
    unaudited = [name for name in seen if arguments_digest({"id": name}) not in started]
    twice = [name for name, count in seen.items() if count > 1]
    good, refused = outcomes.count("success"), sum(1 for each in outcomes if each != "success")
    went = sum(seen.values())
    notes = (f"{good} calls succeeded, {refused} did not, {went} dispatches, {len(unaudited)} unaudited; calls work again: {recovered}",)
    return len(unaudited) + len(twice) + (not recovered) + (good == 0) + (refused == 0), notes
