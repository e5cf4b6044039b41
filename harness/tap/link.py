"""The gateway's TCP connection, for what ASGI cannot say: break it off."""

from __future__ import annotations

import asyncio
import socket
import struct


class Link:
    """Handed to the application in the ASGI scope as `state["link"]`; `lost` once the connection is gone."""

    __slots__ = ("_socket", "_transport", "lost")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._socket = transport.get_extra_info("socket")
        self.lost = False

    def reset(self) -> None:
        """RST: what was not read yet is lost, and nobody can take it for the end of an answer."""
        if self.lost:
            return
        if self._socket is not None and self._socket.fileno() >= 0:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()

    def close(self) -> None:
        """FIN, after what was written has gone out."""
        if not self.lost:
            self._transport.close()
