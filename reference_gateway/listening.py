"""The stream on which a provider of the handshake era says what belongs to no request of ours: questions, and news."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from reference_gateway.bounded import TooLarge
from reference_gateway.errors import GatewayError
from reference_gateway.events import Mark, events
from reference_gateway.lines import LineBroken, Requests
from reference_gateway.wire import MAX_RETRY_S, OnMessage, decode

LIMIT = 1_000_000
"""Bytes of one message."""


class Listener:
    """Listens until it is closed, or until the provider says that it has no such stream. What cannot be read is not heard."""

    def __init__(self, http: Requests, url: str, headers: Callable[[], Mapping[str, str]], heard: OnMessage) -> None:
        self._http = http
        self._url = url
        self._headers = headers
        self._heard = heard
        self.opened = asyncio.Event()
        """Set once the provider has said whether there is such a stream."""
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})

    async def _run(self) -> None:
        mark = Mark()
        while await self._once(mark):
            await asyncio.sleep(min(mark.retry_s, MAX_RETRY_S))

    async def _once(self, mark: Mark) -> bool:
        """Whether it is worth listening again."""
        resumed = {"last-event-id": mark.id} if mark.id is not None else {}
        headers = {name: value for name, value in self._headers().items() if name not in ("accept", "content-type")}
        try:
            response = await self._http.request("GET", self._url, {**headers, "accept": "text/event-stream", **resumed})
        except (LineBroken, GatewayError):
            return False
        finally:
            self.opened.set()
        try:
            if response.status != 200 or not response.headers.get("content-type", "").startswith("text/event-stream"):
                return False
            async for text in events(response, LIMIT, mark):
                message = decode(text)
                if isinstance(message, dict):
                    await self._heard(message)
        except TooLarge:
            return False
        except (LineBroken, GatewayError, ValueError):
            return True
        finally:
            response.cut()
        return True
