"""News of providers on their way to the agents that want them: lists that changed, resources that were updated.

Each run hears of its own connections only, and of those only where an operator let subscriptions cross. An announced change of a tool
list is looked at first: the catalog is refreshed, at most once in a while however often it is announced, and what was true of the
announcement goes into the record.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_from_wire
from mcp_types import METHOD_NOT_FOUND, SubscriptionsListenRequestParams, SubscriptionsListenResult

from reference_gateway.agents import said
from reference_gateway.clock import Clock
from reference_gateway.connection import Connection
from reference_gateway.connections import Connections
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.hearing import Hearing
from reference_gateway.naming import Names
from reference_gateway.operators import by_itself
from reference_gateway.provider import McpProvider
from reference_gateway.runs import Run
from reference_gateway.upstream import Era

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

BURST = 6
WINDOW_S = 30.0
"""At most so many refreshes in so long that a provider's announcements bring about."""

MAX_HEARERS = 4_000
MAX_URIS = 1_000
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"


@dataclass(slots=True)
class _Hearer:
    """An agent that hears: by a stream of 2026-07-28 (`bus`) or by the one its session keeps open (`session`)."""

    run: Run
    bus: InMemorySubscriptionBus | None = None
    session: ServerSession | None = None
    uris: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Announced:
    times: int = 0
    looked: deque[float] = field(default_factory=lambda: deque(maxlen=BURST))
    task: asyncio.Task[None] | None = None


