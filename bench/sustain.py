"""A steady load, offered whether or not the last call was answered: no error, every answer right, every call whole in the audit."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from bench.calls import TENANT, Load, counter, started
from bench.processes import Broken
from bench.wire import MODERN, ask

AGENTS = 64


@dataclass(frozen=True)
class Sustained:
    """Milliseconds are of wall time, from the moment at which a call was due. `records`: audit records of those calls, by event."""

    calls: int
    wanted_per_second: float
    per_second: float
    p50_ms: float
    p99_ms: float
    gateway_cpu_ms: float
    errors: int
    records: dict[str, int]
    gaps: int
    fsyncs_per_second: float

    @property
    def complete(self) -> bool:
        return self.gaps == 0 and all(self.records.get(event) == self.calls for event in ("policy_decision", "call_started", "call_completed"))


async def sustain(per_second: float, seconds: float) -> Sustained:
    with started() as (fake, door):
        async with counter(fake.ready["url"]) as (counted, _):
            load = Load(fake, door, str(fake.ready["url"]))
            await load.prepare(counted)
            return await _steady(load, per_second, seconds)


async def _steady(load: Load, per_second: float, seconds: float) -> Sustained:
    agents = [load.agent("mem0", MODERN) for _ in range(AGENTS)]
    for agent in agents:
        await agent.__aenter__()
    free: asyncio.Queue[Any] = asyncio.Queue()
    for agent in agents:
        free.put_nowait(agent)
    took: list[float] = []
    errors = 0
    cpu = load.door.child.cpu_ms()

    async def one(due: float) -> None:
        nonlocal errors
        agent = await free.get()
        try:
            await load.call(agent, "mem0")
            took.append(time.perf_counter() - due)
        except (Broken, OSError, ValueError, KeyError, asyncio.IncompleteReadError):
            errors += 1
        finally:
            free.put_nowait(agent)

    total, began = int(per_second * seconds), time.perf_counter()
    tasks: list[asyncio.Task[None]] = []
    for number in range(total):
        due = began + number / per_second
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        tasks.append(asyncio.create_task(one(due)))
    await asyncio.gather(*tasks)
    wall = time.perf_counter() - began
    spent = (load.door.child.cpu_ms() - cpu) / total
    for agent in agents:
        await agent.__aexit__()
    records, gaps = await _audit(load)
    ordered = sorted(took)
    p99 = ordered[int(len(ordered) * 0.99) - 1] if ordered else float("nan")
    p50 = statistics.median(ordered) if ordered else float("nan")
    return Sustained(total, per_second, total / wall, p50 * 1000, p99 * 1000, spent, errors, records, gaps, fsyncs())


async def _audit(load: Load) -> tuple[dict[str, int], int]:
    """Records of calls on the connection under load, and how many sequence numbers are missing in the whole log."""
    counts: Counter[str] = Counter()
    after = gaps = 0
    while True:
        page = (await ask(load.door.operator, load.door.token, "GET", f"/tenants/{TENANT}/audit?after={after}"))["records"]
        if not page:
            return dict(counts), gaps
        for record in page:
            gaps += record["seq"] != after + 1
            after = record["seq"]
            if record["connection"] == "mem0" and record["invocation"] is not None:
                counts[record["event"]] += 1


def fsyncs(seconds: float = 1.0) -> float:
    """How often a second this disk makes 400 bytes durable: nothing that waits for it can be faster."""
    with tempfile.TemporaryFile() as file:
        began, done = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            file.write(b"x" * 400)
            file.flush()
            os.fsync(file.fileno())
            done += 1
        return done / (time.perf_counter() - began)
