"""The gateway's only source of time. Every timeout and every expiry runs on it, so that a test moves time instead of waiting."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Protocol

import anyio


class Timer:
    """A callback that will run once, unless cancelled first. `done` is set when what it started has run its course."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False
        self.done = asyncio.Event()
        self.handle: asyncio.TimerHandle | None = None

    def cancel(self) -> None:
        self.cancelled = True
        self.done.set()
        if self.handle is not None:
            self.handle.cancel()

    def run(self) -> None:
        if not self.cancelled:
            self.callback()


class Clock(Protocol):
    """Seconds and UTC instants of *this* clock."""

    @property
    def is_test(self) -> bool: ...
    def now(self) -> datetime: ...
    def monotonic(self) -> float: ...
    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], None], *, lasting: bool = False) -> Timer:
        """Run `callback` when `seconds` of this clock have passed. `lasting`: its effect ends only when the timer is cancelled."""
        ...


class SystemClock:
    is_test = False

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None], *, lasting: bool = False) -> Timer:
        timer = Timer(callback)
        timer.handle = asyncio.get_running_loop().call_later(max(seconds, 0.0), timer.run)
        return timer


class TestClock:
    """Stands still until `advance`, which lets each timer run at its own instant, in order, before the next one."""

    __test__ = False  # not a test class, whatever its name says to pytest
    is_test = True

    # A cancelled call may have to tell its provider so before it ends; that is network time, not clock time.
    SETTLE_SECONDS = 5.0

    def __init__(self, start: datetime | None = None) -> None:
        self._start = start or datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = timedelta(0)
        self._order = itertools.count()
        self._timers: list[tuple[timedelta, int, Timer, bool]] = []

    def now(self) -> datetime:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed.total_seconds()

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None], *, lasting: bool = False) -> Timer:
        timer = Timer(callback)
        heapq.heappush(self._timers, (self._elapsed + timedelta(seconds=max(seconds, 0.0)), next(self._order), timer, lasting))
        return timer

    async def advance(self, seconds: float) -> None:
        """Move on; returns after everything that fell due has run its course."""
        end = self._elapsed + timedelta(seconds=seconds)
        while self._timers and self._timers[0][0] <= end:
            due, _, timer, lasting = heapq.heappop(self._timers)
            if timer.cancelled:
                continue
            self._elapsed = max(self._elapsed, due)
            timer.run()
            if lasting:
                with anyio.move_on_after(self.SETTLE_SECONDS):
                    await timer.done.wait()
            await _yield()
        self._elapsed = end
        await _yield()


async def _yield() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Deadline:
    """`with Deadline(clock, 10) as deadline:` cuts its body off when the time is up, and then `deadline.expired` is true."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._scope = anyio.CancelScope()
        self._timer: Timer | None = None
        self._fired = False

    @property
    def expired(self) -> bool:
        return self._fired and self._scope.cancelled_caught

    def _fire(self) -> None:
        self._fired = True
        self._scope.cancel()

    def __enter__(self) -> Deadline:
        self._scope.__enter__()
        self._timer = self._clock.call_later(self._seconds, self._fire, lasting=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        if self._timer is not None:
            self._timer.cancel()
        return bool(self._scope.__exit__(kind, error, trace))
