"""Applications on loopback ports, each in a thread of its own, ended at once and not at uvicorn's next look."""

from __future__ import annotations

import asyncio
import socket
import threading

import uvicorn
from starlette.types import ASGIApp

from reference_gateway.door_wire import DoorWire

GRACE_S = 1


class PromptServer(uvicorn.Server):
    """uvicorn asks itself ten times a second whether it should end, and then waits in tenths of a second: this one is told.

    Several hundred tests have a server of their own.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._leave = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def leave(self) -> None:
        """From any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._leave.set)

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self._leave.wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hang up first: nobody reads any more, and a standing stream would not end before its time. Cancelled is what does not end then."""
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        if tasks := set(self.server_state.tasks):
            _, late = await asyncio.wait(tasks, timeout=GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.lifespan.shutdown()


class Served:
    """An ASGI application on a loopback port of the system's choice, in a thread of its own."""

    def __init__(self, app: ASGIApp) -> None:
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        config = uvicorn.Config(app, http=DoorWire, ws="none", lifespan="auto", log_level="error", log_config=None, timeout_graceful_shutdown=GRACE_S)
        self.server = PromptServer(config)
        self.thread = threading.Thread(target=lambda: asyncio.run(self.server.serve(sockets=[self.socket])), daemon=True)

    def __enter__(self) -> Served:
        self.thread.start()
        waited = threading.Event()
        while not self.server.started and self.thread.is_alive():
            waited.wait(0.005)
        assert self.server.started
        return self

    def __exit__(self, *_: object) -> None:
        self.server.leave()
        self.thread.join(10)
        self.socket.close()
