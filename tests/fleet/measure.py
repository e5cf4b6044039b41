"""Prints what two workers gain over one, on a process pool and on a Dask cluster, as measured here and now. Fails for no figure.

Both pools stand all the time and take turns over the same servers, so that whatever else the machine does falls on both alike; the
first turn is not counted, since workers start in it.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import distributed

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

from harness.fleet.check import Policy
from harness.fleet.journal import Journal
from harness.fleet.run import FleetRun
from harness.fleet.servers import Server, load_servers
from harness.fleet.workers import Dask, Processes
from tests.fleet.synthetic import write_fleet

SERVERS, TOOLS, SEED, TURNS = 100, 20, 7, 4


@dataclass
class Turns:
    """Seconds of each turn."""

    workers: Any
    seconds: list[float] = field(default_factory=list)

    def take(self, servers: tuple[Server, ...], folder: Path, into: Path) -> None:
        began = time.monotonic()
        with Journal(into, resume=False) as journal:
            FleetRun(servers, Policy(today="2026-06-30"), journal, folder=folder, folders=()).run(self.workers, batch=10)
        self.seconds.append(time.monotonic() - began)


def measured(make: Any, servers: tuple[Server, ...], folder: Path, name: str) -> dict[int, Turns]:
    with ExitStack() as stack:
        found = {size: Turns(stack.enter_context(make(stack, size))) for size in (1, 2)}
        for turn in range(TURNS + 1):
            for size, turns in found.items():
                turns.take(servers, folder, folder / f"{name}-{size}-{turn}")
    for turns in found.values():
        del turns.seconds[0]
    return found


def cluster(stack: ExitStack, size: int) -> Dask:
    made = distributed.LocalCluster(n_workers=size, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1")
    return Dask(stack.enter_context(made).scheduler_address)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = write_fleet(folder, SERVERS, per_server=TOOLS, seed=SEED)
        servers = load_servers(file)
        mix = "60 % unchanged, 20 % cosmetic, 15 % breaking, 5 % recursive"
        say(f"{SERVERS} servers of {TOOLS} tools, one changed tool each ({mix})")
        say(f"seed {SEED}, {TURNS} turns each, {os.cpu_count()} cores")
        for what, make in (("process pool", lambda _, size: Processes(size)), ("Dask cluster", cluster)):
            before = os.getloadavg()[0]
            found = measured(make, servers, folder, what.partition(" ")[0])
            one, two = sum(found[1].seconds), sum(found[2].seconds)
            say(f"{what}: {one:.1f} s with one worker, {two:.1f} s with two, {one / two:.2f} times as fast")
            say(f"    load average {before:.1f} before, {os.getloadavg()[0]:.1f} after")


def say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
