"""Work that nobody waits for: a provider told of a cancelled call, a session ended. Bounded, and ended with the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import anyio


class Background:
    """At most `limit` tasks at once, each cut off after `seconds` of real time; what does not fit is dropped."""

    def __init__(self, *, limit: int = 256, seconds: float = 2.0) -> None:
        self._limit = limit
        self._seconds = seconds
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= self._limit:
            work.close()
            return
        task = asyncio.ensure_future(self._bounded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bounded(self, work: Coroutine[Any, Any, None]) -> None:
        with anyio.move_on_after(self._seconds):
            await work

    async def close(self, *, drain: float = 0.0) -> None:
        """Lets what runs finish for up to `drain` seconds of real time, then ends it."""
        tasks = list(self._tasks)
        if tasks and drain:
            await asyncio.wait(tasks, timeout=drain)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
