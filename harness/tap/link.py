"""The gateway's TCP connection, for what ASGI cannot say: break it off."""

from __future__ import annotations

import asyncio
import socket
import struct


class Link:
    """Handed to the application in the ASGI scope as `state["link"]`."""

    __slots__ = ("_transport",)

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def reset(self) -> None:
        """RST: what was not read yet is lost, and nobody can take it for the end of an answer."""
        connection = self._transport.get_extra_info("socket")
        if connection is not None and not self._transport.is_closing():
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def close(self) -> None:
        """FIN, after what was written has gone out."""
        self._transport.close()
