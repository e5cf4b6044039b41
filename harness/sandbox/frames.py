"""Length-prefixed JSON over a stream socket. Stands inside the sandbox too, so it knows the standard library only."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

LIMIT = 4_000_000
"""Largest frame in bytes; a gateway's largest answer is 1,000,000 and JSON escapes may triple it."""
HEADER = struct.Struct(">I")


class Torn(Exception):
    """The other side sent something that is not a frame, or ended in the middle of one."""


def encoded(message: dict[str, Any]) -> bytes:
    """Raises Torn for a message that is larger than a frame may be."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    if len(body) > LIMIT:
        raise Torn(f"{len(body)} bytes are more than a frame may hold")
    return HEADER.pack(len(body)) + body


def decoded(body: bytes) -> dict[str, Any]:
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise Torn("a frame is not JSON") from None
    if not isinstance(message, dict):
        raise Torn("a frame is not a JSON object")
    return message


def length_of(header: bytes) -> int:
    (length,) = HEADER.unpack(header)
    if not 0 < length <= LIMIT:
        raise Torn(f"a frame of {length} bytes")
    return int(length)


def send(sock: socket.socket, message: dict[str, Any]) -> None:
    sock.sendall(encoded(message))


def receive(sock: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message (None at the end) and the descriptors that came with it."""
    header, handed = b"", []
    while len(header) < HEADER.size:
        chunk, fds, _flags, _address = socket.recv_fds(sock, HEADER.size - len(header), 1)
        handed += fds
        if not chunk:
            if header:
                raise Torn("the channel ended in the middle of a frame")
            return None, handed
        header += chunk
    left, parts = length_of(header), []
    while left:
        chunk = sock.recv(min(left, 65536))
        if not chunk:
            raise Torn("the channel ended in the middle of a frame")
        parts.append(chunk)
        left -= len(chunk)
    return decoded(b"".join(parts)), handed
