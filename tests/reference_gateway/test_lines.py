"""Connections to providers: kept, never shared with what nobody asked for, bounded, and dialled only where the guard allows."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from reference_gateway.bounded import TooLarge, gathered
from reference_gateway.egress import Egress, UrlRejected
from reference_gateway.lines import LineBroken, Lines, kept_s
from reference_gateway.wire import UpstreamFailure, exchange

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]


@dataclass
class Served:
    port: int = 0
    connections: int = 0
    requests: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"


@contextlib.asynccontextmanager
async def served(answer: Callable[[int], list[bytes]]) -> AsyncIterator[tuple[Served, Lines]]:
    """`answer` gives the pieces that are written, one after the other, to the n-th request (from 1); an empty piece closes."""
    seen = Served()
    tasks: set[Any] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.connections += 1
        tasks.add(asyncio.current_task())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
                seen.requests.append(head + await reader.readexactly(length))
                for piece in answer(len(seen.requests)):
                    if not piece:
                        break
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                else:
                    continue
                break
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    seen.port = server.sockets[0].getsockname()[1]
    lines = Lines(dial, agent="test")
    try:
        yield seen, lines
    finally:
        lines.close()
        server.close()
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.001)


async def dial(scheme: str, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> object:
    return await asyncio.get_running_loop().create_connection(factory, host, port)


def whole(body: bytes, kind: str = "application/json", status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


async def call(lines: Lines, url: str, number: int) -> Any:
    async def ignore(message: dict[str, Any]) -> None:
        return None

    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {}}
    return (await exchange(lines, url, message, {"content-type": "application/json"}, limit=10_000, on_message=ignore)).result


def event(number: int) -> bytes:
    return chunk(f'event: message\r\ndata: {{"jsonrpc":"2.0","id":{number},"result":{{"n":{number}}}}}\r\n\r\n'.encode())


@pytest.mark.parametrize("how", ["json", "stream, its end in a piece of its own", "stream, all at once"])
def test_one_connection_serves_call_after_call(how: str) -> None:
    def answer(number: int) -> list[bytes]:
        if how == "json":
            return [whole(f'{{"jsonrpc":"2.0","id":{number},"result":{{"n":{number}}}}}'.encode())]
        pieces = [STREAM + event(number), b"0\r\n\r\n"]
        return pieces if "piece" in how else [b"".join(pieces)]

    async def go() -> None:
        async with served(answer) as (seen, lines):
            for number in range(1, 6):
                assert await call(lines, seen.url, number) == {"n": number}
                while not lines.idle:  # the rest of a stream is read by itself
                    await asyncio.sleep(0.001)
            assert (seen.connections, len(seen.requests)) == (1, 5)

    asyncio.run(go())


def test_what_nobody_asked_for_is_not_taken_for_the_next_answer() -> None:
    """A provider that sends a second answer ahead would otherwise answer somebody else's call."""
    planted = whole(b'{"jsonrpc":"2.0","id":2,"result":{"n":"planted"}}')

    def answer(number: int) -> list[bytes]:
        mine = whole(f'{{"jsonrpc":"2.0","id":{number},"result":{{"n":{number}}}}}'.encode())
        return [mine, planted] if number == 1 else [mine]

    async def go() -> None:
        async with served(answer) as (seen, lines):
            assert await call(lines, seen.url, 1) == {"n": 1}
            await asyncio.sleep(0.02)
            assert await call(lines, seen.url, 2) == {"n": 2}
            assert seen.connections == 2

    asyncio.run(go())


@pytest.mark.parametrize(
    "pieces",
    [
        [b""],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc", b""],
        [b"not http at all\r\n\r\n", b""],
        [STREAM + b"5\r\nab", b""],
        [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 1_000_000 + b"\r\n\r\n", b""],
    ],
)
def test_what_breaks_off_is_one_request_and_a_failure(pieces: list[bytes]) -> None:
    async def go() -> None:
        async with served(lambda _: pieces) as (seen, lines):
            with pytest.raises(UpstreamFailure) as failed:
                await call(lines, seen.url, 1)
            assert failed.value.reason == "mcp_remote_fetch_failed"
            assert len(seen.requests) == 1
            assert not lines.idle

    asyncio.run(go())


def test_a_stream_that_goes_on_after_its_answer_costs_its_connection_and_nothing_else() -> None:
    def answer(number: int) -> list[bytes]:
        return [STREAM + event(number), *[chunk(b"x" * 30_000)] * 5] if number == 1 else [whole(b'{"jsonrpc":"2.0","id":2,"result":{}}')]

    async def go() -> None:
        async with served(answer) as (seen, lines):
            assert await call(lines, seen.url, 1) == {"n": 1}
            assert await call(lines, seen.url, 2) == {}
            assert seen.connections == 2

    asyncio.run(go())


