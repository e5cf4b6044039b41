"""Server-sent events of one answer, as they arrive: the data of each message, bounded, whatever the pieces are cut like."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from reference_gateway.bounded import Decoder, Pieces, TooLarge, decoder

STEP = 64 * 1024
OVERHEAD = 4096
"""Bytes that an event may hold besides its data."""

_END = re.compile(rb"\r\n|\n|\r")
_MARK = b"\xef\xbb\xbf"
_ID = re.compile(rb"[\x21-\x7e]{1,1000}")
_MILLISECONDS = re.compile(rb"[0-9]{1,9}")


@dataclass(slots=True)
class Mark:
    """Where a stream that ended can be taken up again: its last event's id, and the seconds that the other side wants us to wait."""

    id: str | None = None
    retry_s: float = 1.0


async def events(response: Pieces, limit: int, mark: Mark | None = None) -> AsyncIterator[bytes]:
    """The data of each event of type `message` that has any. Raises TooLarge, Undecodable and LineBroken.

    An event that the stream's end cuts off is not one. `mark` is kept up to date.
    """
    unpack: Decoder = decoder(response.headers.get("content-encoding", ""))
    lines, event = _Lines(limit + OVERHEAD), _Event(limit, mark or Mark())
    while (piece := await response.piece()) is not None:
        for start in range(0, len(piece), STEP):
            # What unpacks to more than that would be too large in any case.
            for line in lines.of(unpack.feed(piece[start : start + STEP], limit + 2 * OVERHEAD)):
                if (data := event.line(line)) is not None:
                    yield data
    unpack.end()


class _Lines:
    """Whole lines of what arrives; each byte is looked at once, however it is cut."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        self._half = False
        self._first = True

    def of(self, piece: bytes) -> list[bytes]:
        """Raises TooLarge for a line that does not end."""
        if self._half and piece:
            piece, self._half = piece.removeprefix(b"\n"), False
        if not piece:
            return []
        first, *rest = _END.split(piece)
        self._half = piece.endswith(b"\r")
        self._add(first)
        if not rest:
            return []
        found = [b"".join(self._parts), *rest[:-1]]
        if self._first:
            self._first, found[0] = False, found[0].removeprefix(_MARK)
        self._parts, self._size = [], 0
        self._add(rest[-1])
        return found

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            raise TooLarge(self._limit)
        if part:
            self._parts.append(part)


class _Event:
    def __init__(self, limit: int, mark: Mark) -> None:
        self._limit = limit
        self._mark = mark
        self._data: list[bytes] = []
        self._size = 0
        self._type = b""

    def line(self, line: bytes) -> bytes | None:
        """The data, when this line ends an event that we look for."""
        if not line:
            data, kind = b"\n".join(self._data), self._type
            self._data, self._size, self._type = [], 0, b""
            return data if data and kind in (b"", b"message") else None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            if self._size > self._limit + 1:
                raise TooLarge(self._limit)
        elif name == b"event":
            self._type = value
        elif name == b"id" and _ID.fullmatch(value):
            self._mark.id = value.decode("ascii")
        elif name == b"retry" and _MILLISECONDS.fullmatch(value):
            self._mark.retry_s = int(value) / 1000
        return None
