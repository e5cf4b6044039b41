"""Kept-alive HTTP/1.1 connections to providers, for what happens at every call.

A general client's layers are about two fifths of what a call costs the gateway (`make bench`), so MCP goes out through this: llhttp
reads the protocol, asyncio has the sockets, and nothing else stands between. Where a connection may go is not decided here: `dial` is the
egress guard's. A request is sent exactly once, whatever happens to its connection.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from reference_gateway.reading import END, Head, Malformed, Piece, Reader, written

Dial = Callable[[str, str, int, Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Scheme, host, port and a maker of protocols: connects one that may go there, TLS included. Raises OSError and GatewayError."""

MAX_AT_ONCE = 200
MAX_IDLE = 200
IDLE_S = 60.0
MARGIN_S = 1.0
"""How long before the other side lets go of a connection we do: a request that meets its end on the way may not be sent again."""
DRAIN_S = 2.0
DRAIN_BYTES = 64 * 1024
HIGH_WATER = 256 * 1024

_TIMEOUT = re.compile(r"\btimeout\s*=\s*\"?([0-9]{1,6})\b", re.IGNORECASE)


class LineBroken(Exception):
    """No connection, or it broke off, or the other side does not speak HTTP."""


@dataclass(frozen=True, slots=True)
class Place:
    scheme: str
    host: str
    port: int
    target: str
    """Path and query, as they go out."""

    @property
    def authority(self) -> str:
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return shown if self.port == {"https": 443, "http": 80}[self.scheme] else f"{shown}:{self.port}"

    @staticmethod
    def of(url: str) -> Place:
        """Of an http(s) URL that was checked before."""
        parts = urlsplit(url)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Place(parts.scheme, parts.hostname or "", parts.port or {"https": 443, "http": 80}[parts.scheme], target)


