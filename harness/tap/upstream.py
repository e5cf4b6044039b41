"""The way on to the provider: one connection pool for the whole tap, below the HTTP client's conveniences.

A proxy wants the raw header list, no redirects, no cookies, no decoding and no header of its own; that is the pool, not the client.
Nothing is ever retried: a second request would be a second call.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterable
from urllib.parse import urlsplit

import httpcore2

from harness.errors import UsageError

UPSTREAM_ERRORS = (httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.TimeoutException)
"""What a broken or missing provider raises."""

_TIMEOUTS = {"timeout": {"connect": 10.0, "read": None, "write": None, "pool": None}}
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
        self.origin = f"{parts.scheme}://{self.netloc.decode()}{parts.path.rstrip('/')}"

    def target(self, path: bytes, query: bytes) -> bytes:
        """The request target for a raw path below the mount."""
        return (self.base + path or b"/") + (b"?" + query if query else b"")


class Pool:
    """Keeps connections to all providers. The TLS context for https providers is made once, when first needed (it costs ~50 CPU-ms)."""

    def __init__(self) -> None:
        self._plain = _new_pool(None)
        self._secure: httpcore2.AsyncConnectionPool | None = None

    async def send(
        self,
        upstream: Upstream,
        method: str,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        content: bytes | AsyncIterable[bytes] | None,
    ) -> httpcore2.Response:
        """The response with its body still to be streamed; the caller closes it. Raises UPSTREAM_ERRORS."""
        url = httpcore2.URL(scheme=upstream.scheme, host=upstream.host, port=upstream.port, target=target)
        request = httpcore2.Request(method, url, headers=headers, content=content, extensions=_TIMEOUTS)
        return await self._pool_for(upstream).handle_async_request(request)

    async def aclose(self) -> None:
        await self._plain.aclose()
        if self._secure is not None:
            await self._secure.aclose()

    def _pool_for(self, upstream: Upstream) -> httpcore2.AsyncConnectionPool:
        if upstream.scheme == "http":
            return self._plain
        if self._secure is None:
            self._secure = _new_pool(ssl.create_default_context())
        return self._secure


def _new_pool(context: ssl.SSLContext | None) -> httpcore2.AsyncConnectionPool:
    return httpcore2.AsyncConnectionPool(
        ssl_context=context, max_connections=None, max_keepalive_connections=64, keepalive_expiry=_KEEPALIVE_S, retries=0
    )
