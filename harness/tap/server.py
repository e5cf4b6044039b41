"""Starting and stopping: two loopback listeners (plain, and TLS for mapped hosts) in the caller's own event loop."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import trustme
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from harness.clock import Clock
from harness.errors import PortInUse, UsageError
from harness.model.exchange import Sequencer
from harness.tap.link import Link
from harness.tap.mount import Mount
from harness.tap.operations import Operation
from harness.tap.proxy import Passage
from harness.tap.upstream import Pool
from harness.tap.witness import Stray, utc_text

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_NOT_FOUND = b'{"error":"no provider is mounted here"}'
_MAX_CERTIFICATES = 256
_STOP_GRACE_S = 2.0
_IDLE_S = 600  # a gateway's idle connection is not ours to close: its next call would be lost


class _LinkedH11(H11Protocol):
    """Puts the connection's Link into each scope."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._link = Link(transport)
        self.app_state = {"link": self._link}

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.lost = True
        super().connection_lost(exc)


class _Authority:
    """A test certificate authority that issues one certificate per server name, when it is first asked for."""

    def __init__(self) -> None:
        self._ca = trustme.CA()
        self._contexts: dict[str, ssl.SSLContext] = {}

    @property
    def pem(self) -> bytes:
        return self._ca.cert_pem.bytes()

    def listener_context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        context.sni_callback = self._choose
        return context

    def _choose(self, connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> int | None:
        context = self._context_for(name.lower()) if name else None
        if context is None:
            return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME
        connection.context = context
        return None

    def _context_for(self, name: str) -> ssl.SSLContext | None:
        if name not in self._contexts and len(self._contexts) < _MAX_CERTIFICATES:
            try:
                certificate = self._ca.issue_cert(name)
            except ValueError:  # not a host name
                return None
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.set_alpn_protocols(["http/1.1"])
            certificate.configure_cert(context)
            self._contexts[name] = context
        return self._contexts.get(name)


class Tap:
    """`async with Tap(clock, sequencer) as tap: mount = tap.mount("mem0-r1", "http://127.0.0.1:4001")`.

    `port`: of the plain listener, for a gateway that was pointed there before; 0 lets the system choose.
    `strays` lists requests that no mount stood for. `ca_file` is a PEM file that lives as long as the tap.
    """

    def __init__(self, clock: Clock, sequencer: Sequencer, port: int = 0) -> None:
        self._wanted_port = port
        self.strays: list[Stray] = []
        self._clock = clock
        self._sequencer = sequencer
        self._mounts: dict[str, Mount] = {}
        self._pool = Pool()
        self._state = ServerState()
        self._servers: list[asyncio.Server] = []
        self._ports: list[int] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    @property
    def url(self) -> str:
        """The plain listener, e.g. `http://127.0.0.1:40123`."""
        return f"http://127.0.0.1:{self._port(0)}"

    @property
    def tls_address(self) -> str:
        """`127.0.0.1:PORT`, what a mapped host is mapped to."""
        return f"127.0.0.1:{self._port(1)}"

    @property
    def ca_file(self) -> Path:
        if self._folder is None:
            raise UsageError("the tap is not running", fix="use it inside `async with Tap(...)`")
        return Path(self._folder.name) / "tap-ca.pem"

    @property
    def mounts(self) -> tuple[Mount, ...]:
        return tuple(self._mounts.values())

    def mount(
        self, name: str, upstream: str, *, host: str | None = None, operations: Iterable[Operation | tuple[str, str, str | None]] = ()
    ) -> Mount:
        """Stand for the provider at `upstream`: below `/m/<name>` (reverse), or, with `host`, as that host on the TLS listener (mapped).

        `host` may be `*.suffix`, which matches exactly one label. Raises UsageError for a bad or taken name, host or upstream.
        """
        if not _NAME.fullmatch(name):
            raise UsageError(f"{name!r} is no mount name", fix="use letters, digits, '.', '_' and '-'")
        taken = next((mount for mount in self._mounts.values() if mount.name == name or (host and mount.host == host.lower())), None)
        if taken is not None:
            raise UsageError(f"mount {name!r} is taken" if taken.name == name else f"host {host!r} is taken by mount {taken.name!r}")
        mount = Mount(
            name,
            upstream,
            f"https://{host.lower()}" if host else f"{self.url}/m/{name}",
            clock=self._clock,
            sequencer=self._sequencer,
            host=host.lower() if host else None,
            operations=operations,
            on_close=self._unmount,
        )
        self._mounts[name] = mount
        return mount

    async def __aenter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="tap-")
        authority = _Authority()
        self.ca_file.write_bytes(authority.pem)
        config = Config(
            self._application, http=_LinkedH11, ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
            server_header=False, date_header=False, proxy_headers=False, timeout_keep_alive=_IDLE_S, h11_max_incomplete_event_size=65536,
        )  # fmt: skip
        config.load()
        for context in (None, authority.listener_context()):
            server, port = await self._listen(config, context, self._wanted_port if context is None else 0)
            self._servers.append(server)
            self._ports.append(port)
        return self

    async def __aexit__(self, *_: object) -> None:
        for mount in self.mounts:
            mount.close()
        for server in self._servers:
            server.close()
        for connection in tuple(self._state.connections):
            connection.transport.abort()
        if tasks := tuple(self._state.tasks):
            await asyncio.wait(tasks, timeout=_STOP_GRACE_S)
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        for server in self._servers:
            await server.wait_closed()
        self._pool.close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    async def _listen(self, config: Config, context: ssl.SSLContext | None, wanted: int) -> tuple[asyncio.Server, int]:
        loop = asyncio.get_running_loop()
        try:
            listener = socket.create_server(("127.0.0.1", wanted), backlog=1024)
        except OSError as error:
            raise PortInUse(f"the tap cannot wait on port {wanted}: {error.strerror}", where="tap", fix="choose another port") from error
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # inherited; asyncio sets it only where the socket was named as TCP
        server = await loop.create_server(lambda: _LinkedH11(config, self._state, {}, loop), sock=listener, ssl=context)
        return server, listener.getsockname()[1]

    def _port(self, which: int) -> int:
        if not self._ports:
            raise UsageError("the tap is not running", fix="use it inside `async with Tap(...)`")
        return self._ports[which]

    def _unmount(self, mount: Mount) -> None:
        if self._mounts.get(mount.name) is mount:
            del self._mounts[mount.name]

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        mount, path = self._find(scope)
        if mount is not None:
            await Passage(mount, path, scope, receive, send, self._pool, self._clock).run()
            return
        host = _host_of(scope)
        self.strays.append(Stray(self._sequencer.next(), utc_text(self._clock), scope["method"], host, scope["path"]))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(_NOT_FOUND)).encode())]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        await send({"type": "http.response.body", "body": _NOT_FOUND})

    def _find(self, scope: Scope) -> tuple[Mount | None, bytes]:
        """The mount and the raw path below it."""
        path: bytes = scope["raw_path"]
        if scope["scheme"] == "https":
            host = _host_of(scope)
            wildcard = f"*.{host.partition('.')[2]}"
            found = {mount.host: mount for mount in self._mounts.values() if mount.host in (host, wildcard)}
            return found.get(host) or found.get(wildcard), path
        head = path.removeprefix(b"/m/").partition(b"/")[0]
        mount = self._mounts.get(head.decode("latin-1")) if path.startswith(b"/m/") else None
        if mount is None or mount.host is not None:
            return None, path
        return mount, path[len(b"/m/") + len(head) :]


def _host_of(scope: Scope) -> str:
    """The Host header without its port, lower case."""
    headers: dict[bytes, Any] = dict(scope["headers"])
    host: str = headers.get(b"host", b"").decode("latin-1")
    return host.rpartition(":")[0].lower() if re.search(r":\d+$", host) else host.lower()
