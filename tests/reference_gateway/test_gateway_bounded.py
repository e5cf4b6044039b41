"""Answers are read within bounds: exact at the limit, compressed or not, and nothing unfolds beyond it."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from reference_gateway.bounded import TooLarge, Undecodable, read_bounded
from reference_gateway.egress import Egress

LIMIT = 100_000


@asynccontextmanager
async def served(answer: bytes) -> AsyncIterator[int]:
    """An HTTP/1.1 server that answers each request head with these raw bytes and closes; yields its port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client gave up first, which is what some tests are about
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def ok(body: bytes = b"{}", *headers: str) -> bytes:
    lines = ["HTTP/1.1 200 OK", *(headers or (f"content-length: {len(body)}",)), "connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


def read(answer: bytes, limit: int = LIMIT) -> bytes:
    async def run() -> bytes:
        async with served(answer) as port:
            egress = Egress(allow_loopback=True)
            try:
                request = egress.client.build_request("GET", f"http://127.0.0.1:{port}/")
                response = await egress.client.send(request, stream=True)
                try:
                    return await read_bounded(response, limit)
                finally:
                    assert response.is_closed
            finally:
                await egress.aclose()

    return asyncio.run(run())


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


PLAIN = b"x" * LIMIT


@pytest.mark.parametrize(
    "answer",
    [
        ok(PLAIN),
        ok(chunked(PLAIN), "transfer-encoding: chunked"),
        ok(gzip.compress(PLAIN, mtime=0), "content-encoding: gzip"),
        ok(gzip.compress(PLAIN, mtime=0), "content-encoding: X-GZIP"),
        ok(PLAIN, "content-encoding: identity"),
        ok(PLAIN, "x-no-length: 1"),
    ],
)
def test_a_body_of_exactly_the_limit_is_read(answer: bytes) -> None:
    assert read(answer) == PLAIN


@pytest.mark.parametrize(
    "answer",
    [
        ok(PLAIN + b"x"),
        ok(b"", "content-length: 99999999999999999999"),
        ok(chunked(PLAIN + b"x"), "transfer-encoding: chunked"),
        ok(PLAIN + b"x", "x-no-length: 1"),
        ok(gzip.compress(PLAIN + b"x", mtime=0), "content-encoding: gzip"),
    ],
)
def test_one_byte_more_is_too_large(answer: bytes) -> None:
    with pytest.raises(TooLarge) as caught:
        read(answer)
    assert (caught.value.code, caught.value.limit) == ("mcp_remote_response_too_large", LIMIT)


def test_a_compression_bomb_is_stopped_before_it_unfolds() -> None:
    bomb = ok(gzip.compress(bytes(64_000_000), 1, mtime=0), "content-encoding: gzip")
    tracemalloc.start()
    try:
        with pytest.raises(TooLarge):
            read(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 8_000_000


@pytest.mark.parametrize(
    "answer",
    [
        ok(b"not gzip at all", "content-encoding: gzip"),
        ok(gzip.compress(PLAIN, mtime=0)[:-9], "content-encoding: gzip"),
        ok(gzip.compress(b"a", mtime=0) + b"trailing", "content-encoding: gzip"),
        ok(gzip.compress(gzip.compress(b"a"), mtime=0), "content-encoding: gzip, gzip"),
        ok(zlib.compress(b"a"), "content-encoding: deflate"),
        ok(b"a", "content-encoding: br"),
        ok(b"a", "content-encoding: zstd"),
    ],
)
def test_what_cannot_be_decoded_within_bounds_is_refused(answer: bytes) -> None:
    with pytest.raises(Undecodable):
        read(answer)


def test_an_empty_body_is_empty_however_it_is_labelled() -> None:
    assert read(ok(b"")) == b"" == read(ok(b"", "content-length: 0", "content-encoding: gzip"))


def test_a_body_that_breaks_off_is_a_transport_error() -> None:
    with pytest.raises(httpx2.RemoteProtocolError):
        read(ok(b"half", "content-length: 8"))
