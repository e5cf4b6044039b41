"""What the guarded client is made of: a backend that dials judged addresses only, and a transport that bounds every answer.

Bounded means: no redirect, a total time from sending to the last byte, and a total size after unpacking, whatever its caller does.
Callers bound it further, on their own clock and with `read_bounded`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Protocol

import httpcore2
import httpx2

from reference_gateway.bounded import TooLarge, decoder
from reference_gateway.egress_lab import Lab, Resolver

MAX_CONNECTIONS = 200
STEP = 64 * 1024


class EgressRefused(httpx2.ConnectError):
    """A connection that was not made, because of where it would have gone. To callers it is a failed connection."""


class Rules(Protocol):
    """What decides where connections may go."""

    def mapped_target(self, host: str) -> tuple[str, int] | None: ...
    def may_dial(self, host: str, address: str) -> bool: ...


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx2's own transport over a pool with our backend, for which httpx2 itself has no argument.

    `total_s`: real seconds that any exchange may take, its last byte included; `ceiling`: bytes that any answer may unpack to.
    """

    def __init__(self, context: ssl.SSLContext, backend: httpcore2.AsyncNetworkBackend, *, total_s: float, ceiling: int) -> None:
        self._total_s = total_s
        self._ceiling = ceiling
        self._pool = httpcore2.AsyncConnectionPool(
            ssl_context=context,
            max_connections=MAX_CONNECTIONS,
            max_keepalive_connections=MAX_CONNECTIONS,
            keepalive_expiry=60.0,
            network_backend=backend,
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        due = asyncio.get_running_loop().time() + self._total_s
        try:
            async with asyncio.timeout_at(due):
                response = await super().handle_async_request(request)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("the exchange took too long", request=request) from error
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        # The unpacked body is what travels on, so nobody further up unpacks it without a bound.
        headers = [(name, value) for name, value in response.headers.raw if name.lower() != b"content-encoding"]
        body = BoundedStream(response.stream, response.headers.get("content-encoding", ""), self._ceiling, due)
        if len(headers) != len(response.headers.raw):
            headers = [(name, value) for name, value in headers if name.lower() != b"content-length"]
        return httpx2.Response(response.status_code, headers=headers, stream=body, extensions={**response.extensions, "bounded": body})


class BoundedStream(httpx2.AsyncByteStream):
    """A body, unpacked, in pieces of at most 64 KiB, of at most `limit` + 1 bytes altogether. Raises TooLarge and Undecodable."""

    def __init__(self, packed: httpx2.AsyncByteStream, encoding: str, limit: int, due: float) -> None:
        self.limit = limit
        """May be lowered before the body is read."""
        self._packed = packed
        self._encoding = encoding
        self._due = due

    async def __aiter__(self) -> AsyncIterator[bytes]:
        unpack, taken, made = decoder(self._encoding), 0, 0
        source = aiter(self._packed)
        while (packed := await self._next(source)) is not None:
            taken += len(packed)
            for start in range(0, len(packed), STEP):
                piece = unpack.feed(packed[start : start + STEP], min(STEP, self.limit + 1 - made))
                while piece:
                    made += len(piece)
                    yield piece
                    if made > self.limit:
                        raise TooLarge(self.limit)
                    piece = unpack.rest(min(STEP, self.limit + 1 - made))
            if taken > self.limit + STEP:  # packed data that unpacks to nothing costs time all the same
                raise TooLarge(self.limit)
        unpack.end()

    async def _next(self, source: AsyncIterator[bytes]) -> bytes | None:
        try:
            async with asyncio.timeout_at(self._due):
                return await anext(source, None)
        except TimeoutError as error:
            raise httpx2.ReadTimeout("the exchange took too long") from error

    async def aclose(self) -> None:
        await self._packed.aclose()


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Resolves a name once, judges every address that it has, and connects to one of those.

    `recheck` is the defect that judges one answer and dials another: the name is resolved again.
    """

    def __init__(
        self,
        rules: Rules,
        lab: Lab | None,
        resolver: Resolver,
        dialler: httpcore2.AsyncNetworkBackend,
        mapped: ssl.SSLContext | None,
        *,
        recheck: bool,
    ) -> None:
        self._rules = rules
        self._lab = lab
        self._resolver = lab.resolve if lab is not None else resolver
        self._mapped_context = mapped
        self._tcp = dialler
        self._recheck = recheck

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        if target := self._rules.mapped_target(host):
            if port != 443:
                raise EgressRefused(f"{host} is mapped for port 443 only")
            stream = await self._tcp.connect_tcp(*target, timeout=timeout, local_address=local_address, socket_options=socket_options)
            return _MappedStream(stream, self._mapped_context)
        failure: Exception = EgressRefused(f"{host} has no address")
        for place in await self.places(host, port):
            try:
                return await self._tcp.connect_tcp(*place, timeout=timeout, local_address=local_address, socket_options=socket_options)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        """Resolved once and judged as a whole: a mixed answer is an attack or an accident, and either way not dialled.

        Raises EgressRefused.
        """
        found = await self._resolved(host, port)
        if not all(self._rules.may_dial(host, address) for address in found):
            raise EgressRefused(f"{host} leads to an address that is not public")
        return await self._resolved(host, port) if self._recheck else found

    async def places(self, host: str, port: int) -> list[tuple[str, int]]:
        """Where to connect to, in order of preference. Raises EgressRefused."""
        judged = [(address, port) for address in await self.addresses(host, port)]
        if self._lab is None:
            return judged
        try:
            return [self._lab.led(*place) for place in judged]
        except ConnectionRefusedError as error:
            raise EgressRefused(f"{host} leads nowhere") from error

    async def _resolved(self, host: str, port: int) -> Sequence[str]:
        try:
            return [host] if _is_literal(host) else list(dict.fromkeys(await self._resolver(host, port)))
        except (OSError, UnicodeError) as error:
            raise EgressRefused(f"{host} cannot be resolved") from error

    async def sleep(self, seconds: float) -> None:
        await self._tcp.sleep(seconds)


class _MappedStream(httpcore2.AsyncNetworkStream):
    """A connection to a mapped host. It alone trusts the development authorities, and it still checks the real name."""

    def __init__(self, stream: httpcore2.AsyncNetworkStream, context: ssl.SSLContext | None) -> None:
        self._stream = stream
        self._context = context

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        return await self._stream.start_tls(self._context or ssl_context, server_hostname, timeout)

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _is_literal(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()
