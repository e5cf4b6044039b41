"""What bounds the way out whoever uses it: ports, total time, total size, encodings; and a second opinion on which addresses are public."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ssrfguard import Policy, SSRFGuardError

from reference_gateway.addresses import public_address
from reference_gateway.bounded import TooLarge, Undecodable
from reference_gateway.defects import Defects
from reference_gateway.egress import Egress, UrlRejected
from reference_gateway.errors import GatewayError
from reference_gateway.lines import LineBroken

CEILING = 100_000


@pytest.fixture(scope="module")
def oracle() -> Policy:
    return Policy()


# ports


OTHER_PORTS = (1, 22, 25, 80, 444, 6379, 8080, 8443, 65535)


@pytest.fixture(scope="module")
def plain() -> Egress:
    """For rules that need no network; its clients are never used, so it need not be closed."""
    return Egress()


def test_a_port_where_no_provider_is_expected_is_refused(plain: Egress) -> None:
    wider = Egress(ports=OTHER_PORTS)
    for port in OTHER_PORTS:
        with pytest.raises(UrlRejected, match="port"):
            plain.check_url(f"https://mcp.example.com:{port}/mcp")
        wider.check_url(f"https://mcp.example.com:{port}/mcp")


def test_a_port_is_judged_on_both_clients_too() -> None:
    async def run() -> None:
        egress = Egress()
        with pytest.raises(UrlRejected):
            await egress.client.get("https://mcp.example.com:8443/")
        with pytest.raises(UrlRejected):
            await egress.lines.request("GET", "https://mcp.example.com:8443/", {})
        await egress.aclose()

    asyncio.run(run())


# time and size


@asynccontextmanager
async def served(pieces: Callable[[], AsyncIterator[bytes]]) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            async for piece in pieces():
                writer.write(piece)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client gave up, which is what is tested
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def whole(body: bytes, *headers: str) -> Callable[[], AsyncIterator[bytes]]:
    async def pieces() -> AsyncIterator[bytes]:
        yield "\r\n".join(["HTTP/1.1 200 OK", *headers, "connection: close", "", ""]).encode() + body

    return pieces


def never(*parts: bytes) -> Callable[[], AsyncIterator[bytes]]:
    async def pieces() -> AsyncIterator[bytes]:
        for part in parts:
            yield part
        await asyncio.Event().wait()

    return pieces


def careless(pieces: Callable[[], AsyncIterator[bytes]], **options: Any) -> httpx2.Response:
    """Read by somebody who bounds nothing."""

    async def run() -> httpx2.Response:
        async with served(pieces) as url:
            egress = Egress(allow_loopback=True, ceiling=CEILING, **options)
            try:
                return await egress.client.get(url)
            finally:
                await egress.aclose()

    return asyncio.run(run())


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n"


@pytest.mark.parametrize("parts", [(), (b"HTTP/1.1 200 OK\r\n",), (HEAD,), (HEAD, b"{")])
def test_an_answer_that_never_ends_is_given_up_in_real_time(parts: tuple[bytes, ...]) -> None:
    with pytest.raises(httpx2.ReadTimeout):
        careless(never(*parts), total_s=0.05)

    async def run() -> None:
        async with served(never(*parts)) as url:
            egress = Egress(allow_loopback=True, total_s=0.05)
            with pytest.raises(LineBroken, match="too long"):
                await whole_of(egress, url)
            await egress.aclose()

    asyncio.run(run())


async def whole_of(egress: Egress, url: str) -> None:
    response = await egress.lines.request("POST", url, {}, b"{}")
    while await response.piece() is not None:
        pass


def test_who_reads_everything_gets_no_more_than_the_ceiling() -> None:
    assert careless(whole(b"x" * CEILING)).content == b"x" * CEILING
    for body, headers in ((b"x" * (CEILING + 1), ()), (gzip.compress(bytes(CEILING + 1)), ("content-encoding: gzip",))):
        with pytest.raises(TooLarge):
            careless(whole(body, *headers))


def test_what_is_packed_arrives_unpacked_and_once() -> None:
    response = careless(whole(gzip.compress(b'{"a": 1}'), "content-encoding: gzip", "content-type: application/json"))
    assert response.json() == {"a": 1}
    assert "content-encoding" not in response.headers


@pytest.mark.parametrize("encoding", ["br", "zstd", "deflate", "gzip, gzip", "gzip, br", "identity, gzip", "x-unknown"])
def test_an_encoding_that_nobody_asked_for_is_refused_unread(encoding: str) -> None:
    with pytest.raises(Undecodable):
        careless(whole(b"\x1f\x8b" + bytes(100), f"content-encoding: {encoding}"))


def test_packed_data_that_unpacks_to_nothing_is_given_up() -> None:
    empty = b"\x00\x00\x00\xff\xff" * 80_000
    with pytest.raises((TooLarge, Undecodable)):
        careless(whole(gzip.compress(b"", mtime=0)[:10] + empty, "content-encoding: gzip"))


def test_a_redirect_is_not_followed_and_the_defect_would_follow_it() -> None:
    seen: list[bytes] = []

    async def turn(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        writer.write(b"HTTP/1.1 307 Turn\r\nlocation: /elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    async def run(*defects: str) -> None:
        async with await asyncio.start_server(turn, "127.0.0.1", 0) as server:
            egress = Egress(allow_loopback=True, defects=Defects(defects))
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
            (await egress.lines.request("POST", url, {}, b"{}")).cut()
            await egress.aclose()

    asyncio.run(run())
    assert seen == [b"/mcp"]
    asyncio.run(run("redirect-followed"))
    assert seen == [b"/mcp", b"/mcp", b"/elsewhere"]


# a second opinion


def words(table: str) -> list[str]:
    return table.split()



SPECIAL = words("""
    0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 169.254.169.254 172.16.0.1 192.0.0.1 192.0.2.1 192.168.0.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1
    240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::1 100::1 2001::1 2001:db8::1
    2002:7f00:1:: fc00::1 fe80::1 fec0::1 ff02::1
""")


@pytest.mark.parametrize("address", SPECIAL)
def test_both_refuse_what_is_special(oracle: Policy, address: str) -> None:
    assert not public_address(address)
    assert not oracle.permits_address(address)


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6) | st.integers(0, 2**32 - 1).map(lambda n: IPv6Address((0xFFFF << 32) | n)))
@example(IPv4Address("168.63.129.16"))
@example(IPv6Address("2001:20::1"))
def test_what_we_call_public_the_oracle_does_too(address: IPv4Address | IPv6Address) -> None:
    """We are the stricter ones: a cloud's host service and ORCHID addresses, for example, it lets pass."""
    if public_address(str(address)):
        assert Policy().permits_address(address)


@given(st.sampled_from([8, 34, 52, 104, 151, 185]), st.integers(1, 2**24 - 1))
def test_ordinary_addresses_are_public_to_both(first: int, rest: int) -> None:
    address = ip_address((first << 24) | rest)
    assert public_address(str(address)) == Policy().permits_address(address)


@pytest.mark.parametrize(
    "host", ["2130706433", "0177.0.0.1", "127.1", "0", "①②⑦.0.0.1", "１２７.0.0.1", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]"]
)
def test_both_refuse_a_disguise(oracle: Policy, plain: Egress, host: str) -> None:
    for refuses in (plain.check_url, oracle.check_url):
        with pytest.raises((GatewayError, SSRFGuardError)):
            refuses(f"https://{host}/")
