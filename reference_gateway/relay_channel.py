"""`relay/v1` on the wire: frames, the ticket that opens a channel, and the declaration that answers it."""

from __future__ import annotations

import asyncio
import hmac
import json
import re
import socket
import struct
from dataclasses import dataclass
from typing import Any, Self

from reference_gateway.wire import Json, decode

FRAME_LIMIT = 4_000_000
READABLE = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_HEADER = struct.Struct(">I")


class Refused(Exception):
    """The channel ends here; `code` is told to the other side."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Ticket:
    """Whose channel it is. `channel` is worth nothing anywhere else: no door of the gateway takes it."""

    run: str
    task: str
    channel: str

    def check_hello(self, hello: Json) -> None:
        if hello.get("type") != "hello":
            raise Refused("hello_expected", "the first frame is a hello")
        self.check_run(hello)
        if not _same(hello.get("channel"), self.channel):
            raise Refused("channel_unknown", "this is not the channel of that run")

    def check_run(self, frame: Json) -> None:
        """On every frame: a descriptor that found its way to another run is of no use there."""
        if not _same(frame.get("run"), self.run):
            raise Refused("channel_of_other_run", "this channel belongs to another run")


def _same(given: object, held: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), held.encode())


def declaration(ticket: Ticket, tools: list[Json], session: str, before: str) -> Json:
    """What a place may call from now on. Names that a model could not spell are left out, and said."""
    readable = [tool for tool in tools if isinstance(tool.get("name"), str) and READABLE.fullmatch(tool["name"])]
    return {
        "type": "welcome",
        "protocol": "relay/v1",
        "run": ticket.run,
        "task": ticket.task,
        "session": session,
        "replaces": before or None,
        "unreadable": len(tools) - len(readable),
        "environment": {},
        "tools": readable,
    }


def paired(sock: socket.socket) -> socket.socket:
    """The socket itself, if it is one end of a pair. Raises ValueError for any other, and OSError for one that is not connected.

    A socket of a network, or one with a name, may have been forwarded from anywhere; the ends of a pair are held by whom they were handed to.
    """
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM or sock.getsockname() or sock.getpeername():
        raise ValueError("the channel is one end of a socket pair, and this is another socket")
    return sock


class Channel:
    """Frames over a connected stream socket. Reading raises Refused for what is no frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sending = asyncio.Lock()

    @classmethod
    async def over(cls, sock: socket.socket) -> Self:
        sock.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=sock))

    async def receive(self) -> Json | None:
        """None when the other side is gone, also in the middle of a frame."""
        try:
            (length,) = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
            if not 0 < length <= FRAME_LIMIT:
                raise Refused("frame_size", f"a frame holds 1 to {FRAME_LIMIT} bytes")
            body = await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        try:
            message: Any = decode(body)
        except (ValueError, RecursionError):
            raise Refused("frame_content", "a frame is JSON") from None
        if not isinstance(message, dict):
            raise Refused("frame_content", "a frame is a JSON object")
        return message

    async def send(self, message: Json) -> None:
        body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode("ascii")
        if len(body) > FRAME_LIMIT:
            raise Refused("frame_size", f"a frame holds at most {FRAME_LIMIT} bytes")
        async with self._sending:
            self._writer.write(_HEADER.pack(len(body)) + body)
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()
