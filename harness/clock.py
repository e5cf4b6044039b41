"""Time as a port. Nothing else in the harness reads a wall clock, so that tests never wait for one."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Seconds and UTC instants; `sleep` returns when that much of *this* clock's time has passed."""

    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class TestClock:
    """Stands still until `advance`; then every sleeper that fell due wakes, in order of its time."""

    __test__ = False  # not a test class, whatever its name says to pytest

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._arrival = asyncio.Event()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), waiter))
        self._arrival.set()
        await waiter

    async def until_sleeping(self) -> None:
        """Returns once somebody waits for this clock, so that moving it cannot come too early."""
        while not any(not waiter.done() for _, _, waiter in self._sleepers):
            self._arrival.clear()
            await self._arrival.wait()

    async def advance(self, seconds: float) -> None:
        """Move on, waking each sleeper at its own instant and letting it run before the next one."""
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, waiter = heapq.heappop(self._sleepers)
            self._elapsed = due
            if not waiter.done():
                waiter.set_result(None)
            await asyncio.sleep(0)
        self._elapsed = end
        await asyncio.sleep(0)