class _Line(asyncio.Protocol):
    """One connection. `ended` is called once, when it cannot be used any more."""

    def __init__(self, ended: Callable[[_Line], None]) -> None:
        self.answers = Reader()
        self.transport: asyncio.Transport | None = None
        self.lost = False
        self.idle = False
        self._ended = ended
        self._expiry: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._wake: asyncio.Future[None] | None = None
        self._unread = 0
        self._drained: Callable[[_Line], None] | None = None
        self._drain_room = 0
        self._writable = asyncio.Event()
        self._writable.set()

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        if self.idle:  # nobody asked: it would be taken for the answer to whatever is asked next
            self.abort()
            return
        try:
            self.answers.feed(data)
        except Malformed as error:
            self._fail(LineBroken(str(error)))
            return
        if self._drained is not None:
            self._drain(len(data))
            return
        self._unread += len(data)
        if self._unread > HIGH_WATER and self.transport is not None:
            self.transport.pause_reading()
        self._awake()

    def eof_received(self) -> bool:
        self.lost = True
        try:
            self.answers.ended()
        except Malformed as error:
            self._failure = LineBroken(str(error))
        if self._drained is not None:
            self._drain(0)
        self._awake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        if exc is not None and self._failure is None:
            self._failure = LineBroken(type(exc).__name__)
        self._writable.set()
        self._awake()
        self._ended(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _fail(self, failure: Exception) -> None:
        self._failure = failure
        self.abort()
        self._awake()

    def _awake(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # our side

    async def send(self, request: bytes) -> None:
        assert self.transport is not None
        self.answers.start()
        self.transport.write(request)
        if not self._writable.is_set():
            await self._writable.wait()

    async def piece(self) -> Piece:
        """The next thing the other side says. Raises LineBroken."""
        while True:
            if (piece := self.answers.next()) is not None:
                return piece
            if self._failure is not None or self.lost:
                raise self._failure or LineBroken("the connection was closed")
            if self._unread > HIGH_WATER and self.transport is not None:
                self.transport.resume_reading()
            self._unread = 0
            self._wake = asyncio.get_running_loop().create_future()
            try:
                await self._wake
            finally:
                self._wake = None

    @property
    def reusable(self) -> bool:
        return not self.lost and self._failure is None and self.answers.between

    def drain(self, drained: Callable[[_Line], None]) -> None:
        """Nobody reads on, but a little more makes the connection usable again; `drained` is called if it comes soon."""
        self._drained, self._drain_room = drained, DRAIN_BYTES
        if self.transport is not None:
            self.transport.resume_reading()
        self._drain(0)
        if self._drained is not None and not self.lost:
            asyncio.get_running_loop().call_later(DRAIN_S, self._give_up)

    def _drain(self, size: int) -> None:
        self._drain_room -= size
        piece: Piece | None = None
        while piece is not END and (found := self.answers.next()) is not None:
            piece = found
        drained = self._drained
        if self.reusable and drained is not None:
            self._drained = None
            drained(self)
        elif self._drain_room < 0 or piece is END or self.answers.extra:
            self.abort()

    def _give_up(self) -> None:
        if self._drained is not None:
            self.abort()

    def expire_in(self, seconds: float | None) -> None:
        """The connection is cut then, whoever waits for it: a peer that drips bytes would be waited for for ever. None: not any more."""
        if self._expiry is not None:
            self._expiry.cancel()
        late = LineBroken("the exchange took too long")
        self._expiry = asyncio.get_running_loop().call_later(seconds, self._fail, late) if seconds is not None else None

    def abort(self) -> None:
        self.lost = True
        self._drained = None
        self.expire_in(None)
        if self.transport is not None:
            self.transport.abort()


class Response:
    """The head of an answer, and its body in pieces. To be closed whatever happens."""

    def __init__(self, lines: Lines, place: Place, line: _Line, head: Head, standing: bool) -> None:
        self._standing = standing
        self._lines = lines
        self._place = place
        self._line = line
        self._open = True
        self._ended = False
        self.status = head.status
        self.headers = head.headers
        """Names in lower case; of several values the last."""

    async def piece(self) -> bytes | None:
        """The next bytes of the body, None at its end. Raises LineBroken."""
        if self._ended:
            return None
        piece = await self._line.piece()
        if isinstance(piece, bytes):
            return piece
        self._ended = True
        return None

    def close(self) -> None:
        """The connection goes back if the answer was read to its end, or if that end comes soon; else it is cut."""
        if self._open:
            self._open = False
            self._line.expire_in(None)
            self._lines.give_back(self._place, self._line, self._standing, kept_s(self.headers.get("keep-alive", "")))

    def cut(self) -> None:
        """For an answer that nobody wants any more: the other side sees that at once."""
        if self._open:
            self._open = False
            self._lines.forget(self._line, self._standing)


def kept_s(header: str) -> float:
    """How long a connection may wait for its next request, by the Keep-Alive header of its last answer; 0: not at all."""
    found = _TIMEOUT.search(header)
    return IDLE_S if found is None else max(0.0, min(IDLE_S, int(found[1]) - MARGIN_S))


class Requests(Protocol):
    """What asks a provider: the lines themselves, or what puts a credential on each request first."""

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Response: ...


class Lines:
    """All connections of one process, kept by scheme, host and port."""

    def __init__(self, dial: Dial, *, agent: str, total_s: float = 120.0) -> None:
        """`agent` is what we call ourselves in User-Agent; `total_s`: real seconds an exchange may take, unless it stands for as long as it likes."""
        self._dial = dial
        self._total_s = total_s
        self._agent = agent
        self._idle: dict[tuple[str, str, int], list[tuple[_Line, asyncio.TimerHandle]]] = {}
        self.turns = asyncio.Semaphore(MAX_AT_ONCE)
        self._all: set[_Line] = set()

    @property
    def idle(self) -> int:
        """Connections that wait for their next request."""
        return sum(len(kept) for kept in self._idle.values())

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """Sends one request and waits for the head of its answer. Raises LineBroken, and what `dial` raises."""
        place = Place.of(url)
        own = {"host": place.authority, "user-agent": self._agent, "accept-encoding": "identity", "content-length": str(len(body))}
        try:
            request = written(method, place.target, {**own, **headers}.items(), body)
        except (Malformed, UnicodeEncodeError) as error:
            raise LineBroken(f"the request cannot be sent: {error}") from error
        # A stream that stands for hours would keep its turn from those who come and go.
        standing = method == "GET" or headers.get("mcp-method") == "subscriptions/listen"
        if not standing:
            await self.turns.acquire()
        line = None
        try:
            line = self._kept(place) or await self._connected(place)
            if not standing:
                line.expire_in(self._total_s)
            await line.send(request)
            head = await line.piece()
            assert isinstance(head, Head)
            return Response(self, place, line, head, standing)
        except BaseException:
            if line is not None:
                line.abort()
            if not standing:
                self.turns.release()
            raise

    def _kept(self, place: Place) -> _Line | None:
        kept = self._idle.get((place.scheme, place.host, place.port))
        while kept:
            line, expiry = kept.pop()
            expiry.cancel()
            if line.reusable:
                line.idle = False
                return line
            line.abort()
        return None

    async def _connected(self, place: Place) -> _Line:
        made: list[_Line] = []

        def factory() -> asyncio.Protocol:
            made.append(_Line(self._lost))
            return made[-1]

        try:
            await self._dial(place.scheme, place.host, place.port, factory)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise LineBroken(type(error).__name__) from error
        self._all.add(made[-1])
        return made[-1]

    def give_back(self, place: Place, line: _Line, standing: bool, seconds: float) -> None:
        if not standing:
            self.turns.release()
        if line.reusable:
            self._keep(place, line, seconds)
        elif line.lost:
            line.abort()
        else:
            line.drain(lambda drained: self._keep(place, drained, seconds))

    def forget(self, line: _Line, standing: bool) -> None:
        if not standing:
            self.turns.release()
        line.abort()

    def _keep(self, place: Place, line: _Line, seconds: float) -> None:
        kept = self._idle.setdefault((place.scheme, place.host, place.port), [])
        if len(kept) >= MAX_IDLE or not seconds:
            line.abort()
            return
        line.idle = True
        kept.append((line, asyncio.get_running_loop().call_later(seconds, line.abort)))

    def _lost(self, line: _Line) -> None:
        self._all.discard(line)
        for key, kept in list(self._idle.items()):
            for entry in kept:
                if entry[0] is line:
                    entry[1].cancel()
                    kept.remove(entry)
                    break
            if not kept:
                del self._idle[key]

    def close(self) -> None:
        for line in list(self._all):
            line.abort()
