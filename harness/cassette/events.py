"""Server-sent events, as far as a JSON-RPC message stands in them."""

from __future__ import annotations

import re

BLANK_LINE = re.compile(rb"\n\r?\n|\r\r")
"""Line ends are LF, CRLF or CR; CRLF CRLF holds the first form."""


def event_data(event: bytes) -> bytes:
    """The joined `data:` lines of one event."""
    return b"\n".join(line[5:].removeprefix(b" ") for line in event.splitlines() if line.startswith(b"data:"))


def with_data(event: bytes, data: bytes) -> bytes:
    """The same event (its `event:`, `id:` and `retry:` lines kept) carrying other data on one line."""
    kept = [line for line in event.splitlines() if line and not line.startswith(b"data:")]
    return b"\r\n".join([*kept, b"data: " + data, b"", b""])


def split_events(body: bytes) -> list[bytes]:
    """Whole events, each with its blank line; what is left at the end is the last one."""
    events, start = [], 0
    for end in BLANK_LINE.finditer(body):
        events.append(body[start : end.end()])
        start = end.end()
    return [*events, body[start:]] if start < len(body) else events
