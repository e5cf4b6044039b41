"""What a provider says outside requests: that a list of its changed, that a resource was updated. Only where an operator asked for it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable

import anyio

from reference_gateway.clock import Clock
from reference_gateway.errors import GatewayError
from reference_gateway.provider import LIST_LIMIT, McpProvider
from reference_gateway.upstream import LISTENING, Era
from reference_gateway.wire import FETCH_FAILED, Json, UpstreamFailure

READY_S = 2.0
PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0


class Hearing:
    """One provider's standing streams: one for each era in which an agent wants to hear."""

    def __init__(self, provider: McpProvider, clock: Clock, news: Callable[[str, Json], None]) -> None:
        self._provider = provider
        self._clock = clock
        self._tasks: dict[Era, asyncio.Task[None]] = {}
        self._uris: frozenset[str] = frozenset()
        self._ready = asyncio.Event()
        self._news = news
        provider.upstream.news = self._heard

    def _heard(self, method: str, params: Json) -> None:
        if method == LISTENING:
            self._ready.set()
        else:
            self._news(method, params)

    async def ready(self) -> None:
        """Until the provider says that it sends what is wanted from now on, or will not; for a while at most."""
        with anyio.move_on_after(READY_S):
            await self._ready.wait()

    def start(self, era: Era, uris: Iterable[str] = ()) -> None:
        """`uris`: resources whose updates are wanted from now on (2026-07-28; an earlier provider is told by resources/subscribe)."""
        wanted = frozenset(uris)
        if era == "modern" and wanted != self._uris:
            self._uris = wanted
            self._stop(era)
        task = self._tasks.get(era)
        if task is None or task.done():
            self._ready = asyncio.Event()
            self._tasks[era] = asyncio.ensure_future(self._modern(self._ready) if era == "modern" else self._legacy())

    def rest(self, era: Era) -> None:
        """Nobody wants to hear in this era for now: the provider is not kept busy with a stream."""
        self._stop(era)

    def _stop(self, era: Era) -> None:
        if (task := self._tasks.pop(era, None)) is not None:
            task.cancel()

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for era in list(self._tasks):
            self._stop(era)
        if tasks:
            await asyncio.wait(tasks)

    async def _legacy(self) -> None:
        with contextlib.suppress(UpstreamFailure, GatewayError):
            session = await self._provider.upstream.session("legacy")
            if session.era == "legacy":
                self._provider.upstream.hear(session)

    async def _modern(self, ready: asyncio.Event) -> None:
        try:
            await self._listen()
        finally:
            ready.set()

    async def _listen(self) -> None:
        pause = PAUSE_S
        while True:
            try:
                session = await self._provider.upstream.session("modern")
                if session.era != "modern":
                    return
                params = {"notifications": _wanted(session.capabilities, self._uris)}
                await self._provider.upstream.request("subscriptions/listen", params, era="modern", limit=LIST_LIMIT)
                pause = PAUSE_S
            except UpstreamFailure as failure:
                if failure.reason != FETCH_FAILED:
                    return  # it answered, and has no such stream
            except GatewayError:
                return
            await self._clock.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_S)


def _wanted(capabilities: Json, uris: frozenset[str]) -> Json:
    kinds = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
    wanted: Json = {key: True for key, kind in kinds.items() if kind in capabilities}
    return {**wanted, **({"resourceSubscriptions": sorted(uris)} if uris else {})}
