"""kill -9 in the middle of calls and approvals under load: nothing acknowledged is lost, nothing is done twice, nothing went out without its
intent, what was cut off is told as unknown, and the gateway is back in under three seconds."""

from __future__ import annotations

import asyncio
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reference_gateway.store.sqlite import SqliteStore
from torture._bench import Gateway, Json, Started, client, provider
from torture._load import Load
from torture.figures import Figures, Scale

SEED = 20261201
RESTART_S = 3.0
SLOW = ("-c", f"import runpy, time; time.sleep({RESTART_S}); runpy.run_module('reference_gateway', run_name='__main__', alter_sys=True)")
"""A gateway that waits before it begins, for the control."""


@dataclass
class Killed:
    """What a number of kills came to."""

    kills: int
    violations: int = 0
    notes: tuple[str, ...] = ()
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)
    restarts: list[Started] = field(default_factory=list)

    def slow(self) -> int:
        return sum(1 for each in self.restarts if each.cpu_s >= RESTART_S or each.alone_s >= RESTART_S)


def run(scale: Scale) -> list[Figures]:
    found = asyncio.run(_killed(300 if scale == "full" else 3))
    control = asyncio.run(_killed(2, ("drop-audit=call_started", "approve-twice")))
    waiting = asyncio.run(_restarted(SLOW))
    return [
        Figures(
            "kill -9 mid-call: acknowledged records kept, no duplicate, no dispatch without intent",
            *(found.kills, found.violations, control.violations, found.notes),
        ),
        Figures(
            "an approved call cut off by kill -9 is told as unknown and never done twice",
            *(found.unknown, len(found.wrong), len(control.wrong), (f"{found.unknown} cut off in {found.kills} kills", *found.wrong[:5])),
        ),
        Figures(f"restart under {RESTART_S:g} s", found.kills, found.slow(), waiting.slow(), _restarts(found.restarts)),
    ]


def _restarts(restarts: Sequence[Started]) -> tuple[str, ...]:
    """Judged are CPU time and what the start would have taken alone on the machine; the clock on the wall is told."""
    cpu, alone, wall = (max(getattr(each, name) for each in restarts) for name in ("cpu_s", "alone_s", "wall_s"))
    return (f"slowest: {cpu:.1f} s of CPU, {alone:.1f} s without waiting for a processor, {wall:.1f} s by the clock",)


async def _killed(kills: int, defects: Sequence[str] = ()) -> Killed:
    found = Killed(kills)
    with tempfile.TemporaryDirectory(prefix="torture-kills-") as name:
        gateway = Gateway(Path(name), *defects)
        async with provider() as counter:
            load = Load(counter, random.Random(SEED))

            async def death() -> None:
                await asyncio.sleep(load.odds.uniform(0.05, 0.4))  # the moment of death is what is tried
                gateway.kill()

            try:
                gateway.start()
                async with client() as http:
                    await load.begin(http, gateway)
                for number in range(kills):
                    async with client() as http:
                        await load.until_death(http, gateway, number, death)
                    found.restarts.append(gateway.start())
                    async with client() as http:
                        await load.after(http, gateway)
            finally:
                gateway.stop()
            found.violations, found.notes = load.judged(_records(Path(name)))
            found.unknown, found.wrong = load.unknown, load.wrong
    return found


async def _restarted(program: tuple[str, ...]) -> Killed:
    """One kill and one start, of another program, of which only the time is judged."""
    with tempfile.TemporaryDirectory(prefix="torture-kills-") as name:
        gateway = Gateway(Path(name))
        gateway.start()
        gateway.kill()
        gateway.program = (sys.executable, *program)
        try:
            return Killed(1, restarts=[gateway.start()])
        finally:
            gateway.stop()


def _records(folder: Path) -> list[Json]:
    store = SqliteStore(folder / "gateway.db")
    store.open()
    try:
        records: list[Json] = []
        while page := store.audit_read(None, after=len(records)):
            records += page
        return records
    finally:
        store.close()
