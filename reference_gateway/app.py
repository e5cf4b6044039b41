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
from reference_gateway.audit_defects import mislead
from reference_gateway.authorizing import Authorizing, document_url, redirect_url, teller
from reference_gateway.background import Background
from reference_gateway.checkpoints import Checkpoints
from reference_gateway.clock import Clock, SystemClock, TestClock
from reference_gateway.connections import Connections
from reference_gateway.control import PREFIX, Control, Handler
from reference_gateway.control_access import AccessRoutes
from reference_gateway.control_audit import AuditRoutes
from reference_gateway.control_lists import ListRoutes
from reference_gateway.control_oauth import OAuthRoutes, metadata_route
from reference_gateway.control_outer import OuterRoutes
from reference_gateway.control_tenants import TenantRoutes
from reference_gateway.decisions import Decisions
from reference_gateway.defects import Defects
from reference_gateway.delivery import Deliveries
from reference_gateway.dialling import Dialler
from reference_gateway.egress import PORTS, Egress
from reference_gateway.experiments import Experiments
from reference_gateway.health import Checks
from reference_gateway.ids import Ids, RandomIds
from reference_gateway.lifecycle import Lifecycle
from reference_gateway.log import logger
from reference_gateway.oauth.broker import Broker
from reference_gateway.oauth.consents import Consents
from reference_gateway.operators import Operators
from reference_gateway.parts import Parts
from reference_gateway.passing import Passing
from reference_gateway.pipeline import Pipeline
from reference_gateway.policy import Policies
from reference_gateway.runs import Runs
from reference_gateway.sealing import Sealer
from reference_gateway.setup.routes import SetupRoutes
from reference_gateway.setup.setups import Setups
from reference_gateway.stdio.templates import load_templates
from reference_gateway.store.base import Store, StoreError
from reference_gateway.store.sqlite import SqliteStore
from reference_gateway.subscriptions import Subscriptions
from reference_gateway.surface import Surface
from reference_gateway.vault import KeySource, Vault, opened_vault

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
    vault_previous_key_file: str | None = None
    mapped: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    map_ca: str | None = None
    allow_loopback: bool = False
    allowed_ports: tuple[int, ...] = ()
    lab: bool = False
    test_clock: bool = False
    defects: tuple[str, ...] = ()
    experimental: tuple[str, ...] = ()
    templates: str | None = None
    public_url: str | None = None
    console: bool = False
    checkpoints: str | None = None
    audit_key_file: str | None = None
    audit_previous_keys: tuple[str, ...] = ()


