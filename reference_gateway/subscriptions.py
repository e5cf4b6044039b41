"""News of providers on their way to the agents that want them: lists that changed, resources that were updated.

Each run hears of its own connections only, of those only where an operator let subscriptions cross, and only while it may use them: that
is judged when it asks, and anew at each delivery. An announced change of a tool list is looked at first: the catalog is refreshed, at
most once in a while however often it is announced, and what was true of the announcement goes into the record.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import anyio
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp.shared.subscriptions import event_from_wire
from mcp_types import INVALID_PARAMS, SubscriptionsListenRequestParams, SubscriptionsListenResult

from reference_gateway.agents import AgentBehind, said
from reference_gateway.clock import Clock, Timer
from reference_gateway.connection import Connection
from reference_gateway.connections import Connections
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.hearing import Hearing
from reference_gateway.naming import Names
from reference_gateway.operators import by_itself
from reference_gateway.passing import Passing
from reference_gateway.permission import Decision
from reference_gateway.provider import McpProvider
from reference_gateway.runs import Run
from reference_gateway.store.base import StoreError
from reference_gateway.upstream import Era

Json = dict[str, Any]
Context = ServerRequestContext[Any, Any]

BURST = 6
WINDOW_S = 30.0
"""At most so many refreshes in so long that a provider's announcements bring about."""

EXPIRY_SLACK_S = 1.0
MAX_HEARERS = 4_000
MAX_URIS = 1_000
LISTEN = "subscriptions/listen"
OFFER = "subscriptions"
TOOLS = "notifications/tools/list_changed"
UPDATED = "notifications/resources/updated"

Resource = tuple[str, str, str]
"""A connection's name and id, and the URI as its provider has it: two providers may well use the same one."""


@dataclass(slots=True)
class _Hearer:
    """An agent that hears: by a stream of 2026-07-28 (`bus` and `stream`) or by the one its session keeps open (`session`)."""

    run: Run
    bus: InMemorySubscriptionBus | None = None
    stream: ListenHandler | None = None
    session: ServerSession | None = None
    uris: dict[str, Resource] = field(default_factory=dict)
    """What it wants to be told of, by the name that it used."""
    shut: set[str] = field(default_factory=set)
    """Connections that it may not hear of, as far as that was looked at: each refusal is recorded once, not with every piece of news."""


@dataclass(slots=True)
class _Announced:
    times: int = 0
    looked: deque[float] = field(default_factory=lambda: deque(maxlen=BURST))
    task: asyncio.Task[None] | None = None


