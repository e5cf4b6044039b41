"""Reading an answer without letting it grow: at most limit + 1 bytes of it are ever held, compressed or not."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from reference_gateway.errors import GatewayError

if TYPE_CHECKING:
    import httpx2


IDLE_BYTES = 256 * 1024
"""By how much a packed body may outweigh what it unpacks to; more is made to cost time."""


class TooLarge(GatewayError):
    http_status = 502

    def __init__(self, limit: int) -> None:
        super().__init__("mcp_remote_response_too_large", f"the answer is larger than {limit} bytes", fix="ask for less")
        self.limit = limit


class Undecodable(GatewayError):
    """A damaged body, or a content encoding that nobody asked for and that cannot be bounded."""

    http_status = 502

    def __init__(self, what: str) -> None:
        super().__init__("mcp_remote_fetch_failed", what, fix="answer with Content-Encoding identity or gzip")


async def read_bounded(response: httpx2.Response, limit: int) -> bytes:
    """The decoded body, of at most `limit` bytes; the response (sent with `stream=True`) is closed in any case.

    Raises TooLarge as soon as byte limit + 1 is announced or seen, Undecodable, and httpx2's own transport errors.
    """
    try:
        announced = response.headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > limit:
            raise TooLarge(limit)
        if isinstance(stream := response.extensions.get("bounded"), Bound):
            stream.limit = min(stream.limit, limit)  # what the guarded client unpacks itself, it then unpacks no further
        decode = decoder(response.headers.get("content-encoding", ""))
        body = bytearray()
        async for raw in response.aiter_raw():
            body += decode.feed(raw, limit + 1 - len(body))
            if len(body) > limit:
                raise TooLarge(limit)
        decode.end()
        return bytes(body)
    finally:
        await response.aclose()


@runtime_checkable
class Bound(Protocol):
    """A body that holds itself to a limit (`egress_transport.BoundedStream`)."""

    limit: int


class Pieces(Protocol):
    """A body that arrives in pieces, such as `lines.Response`."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Names in lower case."""
        ...

    async def piece(self) -> bytes | None: ...


async def gathered(response: Pieces, limit: int) -> bytes:
    """As `read_bounded`, of a response of our own connections; closing it is left to the caller."""
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > limit:
        raise TooLarge(limit)
    decode = decoder(response.headers.get("content-encoding", ""))
    body = bytearray()
    while (raw := await response.piece()) is not None:
        body += decode.feed(raw, limit + 1 - len(body))
        if len(body) > limit:
            raise TooLarge(limit)
    decode.end()
    return bytes(body)


class Decoder(Protocol):
    def feed(self, raw: bytes, room: int) -> bytes:
        """At most `room` (at least 1) bytes of what `raw` holds; what does not fit is what `rest` gives."""
        ...

    def rest(self, room: int) -> bytes:
        """At most `room` (at least 1) bytes of what is left of what was fed; empty when nothing is. Feeding more forgets it."""
        ...

    def end(self) -> None: ...


class _Identity:
    def __init__(self) -> None:
        self._left = b""

    def feed(self, raw: bytes, room: int) -> bytes:
        self._left = raw
        return self.rest(room)

    def rest(self, room: int) -> bytes:
        piece, self._left = self._left[:room], self._left[room:]
        return piece

    def end(self) -> None:
        pass


class _Gzip:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._fed = False
        self._idle = 0

    def feed(self, raw: bytes, room: int) -> bytes:
        # What does not fit stays inside the compressor, unread: most callers give up at `room` bytes.
        self._fed = self._fed or bool(raw)
        try:
            piece = self._inflate.decompress(raw, room)
        except zlib.error as error:
            raise Undecodable("the answer is damaged gzip data") from error
        self._idle += len(raw) - len(self._inflate.unconsumed_tail) - len(piece)
        if self._idle > IDLE_BYTES:
            raise Undecodable("the gzip stream unpacks to less than it weighs")
        if self._inflate.unused_data:
            raise Undecodable("data follows the end of the gzip stream")
        return piece

    def rest(self, room: int) -> bytes:
        return b"" if self._inflate.eof else self.feed(self._inflate.unconsumed_tail, room)

    def end(self) -> None:
        if self._fed and not self._inflate.eof:
            raise Undecodable("the gzip stream breaks off")


def decoder(encoding: str) -> Decoder:
    """Raises Undecodable."""
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return _Identity()
    if word in ("gzip", "x-gzip"):
        return _Gzip()
    raise Undecodable(f"the answer's content encoding {word[:40]!r} was not asked for")
