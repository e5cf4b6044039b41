"""The gateway's application inside this process, on a store whose disk can be made to fail or to lose its power."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence

import uvicorn

from reference_gateway.app import Gateway as App
from reference_gateway.app import Options
from reference_gateway.store.sqlite import SqliteStore
from torture._bench import TOKEN, Gateway

VAULT_KEY = "5a" * 32


class Served(Gateway):
    """Where it listens; nothing of it is a process."""

    def __init__(self, port: int) -> None:
        self.operator, self.mcp = f"http://127.0.0.1:{port}/operator/v1", f"http://127.0.0.1:{port}/mcp"


@contextlib.asynccontextmanager
async def served(store: SqliteStore, defects: Sequence[str] = ()) -> AsyncIterator[Served]:
    """From its recovery to its orderly end, as far as its store lets it."""
    logging.getLogger("gateway").setLevel(logging.CRITICAL)  # what fails here is meant to
    app = App(Options(operator_token=TOKEN, allow_loopback=True, vault_key=VAULT_KEY, defects=tuple(defects)), store, lambda: None)
    config = uvicorn.Config(app.asgi(), port=0, log_config=None, log_level="critical", http="h11", ws="none", lifespan="on", access_log=False)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    try:
        if not server.started:
            raise RuntimeError("the gateway did not start")
        yield Served(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        await serving
