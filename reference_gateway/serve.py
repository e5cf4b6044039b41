"""The process: a socket bound early, a server on it, one line when it is ready, an orderly end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator

import uvicorn

from reference_gateway import __version__
from reference_gateway.app import Gateway, Options, opened_store, watch_stdin
from reference_gateway.control import PREFIX
from reference_gateway.door_wire import DoorWire
from reference_gateway.errors import GatewayError
from reference_gateway.log import configure
from reference_gateway.store.base import Store

GRACE_S = 1
"""How long what is under way may take to end."""


class _Server(uvicorn.Server):
    """uvicorn asks itself ten times a second whether it should end, and then waits in tenths of a second; this one is told."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.leave = asyncio.Event()

    async def main_loop(self) -> None:
        while not self.leave.is_set():
            await self.on_tick(0)  # the date that answers carry
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.leave.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # Our own handlers stand; the library's would raise the signal again after a clean end, and so spoil the exit code.
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Requests that outlast the end are cut off, which is meant; the library would report each with a traceback.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        for server in self.servers:
            server.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(GRACE_S):
                while self.server_state.connections or self.server_state.tasks:
                    await asyncio.sleep(0.005)
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        await self.lifespan.shutdown()


def serve(found: argparse.Namespace, operator_token: str, vault_key: str | None) -> int:
    """Runs until told to end. Returns the exit code."""
    configure()
    options = Options(
        operator_token=operator_token,
        host=found.host,
        port=found.port,
        store=found.store,
        vault_key_file=found.vault_key_file,
        vault_key=vault_key,
        mapped=found.map,
        map_ca=found.map_ca,
        vault_previous_key_file=found.vault_previous_key_file,
        allow_loopback=found.allow_loopback,
        allowed_ports=tuple(found.allow_port),
        lab=found.lab,
        test_clock=found.test_clock,
        defects=tuple(found.defect),
        experimental=tuple(found.experimental),
        templates=found.templates,
        public_url=found.public_url,
        console=found.console,
        checkpoints=found.checkpoints,
        audit_key_file=found.audit_key_file,
        audit_previous_keys=tuple(found.audit_previous_key),
    )
    try:
        listener = _listener(options.host, options.port)
    except OSError as error:
        place = f"{options.host}:{options.port}"
        sys.stderr.write(f"error: cannot listen: {error.strerror or error} ({place}). Choose another port, or --port 0" + "\n")
        return 2
    try:
        with opened_store(options.store) as store:
            return asyncio.run(_run(options, store, listener))
    except GatewayError as error:
        fix = error.fix[:1].upper() + error.fix[1:] if error.fix else "See the log"
        sys.stderr.write(f"error: {error.message} ({error.where or error.code}). {fix}" + "\n")
        return 2
    finally:
        listener.close()


def _listener(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP, or asyncio leaves Nagle on, and an answer sent in two parts waits 40 ms for the delayed acknowledgement of the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(512)
    except OSError:
        listener.close()
        raise
    return listener


async def _run(options: Options, store: Store, listener: socket.socket) -> int:
    server: _Server

    def stop() -> None:
        gateway.stopping()
        server.leave.set()

    gateway = Gateway(options, store, stop)
    config = uvicorn.Config(
        gateway.asgi(),
        http=DoorWire,
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    server = _Server(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    watch_stdin(stop)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    if server.started:
        base = f"http://{_shown(options.host)}:{listener.getsockname()[1]}"
        ready = {"ready": True, "operator": base + PREFIX, "mcp": base + "/mcp", "pid": os.getpid(), "version": __version__}
        if options.console:
            ready["console"] = base + "/console/"
        sys.stdout.write(json.dumps(ready, separators=(",", ":")) + "\n")
        sys.stdout.flush()
    await serving
    return 0


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
