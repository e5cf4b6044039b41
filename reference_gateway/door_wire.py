"""The gateway's own HTTP: uvicorn over llhttp, stricter where that is lax, and each answer in one packet.

llhttp leaves the blanks after a header's value, sets no bound to a request's head and does not mind a request without Host; an answer's
head and body would leave in two packets, of which a client on the same machine is woken twice.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 * 1024


class Together:
    """A transport that keeps what is written until `flush`, which comes at the end of an answer, or at the loop's next turn."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        if self._parts:
            data, self._parts = b"".join(self._parts), []
            self._transport.write(data)

    def close(self) -> None:
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class DoorWire(HttpToolsProtocol):
    """One connection of an agent, an operator or a browser."""

    _in_head = False
    _head_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._together = Together(transport, self.loop)
        self.transport = cast(asyncio.Transport, self._together)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._in_head:
            self._head_size += len(data)
            if self._head_size > MAX_HEAD and not self.transport.is_closing():
                self.send_400_response("The head of the request does not end.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        self._in_head, self._head_size = False, 0
        if [name for name, _ in self.headers].count(b"host") != 1 and self.parser.get_http_version() != "1.0":
            raise ValueError("a request names its host once")
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        self._together.flush()
        super().on_response_complete()