class Subscriptions:
    """`passing` judges who may hear of what, and records it."""

    def __init__(self, connections: Connections, clock: Clock, passing: Passing, defects: Defects) -> None:
        self._connections = connections
        self._defects = defects
        self._clock = clock
        self._passing = passing
        self._hearers: OrderedDict[object, _Hearer] = OrderedDict()
        self._hearings: dict[tuple[str, str], Hearing] = {}
        self._announced: dict[tuple[str, str], _Announced] = {}
        self._passing_on: set[asyncio.Task[None]] = set()

    def attend(self, connection: Connection) -> None:
        """From now on news of this provider are read from whatever stream they come on. Harmless to repeat."""
        client, key = connection.client, (connection.tenant, connection.name)
        if isinstance(client, McpProvider) and client.upstream.news is None:
            if (former := self._hearings.get(key)) is not None:
                former.rest("modern")
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
        """One stream of an agent of 2026-07-28, until it leaves or may hear of nothing any more. Raises MCPError."""
        wanted = [str(uri) for uri in params.notifications.resource_subscriptions or ()]
        if len(wanted) > MAX_URIS:
            raise _too_many()
        admitted = self._passing.admitted(run, LISTEN)
        bus = InMemorySubscriptionBus()
        hearer, key = _Hearer(run, bus=bus, stream=ListenHandler(bus)), object()
        hearer.shut = {each.name for each in self._passing.offering(run, OFFER) if each not in admitted}
        hearer.uris = self._resources(run, wanted)
        self._add(key, hearer)
        expiry = self._expiry(key, hearer)
        try:
            self._start(admitted, "modern")
            for connection in admitted:
                if (hearing := self._hearings.get((connection.tenant, connection.name))) is not None:
                    await hearing.ready()
            assert hearer.stream is not None
            return await hearer.stream(ctx, params)
        finally:
            expiry.cancel()
            self._hearers.pop(key, None)

    def _expiry(self, key: object, hearer: _Hearer) -> Timer:
        """A run's token opens nothing beyond its time, and keeps nothing open either."""

        def over() -> None:
            with contextlib.suppress(StoreError):  # then it is ended by the next piece of news that can be judged
                self._judge(key, hearer, LISTEN)

        left = datetime.fromisoformat(hearer.run.expires_at) - self._clock.now()
        # The clock of timers and that of instants may differ by a little; too early would be not at all.
        return self._clock.call_later(left.total_seconds() + EXPIRY_SLACK_S, over)

    def opened(self, ctx: Context, run: Run) -> None:
        """A session of the handshake era is ready to be told. Raises StoreError."""
        if permitted := self._passing.permitted(run, OFFER):
            hearer = self._hearer(ctx, run)
            hearer.session = ctx.session
            hearer.shut = {each.name for each in self._passing.offering(run, OFFER) if each not in permitted}
            self._start(permitted, "legacy")

    async def subscribe(self, ctx: Context, run: Run) -> Json:
        """`resources/subscribe` and its contrary. All agents share the provider's session, so it is told of the first and the last of them only.

        Raises MCPError, the provider's own too; then nothing was subscribed to.
        """
        params, wanted = dict(ctx.params or {}), ctx.method == "resources/subscribe"
        if (judged := self._passing.judged(run, ctx.method, params)) is None:
            return await self._passing.request(ctx, run, AgentBehind(ctx))
        connection, own = judged
        uri, resource = str(params.get("uri")), (connection.name, connection.id, str(own["uri"]))
        hearer = self._hearer(ctx, run)
        hearer.session = ctx.session
        hearer.shut.discard(connection.name)
        if not wanted:
            hearer.uris.pop(uri, None)
        elif len(hearer.uris) >= MAX_URIS and uri not in hearer.uris:
            raise _too_many()
        result: Json = {}
        if any(resource in each.uris.values() for each in self._hearers.values() if each is not hearer and each.run.tenant == run.tenant):
            self._passing.record(run, connection, ctx.method, "success", ctx.method, {"latency_ms": 0})
        else:
            result = await self._passing.request(ctx, run, AgentBehind(ctx))
        if wanted:
            hearer.uris[uri] = resource
            self._start([connection], "legacy")
        return result

    def _hearer(self, ctx: Context, run: Run) -> _Hearer:
        assert ctx.request is not None
        key = ctx.request.headers.get("mcp-session-id")
        if key not in self._hearers:
            self._add(key, _Hearer(run))
        return self._hearers[key]

    def _add(self, key: object, hearer: _Hearer) -> None:
        self._hearers[key] = hearer
        while len(self._hearers) > MAX_HEARERS:
            _, oldest = self._hearers.popitem(last=False)
            if oldest.stream is not None:
                oldest.stream.close()

    def _start(self, connections: list[Connection], era: Era) -> None:
        for connection in connections:
            self.attend(connection)
            if (hearing := self._hearings.get((connection.tenant, connection.name))) is not None:
                hearing.start(era, self._uris(connection) if era == "modern" else ())

    def _resources(self, run: Run, wanted: list[str]) -> dict[str, Resource]:
        """What an agent named, as far as it is somebody's."""
        names, found = Names(self._passing.offering(run, OFFER)), {}
        for uri in wanted:
            connection, own = names.route("resources/subscribe", {"uri": uri})
            if connection is not None:
                found[uri] = (connection.name, connection.id, str(own["uri"]))
        return found

    def _uris(self, connection: Connection) -> set[str]:
        found: set[str] = set()
        for hearer in self._of(connection):
            if hearer.bus is not None:
                found.update(uri for name, ident, uri in hearer.uris.values() if (name, ident) == (connection.name, connection.id))
        return set(sorted(found)[:MAX_URIS])

    def _of(self, connection: Connection) -> list[_Hearer]:
        """Who hears of this connection, as far as that was looked at."""
        found = (each for each in self._hearers.values() if each.run.tenant == connection.tenant and connection.name in each.run.connections)
        return [each for each in found if connection.name not in each.shut]

    # who may hear

    def _judge(self, key: object, hearer: _Hearer, method: str) -> list[Connection]:
        """Of which connections it may hear now; what it may hear of no longer is recorded. A stream that is left with nothing is ended."""
        run, good = self._passing.anew(hearer.run)
        offering = self._passing.offering(hearer.run, OFFER)
        permitted: list[Connection] = []
        for connection in offering:
            decision = self._passing.decision(run, connection, OFFER) if good else Decision("deny", "token_expired")
            if decision.verdict == "allow":
                hearer.shut.discard(connection.name)
                permitted.append(connection)
            elif connection.name not in hearer.shut:
                hearer.shut.add(connection.name)
                self._passing.record(run, connection, method, "denied", decision.reason, {})
        if not permitted and (hearer.stream is not None or not good or run.state == "ended"):
            self._end(key, hearer, offering)
        return permitted

    def _end(self, key: object, hearer: _Hearer, connections: list[Connection]) -> None:
        self._hearers.pop(key, None)
        if hearer.stream is None:
            return
        hearer.stream.close()
        for connection in connections:
            if (hearing := self._hearings.get((connection.tenant, connection.name))) is not None:
                if any(each.stream is not None for each in self._of(connection)):
                    hearing.start("modern", self._uris(connection))
                else:
                    hearing.rest("modern")

    # providers

    def _heard(self, key: tuple[str, str], method: str, params: Json) -> None:
        connection = self._connections.find(*key)
        if connection is None or (method == TOOLS and "list-changed-ignored" in self._defects):
            return
        if method != TOOLS or not _in_use(connection):
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
        """To whom may hear of it. A provider that nobody may use is not listened to any longer either."""
        updated = (connection.name, connection.id, str(params.get("uri")))
        for key, hearer in list(self._hearers.items()):
            if hearer.run.tenant != connection.tenant or connection.name not in hearer.run.connections:
                continue
            wanted = [uri for uri, resource in hearer.uris.items() if resource == updated] if method == UPDATED else [None]
            try:
                if not wanted or connection not in self._judge(key, hearer, method):
                    continue
                for uri in wanted:
                    await _tell(hearer, method, {**params, "uri": uri} if uri is not None else dict(params))
            except StoreError:
                continue  # what cannot be judged, or not be recorded, is not told
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                self._hearers.pop(key, None)
        if not _in_use(connection) and (hearing := self._hearings.get((connection.tenant, connection.name))) is not None:
            hearing.rest("modern")


def _in_use(connection: Connection) -> bool:
    return connection.status == "active" and not connection.revoked


async def _tell(hearer: _Hearer, method: str, told: Json) -> None:
    if hearer.bus is not None:
        if (event := event_from_wire(method, {name: value for name, value in told.items() if name != "_meta"})) is not None:
            await hearer.bus.publish(event)
    elif hearer.session is not None:
        await hearer.session.send_notification(said(method, told))


def _too_many() -> MCPError:
    return MCPError(INVALID_PARAMS, f"more than {MAX_URIS} resources for one agent")
