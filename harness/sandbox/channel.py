"""Frames over asyncio, and the witness on the relay's channel: every byte passes through the harness and is kept for the search."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from typing import Any

from harness.sandbox.frames import HEADER, LIMIT, decoded, encoded, length_of

KEPT = 64_000_000
"""Bytes of traffic that are kept for the search; more than this and the search says that it is not whole."""


async def send(sock: socket.socket, message: dict[str, Any], handed: int | None = None) -> None:
    """One frame; `handed` is a descriptor that goes along."""
    data = encoded(message)
    if handed is not None:
        sent = socket.send_fds(sock, [data[:1]], [handed])
        data = data[sent:]
    await asyncio.get_running_loop().sock_sendall(sock, data)


async def receive(sock: socket.socket) -> dict[str, Any] | None:
    """The next frame, None when the other side is gone. Raises Torn."""
    header = await _exactly(sock, HEADER.size)
    if header is None:
        return None
    body = await _exactly(sock, length_of(header))
    return None if body is None else decoded(body)


async def _exactly(sock: socket.socket, size: int) -> bytes | None:
    parts: list[bytes] = []
    loop = asyncio.get_running_loop()
    while size:
        try:
            chunk = await loop.sock_recv(sock, min(size, 65536))
        except ConnectionError:
            return None
        if not chunk:
            return None
        parts.append(chunk)
        size -= len(chunk)
    return b"".join(parts)


class Witnessed:
    """A pair of sockets with the harness in between. `near` goes into the place, `far` to the relay."""

    def __init__(self) -> None:
        self.near, self._near = socket.socketpair()
        self.inode = os.fstat(self.near.fileno()).st_ino
        """By which the kernel names the agent's end."""
        self._far, self.far = socket.socketpair()
        for sock in (self._near, self._far):
            sock.setblocking(False)
        self.traffic = bytearray()
        self.bytes_in = self.bytes_out = 0
        self._pumps: list[asyncio.Task[None]] = []

    def pump(self) -> None:
        """From now on bytes pass. The relay has its end by then: ours is closed, so that its end is seen."""
        self.far.close()
        self._pumps = [asyncio.create_task(self._pump(self._near, self._far, True)), asyncio.create_task(self._pump(self._far, self._near, False))]

    def given(self) -> None:
        """The agent has its end."""
        self.near.close()

    async def _pump(self, source: socket.socket, sink: socket.socket, outward: bool) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError, OSError):
            while chunk := await loop.sock_recv(source, 65536):
                self.bytes_out += len(chunk) if outward else 0
                self.bytes_in += 0 if outward else len(chunk)
                self.traffic += chunk[: max(KEPT - len(self.traffic), 0)]
                await loop.sock_sendall(sink, chunk)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    @property
    def whole(self) -> bool:
        return self.bytes_in + self.bytes_out == len(self.traffic)

    async def close(self) -> None:
        for pump in self._pumps:
            pump.cancel()
        await asyncio.gather(*self._pumps, return_exceptions=True)
        for sock in (self.near, self.far, self._near, self._far):
            sock.close()


__all__ = ["LIMIT", "Witnessed", "receive", "send"]