class Gateway:
    """An ASGI application. Building it opens the store and dials nothing; its lifespan recovers and runs it."""

    def __init__(self, options: Options, store: Store, stop: Callable[[], None], *, ids: Ids | None = None) -> None:
        ids = ids or RandomIds()
        self.clock: Clock = TestClock() if options.test_clock else SystemClock()
        defects = Defects(options.defects)
        self._background = Background()
        ports = PORTS | set(options.allowed_ports)
        self._egress = Egress(options.mapped, options.map_ca, options.allow_loopback, ports=ports, lab=options.lab, defects=defects)
        audit = self._audit_log(options, store, defects)
        self._approvals = Approvals(store, audit, self.clock, defects=defects)
        keys = KeySource(options.vault_key_file, options.vault_key, options.vault_previous_key_file)
        vault = opened_vault(keys, store, defects)
        experiments = Experiments(store, audit, options.experimental, defects)
        self._broker = self._oauth_broker(options, vault, store, audit, ids, defects)
        dialler = self._dialler(options, vault, audit, defects)
        self._connections = Connections(
            store=store, audit=audit, vault=vault, dialler=dialler, experiments=experiments, clock=self.clock, defects=defects, ids=ids
        )
        runs = Runs(store, audit, self._approvals, self.clock, ids, defects)
        policies, operators = Policies(store, audit, defects), Operators(store, audit, ids)
        sealer = Sealer(store, self.clock, ids, defects)
        parts = Parts(store, audit, self._approvals, self._connections, policies, runs, self.clock, ids, defects, sealer)
        self._pipeline = Pipeline(parts)
        passing = Passing(parts, self._pipeline)
        self._subscriptions = Subscriptions(self._connections, self.clock, passing, defects)
        self._pipeline.attend = self._subscriptions.attend
        self._decisions = Decisions(parts, self._pipeline, runs)
        self._mcp, self._agents = Surface(runs, self._connections, self._pipeline, self.clock, passing, self._subscriptions).app()
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
        self._checks = Checks(self._connections.every, audit, self.clock)
        self._public = metadata_route(options.public_url)
        setting = self._setting_up(options, tenants, store, audit, runs, experiments, dialler, defects)
        outer = OuterRoutes(tenants=tenants, connections=self._connections, vault=vault, keys=keys, egress=self._egress, audit=audit)
        lists = ListRoutes(tenants=tenants, connections=self._connections, approvals=self._approvals)
        self.control = Control(
            token=options.operator_token,
            tenants=tenants,
            access=AccessRoutes(tenants=tenants, connections=self._connections, policies=policies, operators=operators, runs=runs),
            more=[lists.routes(), setting, outer.routes(), AuditRoutes(self._checkpoints).routes()],
            operators=operators,
            connections=self._connections,
            store=store,
            audit=audit,
            clock=self.clock,
            egress=self._egress,
            defects=defects,
            stop=stop,
        )
        self._operator = self.control.app()
        self._console = self._console_app(ids, options.public_url) if options.console else None

    def _audit_log(self, options: Options, store: Store, defects: Defects) -> AuditLog:
        """The log, and the checkpoints of it; what was marked before must still be there. Raises CheckpointError."""
        key, previous = options.audit_key_file, options.audit_previous_keys
        self._checkpoints = Checkpoints(store, self.clock, file=options.checkpoints, key_file=key, previous=previous)
        self._checkpoints.start()
        audit = AuditLog(store, self.clock)
        audit.written = self._written
        mislead(audit, defects)
        return audit

    def _oauth_broker(self, options: Options, vault: Vault, store: Store, audit: AuditLog, ids: Ids, defects: Defects) -> Broker:
        return Broker(
            egress=self._egress,
            consents=Consents(vault, store),
            clock=self.clock,
            ids=ids,
            defects=defects,
            document_url=document_url(options.public_url),
            told=teller(audit),
        )

    def _dialler(self, options: Options, vault: Vault, audit: AuditLog, defects: Defects) -> Dialler:
        return Dialler(
            broker=self._broker,
            egress=self._egress,
            vault=vault,
            audit=audit,
            clock=self.clock,
            defects=defects,
            background=self._background,
            templates=load_templates(options.templates),
        )

    def _setting_up(
        self,
        options: Options,
        tenants: TenantRoutes,
        store: Store,
        audit: AuditLog,
        runs: Runs,
        experiments: Experiments,
        dialler: Dialler,
        defects: Defects,
    ) -> list[tuple[str, str, Handler]]:
        """The routes of galleries, setups and authorizations, and what is behind them."""
        authorizing = Authorizing(self._broker, self._connections, audit, lambda: self.clock.now().timestamp(), redirect_url(options.public_url))
        self.setups = Setups(connections=self._connections, dialler=dialler, experiments=experiments, clock=self.clock, broker=authorizing)
        authorizing.finish = self.setups.authorized
        self._connections.gone = lambda gone: authorizing.forget(gone.tenant, gone.name)
        oauth = OAuthRoutes(tenants, self._connections, authorizing)
        deliveries = Deliveries(
            store=store, audit=audit, clock=self.clock, runs=runs, connections=self._connections, public_url=options.public_url, defects=defects
        )
        setup = SetupRoutes(
            tenants=tenants,
            connections=self._connections,
            experiments=experiments,
            setups=self.setups,
            lifecycle=Lifecycle(self._connections, dialler, defects),
            checks=self._checks,
            deliveries=deliveries,
            runs=runs,
            templates=dialler.templates,
            defects=defects,
        )
        return [*setup.routes(), *oauth.routes()]

    def _written(self, seq: int) -> None:
        # In the next turn: what wrote the record may be a transaction that is still under way.
        if self._checkpoints.state != "off":
            asyncio.get_running_loop().call_soon(self._checkpoints.noted, seq)

    def _console_app(self, ids: Ids, public_url: str | None) -> ASGIApp:
        # Imported here: a gateway without a console pays for no template engine.
        from reference_gateway.console.app import console

        return console(self._operator, self.clock, ids, public_url)

    def stopping(self) -> None:
        """To be called as soon as the end is near, before requests are cut off."""
        self._pipeline.close()

    def asgi(self) -> ASGIApp:
        shell = Starlette(routes=self._public, lifespan=self._lifespan)

        async def route(scope: Scope, receive: Receive, send: Send) -> None:
            path = scope.get("path", "")
            if scope["type"] != "http":
                await shell(scope, receive, send)
            elif path.startswith(PREFIX + "/"):
                await self._operator(scope, receive, send)
            elif self._console is not None and (path == "/console" or path.startswith("/console/")):
                await self._console(scope, receive, send)
            elif path == "/mcp":
                await self._agents(scope, receive, send)
            else:
                await shell(scope, receive, send)

        return route

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._approvals.recover()
        self._connections.current()
        self._pipeline.holding.watch_expiry()
        self._checks.start()
        async with self._mcp.router.lifespan_context(self._mcp):
            try:
                yield
            finally:
                self.stopping()
                await self._checks.close()
                await self._decisions.close()
                await self._subscriptions.close()
                await self._connections.close()
                await self._broker.refresher.close()
        await self._background.close(drain=1.0)
        await self._egress.aclose()
        self._checkpoints.mark()


@contextlib.contextmanager
def opened_store(path: str | None) -> Iterator[Store]:
    """The store at `path` (a file, or `postgresql://…`), or one in a private folder that is removed afterwards. Raises StoreError."""
    folder = tempfile.mkdtemp(prefix="reference-gateway-") if path is None else None
    store = _store(Path(folder) / "gateway.sqlite3" if folder is not None else path or "")
    try:
        store.open()
        try:
            yield store
        finally:
            store.close()
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _store(place: Path | str) -> Store:
    if isinstance(place, str) and place.startswith(("postgresql://", "postgres://")):
        try:
            # Imported here: the default store needs no driver.
            from reference_gateway.store.postgres import PostgresStore
        except ImportError as error:
            raise StoreError(
                "store_unusable",
                "the PostgreSQL driver is not installed",
                where="GATEWAY_STORE",
                fix="pip install 'mcp-gateway-acceptance[postgres]'",
            ) from error
        return PostgresStore(place)
    return SqliteStore(Path(place))


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
