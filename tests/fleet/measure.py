"""Prints what two workers gain over one, on a process pool and on a Dask cluster, as measured here and now. Fails for no figure."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import distributed

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script

from harness.fleet.check import Policy
from harness.fleet.journal import Journal
from harness.fleet.run import FleetRun
from harness.fleet.servers import load_servers
from harness.fleet.workers import Dask, Processes
from tests.fleet.synthetic import write_fleet

SERVERS, TOOLS, SEED = 400, 20, 7


def seconds(file: Path, folder: Path, workers: Any) -> float:
    began = time.monotonic()
    with Journal(folder, resume=False) as journal, workers:
        FleetRun(load_servers(file), Policy(today="2026-06-30"), journal, folder=file.parent, folders=()).run(workers)
    return time.monotonic() - began


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = write_fleet(folder, SERVERS, per_server=TOOLS, seed=SEED)
        figures: dict[str, list[float]] = {"process pool": [], "Dask cluster": []}
        for size in (1, 2):
            figures["process pool"].append(seconds(file, folder / f"pool-{size}", Processes(size)))
            with distributed.LocalCluster(n_workers=size, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1") as made:
                figures["Dask cluster"].append(seconds(file, folder / f"dask-{size}", Dask(made.scheduler_address)))
    mix = "60 % unchanged, 20 % cosmetic, 15 % breaking, 5 % recursive"
    sys.stdout.write(f"{SERVERS} servers of {TOOLS} tools, one changed tool each ({mix}), seed {SEED}, {os.cpu_count()} cores\n")
    for what, (one, two) in figures.items():
        sys.stdout.write(f"{what}: {one:.1f} s with one worker, {two:.1f} s with two, {one / two:.2f} times as fast\n")


if __name__ == "__main__":
    main()
