"""What arrives on one connection to a provider, taken apart by llhttp: the head of each answer, the pieces of its body, its end."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import httptools

MAX_HEAD = 64 * 1024

_NAME = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_VALUE = re.compile(rb"(?:[\x21-\x7e\x80-\xff](?:[\x20-\x7e\x80-\xff\t]*[\x21-\x7e\x80-\xff])?)?")
_TARGET = re.compile(rb"[\x21-\x7e]+")


class Malformed(Exception):
    """Something that is not HTTP, or that HTTP cannot carry."""


@dataclass(frozen=True, slots=True)
class Head:
    """`headers` with names in lower case; of several values the last."""

    status: int
    headers: Mapping[str, str]


class End:
    """An answer is complete."""


END: Final = End()
Piece = Head | bytes | End


class Reader:
    """Answers on one kept connection, each to one request of ours: `start` before it is sent, `feed` what comes, `next` what it was.

    What nobody asked for is noticed (`extra`), never taken for an answer.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._found: deque[Piece] = deque()
        self._headers: dict[str, str] = {}
        self._complete = True
        self._head_size = 0
        self._in_head = False
        self._begun = False
        self._keeps = True
        self.extra = False

    # for the parser

    def on_message_begin(self) -> None:
        if self._complete:
            self.extra = True
        self._headers, self._in_head = {}, True

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.strip(b" \t").decode("latin-1")

    def on_headers_complete(self) -> None:
        self._in_head, self._head_size = False, 0
        if (status := self._parser.get_status_code()) >= 200 and not self.extra:
            self._begun = True
            self._found.append(Head(status, self._headers))

    def on_body(self, body: bytes) -> None:
        if not self.extra:
            self._found.append(body)

    def on_message_complete(self) -> None:
        if self.extra or self._parser.get_status_code() < 200:
            return
        self._keeps = self._parser.should_keep_alive()
        self._end()

    # for the line

    @property
    def between(self) -> bool:
        """Whether nothing is under way and another request may follow."""
        return self._complete and self._keeps and not self.extra and not self._found

    def start(self) -> None:
        self._complete, self._begun, self._keeps = False, False, True

    def feed(self, data: bytes) -> None:
        """Raises Malformed; not for what follows a complete answer, which then is `extra`."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.extra = True
            if not self._complete:
                raise Malformed("that is no HTTP answer") from error
        if self._in_head:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD:
                raise Malformed("the head of the answer does not end")

    def ended(self) -> None:
        """Nothing more will come. That ends an answer that has no other end; Malformed when it cuts one off."""
        self._keeps = False
        if self._complete:
            return
        if self._in_head or not self._begun or {"content-length", "transfer-encoding"} & set(self._headers):
            raise Malformed("the connection was closed")
        self._end()

    def next(self) -> Piece | None:
        """None when more has to arrive first."""
        return self._found.popleft() if self._found else None

    def _end(self) -> None:
        self._complete = True
        self._found.append(END)


def written(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes) -> bytes:
    """One whole request. Raises Malformed for what would not arrive as it was meant, such as a header that holds another one."""
    if not _TARGET.fullmatch(place := target.encode()):
        raise Malformed("the target cannot be sent")
    lines = [b"%s %s HTTP/1.1" % (method.encode("ascii"), place)]
    for name, value in headers:
        sent, said = name.encode(), value.encode()
        if not _NAME.fullmatch(sent) or not _VALUE.fullmatch(said):
            raise Malformed("a header cannot be sent")
        lines.append(b"%s: %s" % (sent, said))
    return b"\r\n".join([*lines, b"", body])
