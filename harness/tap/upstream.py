"""The way on to the provider: kept connections for the whole tap, below an HTTP client's conveniences.

A proxy wants the raw header list, no redirects, no cookies, no decoding and no header of its own, so it uses the HTTP client's
connection class and not the client. The client's own pool is left out because it polls every idle socket on every request, which cost
more than the rest of the exchange; here the event loop says when an idle connection has ended.
Nothing is ever retried: a second request would be a second call.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpcore2
from httpcore2 import ProtocolError

from harness.errors import UsageError

__all__ = ["UPSTREAM_ERRORS", "Answer", "Pool", "ProtocolError", "Source", "Upstream"]

UPSTREAM_ERRORS = (httpcore2.NetworkError, ProtocolError)
"""What a broken or missing provider raises."""

_CONNECT_S = 10.0
_MAX_IDLE = 64
# Servers close idle connections after some seconds (5 is common), and a request that races with that is lost; we close first.
_KEEPALIVE_S = 2.0


class Upstream:
    """Where a mount's requests go: scheme, host, port and a base path."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise UsageError(f"{url!r} is not an upstream", fix="give http://HOST:PORT or https://HOST, with a base path at most")
        self.scheme = parts.scheme
        self.host = parts.hostname
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self.netloc = parts.netloc.rpartition("@")[2].encode()
        self.base = parts.path.rstrip("/").encode()
        self.key = f"{self.scheme}://{self.host}:{self.port}".encode()
        self.origin = f"{parts.scheme}://{self.netloc.decode()}{parts.path.rstrip('/')}"

    def target(self, path: bytes, query: bytes) -> bytes:
        """The request target for a raw path below the mount."""
        return (self.base + path or b"/") + (b"?" + query if query else b"")


class Pool:
    """Keeps connections to all providers. The TLS context for https providers is made once, when first needed (it costs ~50 CPU-ms)."""

    def __init__(self) -> None:
        self._idle: dict[bytes, list[_Kept]] = {}
        self._context: ssl.SSLContext | None = None

    async def send(
        self, upstream: Upstream, method: str, target: bytes, headers: list[tuple[bytes, bytes]], content: bytes | AsyncIterable[bytes]
    ) -> Answer:
        """The response with its body still to be streamed; the caller closes it. Raises UPSTREAM_ERRORS."""
        url = httpcore2.URL(scheme=upstream.scheme, host=upstream.host, port=upstream.port, target=target)
        kept = self._take(upstream.key) or await self._connect(upstream, url.origin)
        response = await kept.connection.handle_async_request(httpcore2.Request(method, url, headers=headers, content=content))
        return Answer(response, kept, self)

    def give_back(self, kept: _Kept) -> None:
        """Keep the connection for the next request, if it can carry one."""
        idle = self._idle.setdefault(kept.key, [])
        if kept.connection.is_idle() and len(idle) < _MAX_IDLE:
            kept.since = asyncio.get_running_loop().time()
            idle.append(kept)
        else:
            kept.stream.close()

    def close(self) -> None:
        for idle in self._idle.values():
            for kept in idle:
                kept.stream.close()
        self._idle.clear()

    def _take(self, key: bytes) -> _Kept | None:
        idle = self._idle.get(key, [])
        oldest = asyncio.get_running_loop().time() - _KEEPALIVE_S
        while idle:
            kept = idle.pop()
            if kept.since >= oldest and not kept.stream.ended:
                return kept
            kept.stream.close()
        return None

    async def _connect(self, upstream: Upstream, origin: httpcore2.Origin) -> _Kept:
        if upstream.scheme == "https" and self._context is None:
            self._context = ssl.create_default_context()
        context = self._context if upstream.scheme == "https" else None
        try:
            async with asyncio.timeout(_CONNECT_S):
                reader, writer = await asyncio.open_connection(upstream.host, upstream.port, ssl=context)
        except OSError as problem:  # TimeoutError and ssl.SSLError are among them
            raise httpcore2.ConnectError(str(problem)) from problem
        return _Kept(upstream.key, origin, _Stream(reader, writer))


class _Stream(httpcore2.AsyncNetworkStream):
    """asyncio's streams as the connection class wants them. Its timeouts are not used: a provider may take its time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def ended(self) -> bool:
        return self._reader.at_eof() or self._writer.is_closing()

    def close(self) -> None:
        self._writer.transport.abort()

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return await self._reader.read(max_bytes)
        except OSError as problem:
            raise httpcore2.ReadError(str(problem)) from problem

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            self._writer.write(buffer)
            await self._writer.drain()
        except OSError as problem:
            raise httpcore2.WriteError(str(problem)) from problem

    async def aclose(self) -> None:
        self.close()

    def get_extra_info(self, info: str) -> Any:
        return None


class _Kept:
    """A connection, and since when it is idle."""

    __slots__ = ("connection", "key", "since", "stream")

    def __init__(self, key: bytes, origin: httpcore2.Origin, stream: _Stream) -> None:
        self.key = key
        self.stream = stream
        self.since = 0.0
        self.connection = httpcore2.AsyncHTTP11Connection(origin, stream)


class Source(Protocol):
    """An answer whose body is still to come: a provider's, or a recorded one."""

    @property
    def status(self) -> int: ...
    @property
    def headers(self) -> list[tuple[bytes, bytes]]: ...
    def chunks(self) -> AsyncIterator[bytes]: ...
    async def aclose(self) -> None: ...


class Answer:
    """A provider's response: status, headers as sent, and the body as it comes."""

    def __init__(self, response: httpcore2.Response, kept: _Kept, pool: Pool) -> None:
        self.status = response.status
        self.headers: list[tuple[bytes, bytes]] = response.headers
        self._response = response
        self._kept = kept
        self._pool = pool

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, undecoded. Raises UPSTREAM_ERRORS when it breaks off."""
        return self._response.aiter_stream()

    async def aclose(self) -> None:
        await self._response.aclose()
        self._pool.give_back(self._kept)