def test_bodies_are_bounded_by_what_is_announced_and_by_what_comes() -> None:
    async def go(pieces: list[bytes]) -> None:
        async with served(lambda _: pieces) as (seen, lines):
            response = await lines.request("GET", seen.url, {})
            with pytest.raises(TooLarge):
                await gathered(response, 100)
            response.cut()

    asyncio.run(go([b"HTTP/1.1 200 OK\r\ncontent-length: 101\r\n\r\n"]))
    asyncio.run(go([b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunk(b"x" * 101)]))


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("", 60), ("timeout=5", 4), ("timeout=5, max=100", 4), ("max=3, Timeout = 30", 29), ("timeout=900", 60), ("timeout=1", 0), ("timeout=soon", 60)],
)
def test_a_connection_is_let_go_before_the_other_side_lets_go_of_it(header: str, seconds: float) -> None:
    assert kept_s(header) == seconds


def test_a_connection_that_ends_at_once_is_not_kept() -> None:
    async def go() -> None:
        reply = b"HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-type: application/json\r\ncontent-length: 36\r\n\r\n"
        async with served(lambda number: [reply + b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number]) as (seen, lines):
            assert await call(lines, seen.url, 1) == {}
            assert not lines.idle
            assert await call(lines, seen.url, 2) == {}
            assert seen.connections == 2

    asyncio.run(go())


@pytest.mark.parametrize("headers", [{"x": "a\r\nb: c"}, {"x\r\ny": "z"}, {"x": "\x00"}])
def test_no_header_smuggles_another(headers: dict[str, str]) -> None:
    async def go() -> None:
        async with served(lambda _: [whole(b"{}")]) as (seen, lines):
            with pytest.raises(LineBroken):
                await lines.request("POST", seen.url, headers, b"{}")
            assert seen.requests == []

    asyncio.run(go())


def test_standing_streams_leave_the_turns_to_those_who_come_and_go() -> None:
    async def go() -> None:
        async with served(lambda _: [STREAM]) as (seen, lines):
            lines.turns = asyncio.Semaphore(1)
            standing = [await lines.request("GET", seen.url, {}) for _ in range(3)]
            mine = await lines.request("POST", seen.url, {})
            for response in (*standing, mine):
                response.cut()
            assert not lines.turns.locked()

    asyncio.run(go())


# the guard


async def connected(*_: object, **__: object) -> object:
    raise ConnectionRefusedError


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("https://inside.example/", ["10.0.0.1"]),
        ("https://mixed.example/", ["93.184.216.34", "127.0.0.1"]),
        ("https://nowhere.example/", []),
        ("https://metadata.example/", ["169.254.169.254"]),
    ],
)
def test_no_connection_is_made_to_an_address_that_is_not_public(url: str, addresses: list[str]) -> None:
    dialled: list[object] = []

    async def resolve(host: str, port: int) -> list[str]:
        return addresses

    async def connect(factory: object, address: str, port: int, **more: object) -> object:
        dialled.append(address)
        raise ConnectionRefusedError

    async def go() -> None:
        egress = Egress(resolver=resolve, connector=connect)
        with pytest.raises(LineBroken):
            await egress.lines.request("GET", url, {})
        await egress.aclose()

    asyncio.run(go())
    assert dialled == []


def test_the_judged_address_is_dialled_under_the_real_name_and_a_mapped_host_where_it_is_mapped() -> None:
    dialled: list[tuple[str, int, str | None, bool]] = []

    async def resolve(host: str, port: int) -> list[str]:
        return ["93.184.216.34"]

    async def connect(factory: object, address: str, port: int, *, ssl: ssl.SSLContext, server_hostname: str) -> object:
        dialled.append((address, port, server_hostname, ssl.check_hostname))
        raise ConnectionRefusedError

    async def go() -> None:
        egress = Egress({"mapped.example": ("127.0.0.1", 4443)}, resolver=resolve, connector=connect)
        for url in ("https://public.example/", "https://mapped.example/", "https://mapped.example:8443/"):
            with pytest.raises((LineBroken, UrlRejected)):
                await egress.lines.request("GET", url, {})
        with pytest.raises(UrlRejected):
            await egress.lines.request("GET", "http://public.example/", {})
        await egress.aclose()

    asyncio.run(go())
    assert dialled == [("93.184.216.34", 443, "public.example", True), ("127.0.0.1", 4443, "mapped.example", True)]
