"""Recording: what passes a mount is kept as it passes, in order of arrival, without holding anything up."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Awaitable, Iterable
from typing import Any

from harness.cassette.format import END, Interaction, Outcome
from harness.cassette.sensitive import SESSION_HEADER
from harness.errors import Incomplete
from harness.model.digest import loads_exact
from harness.tap.answer import EventSplitter
from harness.tap.upstream import UPSTREAM_ERRORS, Source

_READABLE = ("", "identity", "gzip", "x-gzip", "deflate")
LISTEN = "subscriptions/listen"
BOUND = 8 * 1024 * 1024
"""Bytes of one answer; a provider that streams for ever is not put on disk."""


class Take:
    """One exchange while it passes."""

    def __init__(self, recorder: Recorder, number: int, method: str, target: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self._recorder = recorder
        self._number = number
        self._method = method
        self._target = target
        self._request_headers = _plain(headers)
        self._response_headers: tuple[tuple[str, str], ...] = ()
        self._status = 0
        self._body = bytearray()
        self._events: EventSplitter | None = None
        self._event = 0
        self._gates: list[tuple[int, int]] = []
        self._outcome: Outcome = "left_open"
        self.request_body: bytearray | None = None
        self.message: Any = None
        self.too_large = False

    def asks(self, body: bytes | None) -> None:
        """The whole body, if it was read before it was passed on; else it comes chunk by chunk."""
        self.request_body = None if body is None else bytearray(body)
        if body:
            try:
                self.message = loads_exact(body)
            except ValueError:
                self.message = None

    def streams(self, chunk: bytes) -> None:
        """A part of a body that is passed on as it comes."""
        self.request_body = bytearray(chunk) if self.request_body is None else self.request_body + chunk

    async def answered_by(self, sending: Awaitable[Source]) -> Source:
        try:
            source = await sending
        except UPSTREAM_ERRORS:
            self._outcome = "broken_off"
            raise
        self._status = source.status
        self._response_headers = _plain(source.headers)
        if self._header("content-type").partition(";")[0].strip().lower() == "text/event-stream":
            self._events = EventSplitter()
        return _Teed(source, self)

    def takes(self, chunk: bytes) -> None:
        if self.too_large or len(self._body) + len(chunk) > BOUND:
            self.too_large = True
            return
        self._body += chunk
        for _ in self._events.feed(chunk) if self._events is not None else ():
            after = self._recorder.latest(self._number, answers_only=not self._stands)
            if after is not None and after > max((gate for _, gate in self._gates), default=-1):
                self._gates.append((self._event, after))
            self._event += 1

    def ends(self, outcome: Outcome) -> None:
        self._outcome = outcome
        after = self._recorder.latest(self._number, answers_only=False) if self._stands and self._events is not None else None
        if after is not None:  # a standing stream that ended too early would be asked for again
            self._gates.append((END, after))

    @property
    def is_answer(self) -> bool:
        """A POST by which the gateway answers a question of the provider's."""
        return isinstance(self.message, dict) and "method" not in self.message and ("result" in self.message or "error" in self.message)

    def finished(self) -> Interaction:
        """Raises Incomplete for an answer that cannot be looked into, and so cannot be searched for secrets."""
        where = f"{self._method} {self._target.partition('?')[0]}"
        if self.too_large:
            raise Incomplete(f"an answer is larger than {BOUND // 1024 // 1024} MiB", where=where, fix="record a scenario that asks for less")
        return Interaction(
            method=self._method,
            target=self._target,
            request_headers=self._request_headers,
            request_body=None if self.request_body is None else bytes(self.request_body),
            status=self._status,
            reason="",
            response_headers=self._response_headers,
            response_body=_decoded(bytes(self._body), self._header("content-encoding").strip().lower(), where),
            outcome=self._outcome,
            gates=tuple(self._gates),
        )

    @property
    def opens_a_session(self) -> bool:
        return bool(self._header(SESSION_HEADER))

    @property
    def _stands(self) -> bool:
        return self._method == "GET" or (isinstance(self.message, dict) and self.message.get("method") == LISTEN)

    def _header(self, name: str) -> str:
        return next((value for known, value in self._response_headers if known == name), "")


class Recorder:
    """Of one mount. Exchanges that a fault of the tap's kept from the provider are not among them."""

    def __init__(self) -> None:
        self._takes: list[Take] = []

    def begin(self, method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Take:
        take = Take(self, len(self._takes), method, target.decode("latin-1"), headers)
        self._takes.append(take)
        return take

    def latest(self, own: int, *, answers_only: bool) -> int | None:
        """The latest exchange that began after `own`: any, or one that answers the provider."""
        later = range(len(self._takes) - 1, own, -1)
        return next((number for number in later if not answers_only or self._takes[number].is_answer), None)

    @property
    def has_session(self) -> bool:
        """Whether the provider gave out a session, which a gateway is to end."""
        return any(take.opens_a_session for take in self._takes)

    def finished(self) -> tuple[Interaction, ...]:
        return tuple(take.finished() for take in self._takes)


class _Teed:
    """A provider's answer that is listened to."""

    def __init__(self, source: Source, take: Take) -> None:
        self.status = source.status
        self.headers = source.headers
        self._source = source
        self._take = take

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._source.chunks():
                self._take.takes(chunk)
                yield chunk
        except UPSTREAM_ERRORS:
            self._take.ends("broken_off")
            raise
        self._take.ends("answered")

    async def aclose(self) -> None:
        await self._source.aclose()


def _plain(headers: Iterable[tuple[bytes, bytes]]) -> tuple[tuple[str, str], ...]:
    return tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in headers)


def _decoded(body: bytes, encoding: str, where: str) -> bytes:
    if encoding not in _READABLE:
        what = f"an answer is encoded as {encoding!r}, which cannot be searched for secrets"
        raise Incomplete(what, where=where, fix="have the provider send it plain")
    if encoding in ("", "identity") or not body:
        return body
    inflate = zlib.decompressobj(47)
    try:
        plain = inflate.decompress(body, BOUND)
    except zlib.error as error:
        raise Incomplete(f"an answer says it is {encoding} and is not: {error}", where=where, fix="mend the provider") from None
    if inflate.unconsumed_tail:
        raise Incomplete("an answer decompresses to more than can be kept", where=where, fix="record a scenario that asks for less")
    return plain
