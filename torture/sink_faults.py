"""A disk that fails now and then, in every way, under calls: no call goes out whose intent is not on it, and calls work again when it does."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Any

import apsw
import httpx2
import uvicorn

from reference_gateway.app import Gateway as App
from reference_gateway.app import Options
from reference_gateway.canonical import arguments_digest
from reference_gateway.store.sqlite import SqliteStore
from torture._bench import TOKEN, Gateway, Person, call, client, outcome, provider
from torture._faulty import FaultyVfs, faulty
from torture.figures import Figures, Scale

SEED = 20261201
AT_ONCE = 8
FAULTS = (apsw.FullError, apsw.IOError, apsw.ReadOnlyError)


def run(scale: Scale) -> list[Figures]:
    calls = 3_000 if scale == "full" else 80
    violations, notes = asyncio.run(_faults(calls))
    control, _ = asyncio.run(_faults(80, "drop-audit=call_started"))
    return [Figures("no dispatch without a durable intent while the disk fails", calls, violations, control, notes)]


class Served(Gateway):
    """The gateway's application inside this process, where its disk can be made to fail."""

    def __init__(self, port: int) -> None:
        self.operator, self.mcp = f"http://127.0.0.1:{port}/operator/v1", f"http://127.0.0.1:{port}/mcp"


async def _faults(calls: int, *defects: str) -> tuple[int, tuple[str, ...]]:
    with tempfile.TemporaryDirectory(prefix="torture-sink-") as name, faulty(f"torture-sink-{len(defects)}") as vfs:
        store = SqliteStore(Path(name) / "gateway.db", vfs=vfs.name)
        store.open()
        try:
            app = App(Options(operator_token=TOKEN, allow_loopback=True, defects=defects), store, lambda: None)
            config = uvicorn.Config(app.asgi(), port=0, log_level="critical", http="h11", ws="none", lifespan="on", access_log=False)
            server = uvicorn.Server(config)
            serving = asyncio.create_task(server.serve())
            while not server.started:
                await asyncio.sleep(0.01)
            try:
                gateway = Served(server.servers[0].sockets[0].getsockname()[1])
                async with provider() as counter, client() as http:
                    await Person(http, gateway).connect("t", counter, "allowed")
                    answers = await _calls(http, gateway, vfs, calls)
                    return await _judged(store, counter.seen, answers, http, gateway, vfs)
            finally:
                vfs.fails = lambda what: None
                server.should_exit = True
                await serving
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


async def _judged(
    store: SqliteStore, seen: Any, outcomes: list[str], http: httpx2.AsyncClient, gateway: Gateway, vfs: FaultyVfs
) -> tuple[int, tuple[str, ...]]:
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
