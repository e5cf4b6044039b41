"""The gateway put together: one listener, two doors (agents and operator), one store, one HTTP client, one clock."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from reference_gateway.approval import Approvals
from reference_gateway.audit import AuditLog
from reference_gateway.background import Background
from reference_gateway.clock import Clock, SystemClock, TestClock
from reference_gateway.connections import Connections
from reference_gateway.control import PREFIX, Control
from reference_gateway.control_access import AccessRoutes
from reference_gateway.control_tenants import TenantRoutes
from reference_gateway.decisions import Decisions
from reference_gateway.defects import Defects
from reference_gateway.egress import Egress
from reference_gateway.ids import Ids, RandomIds
from reference_gateway.log import logger
from reference_gateway.operators import Operators
from reference_gateway.pipeline import Parts, Pipeline
from reference_gateway.policy import Policies
from reference_gateway.runs import Runs
from reference_gateway.store.base import Store
from reference_gateway.store.sqlite import SqliteStore
from reference_gateway.surface import Surface
from reference_gateway.vault import Vault, load_key

log = logger("app")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line and the environment said, checked."""

    operator_token: str
    host: str = "127.0.0.1"
    port: int = 0
    store: str | None = None
    vault_key_file: str | None = None
    vault_key: str | None = None
    mapped: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    map_ca: str | None = None
    allow_loopback: bool = False
    test_clock: bool = False
    defects: tuple[str, ...] = ()


class Gateway:
    """An ASGI application. Building it opens the store and dials nothing; its lifespan recovers and runs it."""

    def __init__(self, options: Options, store: Store, stop: Callable[[], None], *, ids: Ids | None = None) -> None:
        ids = ids or RandomIds()
        self.clock: Clock = TestClock() if options.test_clock else SystemClock()
        defects = Defects(options.defects)
        self._background = Background()
        self._egress = Egress(options.mapped, options.map_ca, options.allow_loopback)
        audit = AuditLog(store, self.clock)
        self._approvals = Approvals(store, audit, self.clock)
        vault = Vault(load_key(options.vault_key_file, options.vault_key), store)
        self._connections = Connections(
            store=store, audit=audit, vault=vault, egress=self._egress, clock=self.clock, defects=defects, background=self._background, ids=ids
        )
        runs = Runs(store, audit, self.clock, ids)
        policies, operators = Policies(store, audit), Operators(store, audit, ids)
        parts = Parts(store, audit, self._approvals, self._connections, policies, runs, self.clock, ids, defects)
        self._pipeline = Pipeline(parts)
        self._decisions = Decisions(parts, self._pipeline, runs)
        self._mcp, self._agents = Surface(runs, self._connections, self._pipeline).app()
        tenants = TenantRoutes(
            store=store,
            audit=audit,
            approvals=self._approvals,
            connections=self._connections,
            runs=runs,
            decisions=self._decisions,
            clock=self.clock,
            ids=ids,
        )
        self.control = Control(
            token=options.operator_token,
            tenants=tenants,
            access=AccessRoutes(tenants=tenants, connections=self._connections, policies=policies, operators=operators, runs=runs),
            operators=operators,
            connections=self._connections,
            store=store,
            clock=self.clock,
            egress=self._egress,
            allow_loopback=options.allow_loopback,
            stop=stop,
        )
        self._operator = self.control.app()

    def stopping(self) -> None:
        """To be called as soon as the end is near, before requests are cut off."""
        self._pipeline.close()

    def asgi(self) -> ASGIApp:
        shell = Starlette(lifespan=self._lifespan)

        async def route(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope.get("path", "")
            if scope["type"] != "http":
                await shell(scope, receive, send)
            elif path.startswith(PREFIX + "/"):
                await self._operator(scope, receive, send)
            elif path == "/mcp":
                await self._agents(scope, receive, send)
            else:
                await shell(scope, receive, send)

        return route

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._approvals.recover()
        self._connections.load()
        self._pipeline.holding.watch_expiry()
        async with self._mcp.router.lifespan_context(self._mcp):
            try:
                yield
            finally:
                self.stopping()
                await self._decisions.close()
                await self._connections.close()
        await self._background.close(drain=1.0)
        await self._egress.aclose()


@contextlib.contextmanager
def opened_store(path: str | None) -> Iterator[Store]:
    """The store at `path`, or one in a private folder that is removed afterwards. Raises StoreError."""
    folder = tempfile.mkdtemp(prefix="reference-gateway-") if path is None else None
    store = SqliteStore(Path(folder or "") / "gateway.sqlite3" if path is None else Path(path))
    try:
        store.open()
        try:
            yield store
        finally:
            store.close()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def watch_stdin(stop: Callable[[], None]) -> None:
    """When standard input is a pipe, whoever started us holds its other end: when that closes, stop."""
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return
    if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return
    loop = asyncio.get_running_loop()

    def readable() -> None:
        try:
            alive = bool(os.read(0, 65536))
        except BlockingIOError:
            return
        except OSError:
            alive = False
        if not alive:
            loop.remove_reader(0)
            stop()

    loop.add_reader(0, readable)