class Subscriptions:
    """`offering` names the connections of a run that let something cross."""

    def __init__(self, connections: Connections, clock: Clock, offering: Callable[[Run, str], list[Connection]], defects: Defects) -> None:
        self._connections = connections
        self._defects = defects
        self._clock = clock
        self._offering = offering
        self._hearers: OrderedDict[object, _Hearer] = OrderedDict()
        self._hearings: dict[tuple[str, str], Hearing] = {}
        self._announced: dict[tuple[str, str], _Announced] = {}
        self._passing_on: set[asyncio.Task[None]] = set()

    def attend(self, connection: Connection) -> None:
        """From now on news of this provider are read from whatever stream they come on. Harmless to repeat."""
        client, key = connection.client, (connection.tenant, connection.name)
        if isinstance(client, McpProvider) and client.upstream.news is None:
            self._hearings[key] = Hearing(client, self._clock, lambda method, params: self._heard(key, method, params))

    async def close(self) -> None:
        for task in self._passing_on:
            task.cancel()
        for announced in self._announced.values():
            if announced.task is not None:
                announced.task.cancel()
        for hearing in self._hearings.values():
            await hearing.close()

    # agents

    async def listen(self, ctx: Context, run: Run, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """One stream of an agent of 2026-07-28, until it leaves."""
        if not self._offering(run, "subscriptions"):
            raise MCPError(METHOD_NOT_FOUND, "Method not found", ctx.method)
        wanted = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        if len(wanted) > MAX_URIS:
            raise MCPError(-32602, f"more than {MAX_URIS} resources on one stream")
        hearer, key = _Hearer(run, bus=InMemorySubscriptionBus(), uris=set(wanted)), object()
        self._add(key, hearer)
        self._start(run, "modern")
        try:
            for connection in self._offering(run, "subscriptions"):
                if (hearing := self._hearings.get((connection.tenant, connection.name))) is not None:
                    await hearing.ready()
            assert hearer.bus is not None
            return await ListenHandler(hearer.bus)(ctx, params)
        finally:
            self._hearers.pop(key, None)

    def opened(self, ctx: Context, run: Run) -> None:
        """A session of the handshake era is ready to be told."""
        if self._offering(run, "subscriptions"):
            self._hearer(ctx, run).session = ctx.session
            self._start(run, "legacy")

    def subscribe(self, ctx: Context, run: Run, uri: str, wanted: bool) -> bool:
        """Whether the provider has to be told: all agents share its session, so only the first and the last of them count."""
        hearer = self._hearer(ctx, run)
        hearer.session = ctx.session
        others = any(uri in each.uris for each in self._hearers.values() if each is not hearer and each.run.tenant == run.tenant)
        (hearer.uris.add if wanted else hearer.uris.discard)(uri)
        self._start(run, "legacy")
        return not others

    def _hearer(self, ctx: Context, run: Run) -> _Hearer:
        assert ctx.request is not None
        key = ctx.request.headers.get("mcp-session-id")
        if key not in self._hearers:
            self._add(key, _Hearer(run))
        return self._hearers[key]

    def _add(self, key: object, hearer: _Hearer) -> None:
        self._hearers[key] = hearer
        while len(self._hearers) > MAX_HEARERS:
            self._hearers.popitem(last=False)

    def _start(self, run: Run, era: Era) -> None:
        for connection in self._offering(run, "subscriptions"):
            self.attend(connection)
            if (hearing := self._hearings.get((connection.tenant, connection.name))) is not None:
                hearing.start(era, self._uris(connection) if era == "modern" else ())

    def _uris(self, connection: Connection) -> set[str]:
        found: set[str] = set()
        for hearer in self._hearers.values():
            if hearer.bus is not None:
                names = Names(self._offering(hearer.run, "subscriptions"))
                for uri in hearer.uris:
                    owner, params = names.route("resources/subscribe", {"uri": uri})
                    if owner is connection:
                        found.add(str(params["uri"]))
        return set(sorted(found)[:MAX_URIS])

    # providers

    def _heard(self, key: tuple[str, str], method: str, params: Json) -> None:
        connection = self._connections.find(*key)
        if connection is None or (method == TOOLS and "list-changed-ignored" in self._defects):
            return
        if method != TOOLS:
            if len(self._passing_on) < MAX_HEARERS:
                task = asyncio.ensure_future(self._pass_on(connection, method, params))
                self._passing_on.add(task)
                task.add_done_callback(self._passing_on.discard)
            return
        announced = self._announced.setdefault(key, _Announced())
        announced.times += 1
        if announced.task is None or announced.task.done():
            announced.task = asyncio.ensure_future(self._look(connection, announced))

    async def _look(self, connection: Connection, announced: _Announced) -> None:
        """Refreshes, and says in the record whether the list had changed, and how often that was announced."""
        by_itself()
        while announced.times:
            if len(announced.looked) == BURST:
                await self._clock.sleep(announced.looked[0] + WINDOW_S - self._clock.monotonic())
            announced.looked.append(self._clock.monotonic())
            times, announced.times = announced.times, 0
            if "list-changed-believed" in self._defects:
                self._connections.record(connection, "list_changed", {"announced": times, "pages": 0}, reason="list_changed")
                await self._pass_on(connection, TOOLS, {})
                continue
            try:
                found, changes = await self._connections.refresh(connection)
            except GatewayError:
                continue  # which is in the record already
            changed = bool(changes.added or changes.changed or changes.removed)
            reason = "list_changed" if changed else "list_unchanged"
            self._connections.record(connection, "list_changed", {"announced": times, "pages": found.pages}, reason=reason)
            await self._pass_on(connection, TOOLS, {})

    async def _pass_on(self, connection: Connection, method: str, params: Json) -> None:
        for key, hearer in list(self._hearers.items()):
            offering = self._offering(hearer.run, "subscriptions")
            if connection not in offering:
                continue
            told = dict(params)
            if method == UPDATED:
                names = Names(offering)
                prefix = names.prefix(connection, "uri") if len(offering) > 1 else ""
                told["uri"] = prefix + str(params.get("uri"))
                if told["uri"] not in hearer.uris:
                    continue
            try:
                if hearer.bus is not None:
                    if (event := event_from_wire(method, {name: value for name, value in told.items() if name != "_meta"})) is not None:
                        await hearer.bus.publish(event)
                elif hearer.session is not None:
                    await hearer.session.send_notification(said(method, told))
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._hearers.pop(key, None)
