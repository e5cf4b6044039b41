"""Reading an answer without letting it grow: at most limit + 1 bytes of it are ever held, compressed or not."""

from __future__ import annotations

import zlib

import httpx2

from reference_gateway.errors import GatewayError


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
        decode = _decoder(response.headers.get("content-encoding", ""))
        body = bytearray()
        async for raw in response.aiter_raw():
            body += decode.feed(raw, limit + 1 - len(body))
            if len(body) > limit:
                raise TooLarge(limit)
        decode.end()
        return bytes(body)
    finally:
        await response.aclose()


class _Identity:
    def feed(self, raw: bytes, room: int) -> bytes:
        return raw[:room]

    def end(self) -> None:
        pass


class _Gzip:
    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._fed = False

    def feed(self, raw: bytes, room: int) -> bytes:
        # What does not fit stays inside the compressor, unread: the caller gives up at `room` bytes.
        self._fed = self._fed or bool(raw)
        try:
            piece = self._inflate.decompress(raw, room)
        except zlib.error as error:
            raise Undecodable("the answer is damaged gzip data") from error
        if self._inflate.unused_data:
            raise Undecodable("data follows the end of the gzip stream")
        return piece

    def end(self) -> None:
        if self._fed and not self._inflate.eof:
            raise Undecodable("the gzip stream breaks off")


def _decoder(encoding: str) -> _Identity | _Gzip:
    word = encoding.strip().lower()
    if word in ("", "identity"):
        return _Identity()
    if word in ("gzip", "x-gzip"):
        return _Gzip()
    raise Undecodable(f"the answer's content encoding {word[:40]!r} was not asked for")
