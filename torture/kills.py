"""kill -9 in the middle of calls under load: nothing acknowledged is lost, nothing is done twice, nothing went out without its intent."""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from reference_gateway.audit import verify
from reference_gateway.store.sqlite import SqliteStore
from torture._bench import Gateway, Person, Provider, call, client, outcome, provider
from torture.figures import Figures, Scale

AT_ONCE = 8
SEED = 20261201
RESTART_S = 3.0


def run(scale: Scale) -> list[Figures]:
    kills = 300 if scale == "full" else 3
    violations, notes = asyncio.run(_killed(kills))
    control, _ = asyncio.run(_killed(2, "drop-audit=call_started"))
    return [Figures("kill -9 mid-call: acknowledged records kept, no duplicate, no dispatch without intent", kills, violations, control, notes)]


async def _killed(kills: int, *defects: str) -> tuple[int, tuple[str, ...]]:
    odds = random.Random(SEED)
    acknowledged: set[str] = set()
    starts: list[float] = []
    with tempfile.TemporaryDirectory(prefix="torture-kills-") as name:
        gateway = Gateway(Path(name), *defects)
        async with provider() as counter:
            try:
                gateway.start()
                async with client() as http:
                    await Person(http, gateway).connect("t", counter, "allowed")
                for number in range(kills):
                    await _load(gateway, number, odds, acknowledged)
                    began = time.monotonic()
                    gateway.start()
                    starts.append(time.monotonic() - began)
            finally:
                gateway.stop()
            return _judged(Path(name), counter, acknowledged, starts)


async def _load(gateway: Gateway, number: int, odds: random.Random, acknowledged: set[str]) -> None:
    """Eight agents call until the gateway dies under them."""
    async with client() as http:
        token = await Person(http, gateway).run("t")

        async def agent(one: int) -> None:
            for turn in range(200):
                name = f"k{number}-{one}-{turn}"
                answer = await call(http, gateway, token, {"id": name, "delay_ms": odds.randrange(4)})
                if outcome(answer) == "success":
                    acknowledged.add(name)
                elif not answer:
                    return

        agents = [asyncio.create_task(agent(one)) for one in range(AT_ONCE)]
        await asyncio.sleep(odds.uniform(0.05, 0.4))  # the moment of death is what is tried
        gateway.kill()
        await asyncio.gather(*agents)


def _judged(folder: Path, counter: Provider, acknowledged: set[str], starts: list[float]) -> tuple[int, tuple[str, ...]]:
    from reference_gateway.canonical import arguments_digest

    store = SqliteStore(folder / "gateway.db")
    store.open()
    try:
        records: list[dict[str, Any]] = []
        while page := store.audit_read(None, after=len(records)):
            records += page
    finally:
        store.close()
    kept: dict[str, Counter[str]] = {}
    for record in records:
        if record["arguments_digest"]:
            kept.setdefault(record["arguments_digest"], Counter())[record["event"]] += 1
    names = {name: [arguments_digest({"id": name, "delay_ms": delay}) for delay in range(4)] for name in {*acknowledged, *counter.seen}}

    def told(name: str, event: str) -> int:
        return sum(kept.get(digest, Counter())[event] for digest in names[name])

    lost = [name for name in acknowledged if told(name, "call_completed") != 1]
    twice = [name for name, count in counter.seen.items() if count > 1]
    silent = [name for name in counter.seen if told(name, "call_started") != 1]
    open_ended = sum(1 for counts in kept.values() if counts["call_started"] != counts["call_completed"] + counts["call_failed"])
    slow = [seconds for seconds in starts if seconds > RESTART_S]
    broken = verify(records)
    notes = (
        f"{len(acknowledged)} calls acknowledged, {sum(counter.seen.values())} dispatched, {len(records)} records",
        f"lost {len(lost)}, done twice {len(twice)}, without intent {len(silent)}, without end {open_ended}, chain problems {len(broken)}",
        f"restarts: slowest {max(starts):.1f} s, {len(slow)} over {RESTART_S:g} s (told, not judged: they depend on what else the machine does)",
    )
    return len(lost) + len(twice) + len(silent) + open_ended + len(broken), notes
