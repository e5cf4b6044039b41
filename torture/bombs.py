"""Forty answers that are small on the wire and huge once unpacked, or that never end: each is given up at its bound, for little memory.

A server on loopback sends them; four readers of the gateway's meet each: the bounded reader, a careless caller of the guarded client who
reads everything, the MCP reader, and the event reader. The control is the same client without the guard's transport.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2

from reference_gateway.bounded import gathered, read_bounded
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.events import events
from reference_gateway.lines import LineBroken
from torture.figures import Figures, Scale

LIMIT = 1_000_000
CEILING = 2_000_000
ROOM_MB = 16.0
BLOCK = 1024 * 1024
LOGICAL = 10 * 1024**3


@dataclass(frozen=True, slots=True)
class Bomb:
    name: str
    headers: tuple[str, ...]
    body: Callable[[int], Iterator[bytes]]
    """Bytes on the wire of an answer that unpacks to so many."""


def _deflated(size: int, wbits: int) -> Iterator[bytes]:
    """`size` zero bytes, packed without ever being made: one packed block, over and over."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    yield packer.compress(b"") + packer.flush(zlib.Z_FULL_FLUSH)
    block = (packer.compress(bytes(BLOCK)) + packer.flush(zlib.Z_FULL_FLUSH)) * 16
    for _ in range(max(1, size // BLOCK // 16)):
        yield block
    yield packer.flush()


def _nested(size: int) -> Iterator[bytes]:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    for piece in _deflated(size, 31):
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _empty_blocks(size: int) -> Iterator[bytes]:
    """Packed data that unpacks to nothing, for as long as anybody reads."""
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    yield packer.flush(zlib.Z_SYNC_FLUSH)
    for _ in range(size // 65536):
        yield b"\x00\x00\x00\xff\xff" * 13107


def _zstd(size: int) -> Iterator[bytes]:
    """A frame of run-length blocks, four bytes for 128 KiB each; written by hand, since no library of ours reads it."""
    yield b"\x28\xb5\x2f\xfd\x00\x58"
    for _ in range(min(size // 131072, 100_000)):
        yield ((131072 << 3) | 2).to_bytes(3, "little") + b"\0"
    yield (3).to_bytes(3, "little") + b"\0"


def _plain(size: int) -> Iterator[bytes]:
    for _ in range(size // 65536):
        yield b"x" * 65536


def _zeros_brotli(size: int) -> Iterator[bytes]:
    """What claims to be brotli: whether it is does not matter to whoever refuses it unread."""
    yield b"\x5b\xff\xff\x7f" * 64
    yield bytes(min(size, 1 << 20))


BOMBS = (
    Bomb("gzip", ("content-encoding: gzip",), lambda size: _deflated(size, 31)),
    Bomb("gzip, spelled otherwise", ("Content-Encoding:  X-GZip ",), lambda size: _deflated(size, 31)),
    Bomb("gzip with a small length", ("content-encoding: gzip", "content-length: 9000000"), lambda size: _deflated(size, 31)),
    Bomb("gzip in gzip", ("content-encoding: gzip, gzip",), _nested),
    Bomb("gzip that unpacks to nothing", ("content-encoding: gzip",), _empty_blocks),
    Bomb("deflate", ("content-encoding: deflate",), lambda size: _deflated(size, 15)),
    Bomb("br", ("content-encoding: br",), _zeros_brotli),
    Bomb("zstd", ("content-encoding: zstd",), _zstd),
    Bomb("plain without a length", (), _plain),
    Bomb("plain with a lying length", ("content-length: 99999999999",), _plain),
)


@asynccontextmanager
async def served(bomb: Bomb, size: int, sent: list[int]) -> AsyncIterator[int]:
    """Sends the bomb to whoever asks, until they leave; yields the port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            kind = "content-type: text/event-stream"
            writer.write("\r\n".join(["HTTP/1.1 200 OK", kind, *bomb.headers, "connection: close", "", ""]).encode())
            for piece in bomb.body(size):
                writer.write(piece)
                sent[0] += len(piece)
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # whoever asked has left, which is the point; or all is over
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


Reader = Callable[[Egress, str], Awaitable[int]]
"""Reads the answer there; how many bytes it got before it was told to stop."""


async def _bounded(egress: Egress, url: str) -> int:
    response = await egress.client.send(egress.client.build_request("GET", url), stream=True)
    return len(await read_bounded(response, LIMIT))


async def _careless(egress: Egress, url: str) -> int:
    return len((await egress.client.get(url)).content)


async def _mcp(egress: Egress, url: str) -> int:
    response = await egress.lines.request("POST", url, {}, b"{}")
    try:
        return len(await gathered(response, LIMIT))
    finally:
        response.cut()


async def _events(egress: Egress, url: str) -> int:
    response = await egress.lines.request("POST", url, {}, b"{}")
    try:
        return sum([len(data) async for data in events(response, LIMIT)])
    finally:
        response.cut()


READERS: dict[str, Reader] = {"bounded": _bounded, "careless": _careless, "mcp": _mcp, "events": _events}


async def _unguarded(url: str, most: int) -> int:
    """The control: httpx2 as it comes, stopped by us before it eats the machine."""
    seen = 0
    async with (
        httpx2.AsyncClient(trust_env=False, headers={"accept-encoding": "gzip"}) as client,
        client.stream("GET", url) as response,
    ):
        kept = []
        async for piece in response.aiter_bytes():
            kept.append(piece)
            seen += len(piece)
            if seen > most:
                break
    return seen


def run(scale: Scale) -> list[Figures]:
    size = LOGICAL if scale == "full" else 256 * 1024 * 1024
    outcomes = [asyncio.run(_met(bomb, name, size)) for bomb in BOMBS for name in READERS]
    swallowed = [outcome for outcome in outcomes if outcome.problem]
    control = asyncio.run(_control())
    heaviest = max(outcomes, key=lambda outcome: outcome.grown_mb)
    slowest = max(outcomes, key=lambda outcome: outcome.seconds)
    notes = (
        f"{len(BOMBS)} bombs of {size:,} bytes unpacked, {len(READERS)} readers; bounds {LIMIT:,} and {CEILING:,} bytes",
        f"most memory {heaviest.grown_mb:.1f} MB ({heaviest.bomb}, {heaviest.reader}), allowed {ROOM_MB:g}",
        f"longest {slowest.seconds:.1f} s ({slowest.bomb}, {slowest.reader})",
        *(f"{outcome.bomb}, {outcome.reader}: {outcome.problem}" for outcome in swallowed),
        "control: httpx2 without the guard swallowed more than its bound",
    )
    return [Figures("no bomb is unpacked beyond its bound", len(outcomes), len(swallowed), control, notes)]


@dataclass(frozen=True, slots=True)
class Outcome:
    bomb: str
    reader: str
    grown_mb: float
    seconds: float
    problem: str


async def _met(bomb: Bomb, reader: str, size: int) -> Outcome:
    sent = [0]
    egress = Egress(allow_loopback=True, ceiling=CEILING, total_s=20.0)
    problem = "was read to its end"
    async with served(bomb, size, sent) as port:
        before, began = _weighed(), asyncio.get_running_loop().time()
        try:
            got = await READERS[reader](egress, f"http://127.0.0.1:{port}/")
            problem = f"was read to its end: {got} bytes"
        except (GatewayError, LineBroken, httpx2.HTTPError):
            problem = ""
        grown = (_peak() - before) / 1e6
        seconds = asyncio.get_running_loop().time() - began
        await egress.aclose()
    if not problem and grown > ROOM_MB:
        problem = f"cost {grown:.1f} MB"
    return Outcome(bomb.name, reader, grown, seconds, problem)


async def _control() -> int:
    """How many of the bombs that httpx2 unpacks by itself made it hold more than eight times the bound."""
    held = 0
    for bomb in BOMBS[:1] + BOMBS[8:9]:
        async with served(bomb, 64 * 1024 * 1024, [0]) as port:
            held += await _unguarded(f"http://127.0.0.1:{port}/", 32_000_000) > 8 * LIMIT
    return held


def _weighed() -> int:
    """Bytes of memory held; from here on the peak is counted anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return _held("VmRSS")


def _peak() -> int:
    return _held("VmHWM")


def _held(name: str) -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(re.findall(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)[0]) * 1024
