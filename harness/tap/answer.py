"""Finding the answer inside a response body while it streams by: JSON, or server-sent events, plain or gzip, bounded in memory."""

from __future__ import annotations

import zlib
from typing import Any, Protocol

from harness.cassette.events import BLANK_LINE, event_data, with_data
from harness.model.digest import loads_exact

__all__ = ["PARSE_BOUND", "EventReader", "EventSplitter", "JsonReader", "Reader", "event_data", "is_answer", "reader_for", "with_data"]

PARSE_BOUND = 8 * 1024 * 1024
"""Bytes of one JSON body or one event that are kept for parsing; beyond it the answer stays unknown and only its size is logged."""


class EventSplitter:
    """Cuts a byte stream into whole events (each with its blank line), keeping at most one unfinished event."""

    def __init__(self, bound: int = PARSE_BOUND) -> None:
        self._pending = bytearray()
        self._bound = bound
        self._scanned = 0
        self.overflowed = False

    def feed(self, chunk: bytes) -> list[bytes]:
        self._pending += chunk
        events: list[bytes] = []
        while (end := self._event_end()) >= 0:
            events.append(bytes(self._pending[:end]))
            del self._pending[:end]
            self._scanned = 0
        if len(self._pending) > self._bound:
            self.overflowed = True
        return events

    def rest(self) -> bytes:
        """What is left when the stream ends: an event without its blank line."""
        left = bytes(self._pending)
        self._pending.clear()
        self._scanned = 0
        return left

    def _event_end(self) -> int:
        found = BLANK_LINE.search(self._pending, max(0, self._scanned - 2))
        self._scanned = len(self._pending)
        return found.end() if found else -1


def is_answer(message: Any, rpc_id: Any) -> bool:
    """Whether `message` is the JSON-RPC response to the request `rpc_id` (an error with a null id counts: nobody else is asking)."""
    if not isinstance(message, dict) or "method" in message or not ("result" in message or "error" in message):
        return False
    answered = message.get("id")
    return (answered == rpc_id and type(answered) is type(rpc_id)) or (answered is None and "error" in message)


class Reader(Protocol):
    """Sees every chunk once, in order; `finish` returns the answer message (or REST body), or None.

    `complete` is true once the answer is known although the body has not ended.
    """

    @property
    def complete(self) -> bool: ...
    def feed(self, chunk: bytes) -> None: ...
    def finish(self) -> Any: ...


class NullReader:
    """A body that nobody asked a question about, or in a form that carries no JSON."""

    complete = False

    def feed(self, chunk: bytes) -> None:
        pass

    def finish(self) -> Any:
        return None


class JsonReader:
    """A whole JSON body."""

    complete = False

    def __init__(self) -> None:
        self._body = bytearray()
        self._overflowed = False

    def feed(self, chunk: bytes) -> None:
        if self._overflowed:
            return
        self._body += chunk
        if len(self._body) > PARSE_BOUND:
            self._overflowed = True
            self._body.clear()

    def finish(self) -> Any:
        if self._overflowed or not self._body:
            return None
        try:
            return loads_exact(self._body)
        except ValueError:
            return None


class EventReader:
    """An event stream; keeps only the event that answers `rpc_id`."""

    def __init__(self, rpc_id: Any) -> None:
        self._rpc_id = rpc_id
        self._splitter = EventSplitter()
        self._answer: Any = None

    @property
    def complete(self) -> bool:
        return self._answer is not None

    def feed(self, chunk: bytes) -> None:
        if self._splitter.overflowed:
            return
        for event in self._splitter.feed(chunk):
            self._look(event)

    def finish(self) -> Any:
        if self._answer is None:
            self._look(self._splitter.rest())
        return self._answer

    def _look(self, event: bytes) -> None:
        if self._answer is not None or (b'"result"' not in event and b'"error"' not in event):
            return  # progress, logging and pings are not worth parsing
        try:
            message = loads_exact(event_data(event))
        except ValueError:
            return
        if is_answer(message, self._rpc_id):
            self._answer = message


class InflatingReader:
    """A compressed body in front of another reader. Providers are asked for identity; some compress all the same."""

    def __init__(self, inner: Reader) -> None:
        self._inner = inner
        self._inflate = zlib.decompressobj(47)  # gzip or zlib, by its header
        self._left = PARSE_BOUND

    @property
    def complete(self) -> bool:
        return self._inner.complete

    def feed(self, chunk: bytes) -> None:
        if self._left <= 0:
            return
        try:
            plain = self._inflate.decompress(chunk, self._left)
        except zlib.error:
            self._left = 0
            return
        self._left -= len(plain)
        self._inner.feed(plain)

    def finish(self) -> Any:
        return self._inner.finish()


def reader_for(content_type: str, content_encoding: str, rpc_id: Any) -> Reader:
    """The reader for a response with these headers."""
    kind = content_type.partition(";")[0].strip().lower()
    inner: Reader
    if kind == "text/event-stream":
        inner = EventReader(rpc_id) if rpc_id is not None else NullReader()
    elif kind == "application/json" or kind.endswith("+json"):
        inner = JsonReader()
    else:
        return NullReader()
    encoding = content_encoding.strip().lower()
    if encoding in ("", "identity"):
        return inner
    return InflatingReader(inner) if encoding in ("gzip", "deflate", "x-gzip") else NullReader()
