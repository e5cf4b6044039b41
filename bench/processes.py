"""Child processes of the benchmark, and what /proc says about them."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
SAMPLE_S = 0.05


class Broken(Exception):
    """The benchmark cannot say anything: an answer was wrong, or a child died."""


@dataclass(frozen=True, slots=True)
class Child:
    """A server that printed its one ready line."""

    process: subprocess.Popen[bytes]
    ready: dict[str, Any]
    ready_after_s: float

    @property
    def pid(self) -> int:
        return self.process.pid

    def cpu_ms(self) -> float:
        """User and system time since it began, in steps of a clock tick."""
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as stat:
            fields = stat.read().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) * TICK_MS

    def rss_mb(self) -> float:
        return float(psutil.Process(self.pid).memory_info().rss) / 1e6


@contextmanager
def server(module: str, *arguments: str, **environment: str) -> Iterator[Child]:
    """`python -m module`, up for as long as the block lasts. Raises Broken when it does not get ready."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise Broken(f"{module} ended with code {process.wait()} before it was ready")
        yield Child(process, json.loads(line), time.perf_counter() - began)
    finally:
        end(process)
        process.stdout.close()


@dataclass(frozen=True, slots=True)
class Gateway:
    child: Child
    token: str

    @property
    def operator(self) -> str:
        return str(self.child.ready["operator"])

    @property
    def mcp(self) -> str:
        return str(self.child.ready["mcp"])


@contextmanager
def gateway() -> Iterator[Gateway]:
    token = secrets.token_hex(24)
    with server("reference_gateway", "--allow-loopback", "--experimental", "memory_connectors", GATEWAY_OPERATOR_TOKEN=token) as child:
        yield Gateway(child, token)


@dataclass(frozen=True, slots=True)
class Finished:
    """A command from its start to its end. `cpu_s` and `peak_mb` are of the command and everything it started, together."""

    code: int
    wall_s: float
    cpu_s: float
    peak_mb: float


def command(arguments: Sequence[str]) -> Finished:
    """Run it to its end, sampling the memory of its whole process tree twenty times a second."""
    before, began = os.times(), time.perf_counter()
    process = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, over = [0.0], threading.Event()
    sampler = threading.Thread(target=_sample, args=(process.pid, peak, over))
    sampler.start()
    code = process.wait()
    wall = time.perf_counter() - began
    over.set()
    sampler.join()
    after = os.times()
    cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Finished(code, wall, cpu, peak[0])


def _sample(pid: int, peak: list[float], over: threading.Event) -> None:
    while not over.wait(SAMPLE_S):
        peak[0] = max(peak[0], tree_mb(pid))


def tree_mb(pid: int) -> float:
    """Resident memory of a process and all its descendants. Pages they share count once for each, so this errs upwards."""
    total = 0.0
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            try:
                total += process.memory_info().rss / 1e6
            except psutil.NoSuchProcess:
                continue
    except psutil.NoSuchProcess:
        pass
    return total


def end(process: subprocess.Popen[bytes]) -> None:
    """Asked first, killed after ten seconds."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
