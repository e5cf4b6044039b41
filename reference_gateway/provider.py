"""The far side of a connection, whichever protocol it speaks: discover its tools, call one, let go of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcp.shared.exceptions import MCPError

from reference_gateway.bridge.cognee import TOOLS, TRANSPORT, BridgeError, CogneeBridge, check_arguments
from reference_gateway.catalog import Discovery, distinct, walk
from reference_gateway.clock import Clock, Deadline
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.oauth.authorized import Access
from reference_gateway.peer import ASKS, Peer
from reference_gateway.upstream import Era, McpUpstream, Progress, era_of
from reference_gateway.wire import FETCH_FAILED, MALFORMED, Json, UpstreamFailure

RESULT_LIMIT = 1_000_000
LIST_LIMIT = 16 * 1024 * 1024
"""Bytes of one page of a tool list."""


@dataclass(frozen=True, slots=True)
class ProviderCall:
    """One tools/call as it leaves. `meta` is what of the agent's `_meta` is the provider's business."""

    tool: str
    arguments: Mapping[str, Any]
    meta: Json
    era: Era
    schema: object
    progress: Progress | None = None
    peer: Peer | None = None
    extra: Json = field(default_factory=dict)
    """`requestState` and `inputResponses` of an agent that comes back with what it was asked for (2026-07-28)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A CallToolResult as on the wire, not yet judged, and the HTTP status it came with."""

    result: Json
    status: int | None


class Provider(Protocol):
    transport: str
    spawns_process: bool
    default_timeout_s: float
    discovery_timeout_s: float

    def endpoint(self, tool: str, arguments: Mapping[str, Any]) -> str:
        """Where the call goes, without query; for the record."""
        ...

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """What is wrong with arguments that fit the schema; None when nothing is."""
        ...

    def unready(self) -> str | None:
        """Why no call may leave just now, in the audit's word; None when one may."""
        ...

    def details(self) -> Json:
        """What a reading of the connection tells of its far side beyond its settings."""
        ...

    async def check(self) -> bool:
        """Whether all is in place; true if the provider was asked, false if only what is needed to ask it was looked at.

        Raises UpstreamFailure and GatewayError.
        """
        ...

    async def discover(self) -> Discovery:
        """Raises UpstreamFailure and GatewayError."""
        ...

    async def call(self, call: ProviderCall) -> Answer:
        """Raises UpstreamFailure; cancelling it gives up the request."""
        ...

    async def close(self) -> None: ...


MAX_ROUNDS = 10


class McpProvider:
    transport = "mcp_http"
    spawns_process = False
    default_timeout_s = 10.0
    discovery_timeout_s = 30.0

    def __init__(
        self, upstream: McpUpstream, url: str, pin: str | None, defects: Defects, *, access: Access | None = None
    ) -> None:
        """`access`: a credential that has to be renewed, and can be lost."""
        self.access = access
        self.upstream = self._upstream = upstream
        self._endpoint = url.partition("?")[0]
        self._preferred: Era = era_of(pin) if pin is not None else "modern"
        self._defects = defects

    def endpoint(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return self._endpoint

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        return None

    def unready(self) -> str | None:
        return self.access.unready() if self.access is not None else None

    def details(self) -> Json:
        return {}

    async def check(self) -> bool:
        session = await self._upstream.session(self._preferred)
        await self._upstream.request("tools/list", {}, era=session.era, limit=LIST_LIMIT)
        return True

    async def discover(self) -> Discovery:
        self._upstream.forget()
        session = await self._upstream.session(self._preferred)

        async def fetch(params: Json) -> Json:
            reply, _ = await self._upstream.request("tools/list", params, era=session.era, limit=LIST_LIMIT)
            return reply.result

        listed, pages = await walk(fetch, self._defects)
        tools, dropped = distinct(listed, self._defects)
        return Discovery(tuple(tools), pages, dropped, session.server, session.version, session.instructions)

    async def call(self, call: ProviderCall) -> Answer:
        params: Json = {"name": call.tool, "arguments": dict(call.arguments), **call.extra}
        if call.meta:
            params["_meta"] = call.meta
        result, status = await self.ask("tools/call", params, era=call.era, progress=call.progress, schema=call.schema, peer=call.peer)
        return Answer(result, status)

    async def ask(
        self, method: str, params: Json, *, era: Era, progress: Progress | None = None, schema: object = None, peer: Peer | None = None
    ) -> tuple[Json, int]:
        """A request that may need more than one round where the agent's era and the provider's differ. Raises UpstreamFailure."""
        for _ in range(MAX_ROUNDS):
            reply, session = await self._upstream.request(
                method, params, era=era, limit=RESULT_LIMIT, progress=progress, schema=schema, peer=peer
            )
            if era == session.era or reply.result.get("resultType") != "input_required" or peer is None:
                return reply.result, reply.status
            params = {**params, **await _answers(reply.result, peer)}
        raise UpstreamFailure(MALFORMED, f"the provider asked more than {MAX_ROUNDS} times", answered=True)

    async def close(self) -> None:
        await self._upstream.close()


async def _answers(result: Json, peer: Peer) -> Json:
    """For an agent of the handshake era: what a provider of 2026-07-28 asks is asked of it on the way."""
    asked, answers = result.get("inputRequests"), {}
    for key, request in (asked if isinstance(asked, dict) else {}).items():
        method = request.get("method") if isinstance(request, dict) else None
        if ASKS.get(str(method)) not in peer.capabilities:
            raise UpstreamFailure(MALFORMED, f"the provider asks for what the agent does not offer ({str(method)[:50]})", answered=True)
        try:
            answers[key] = await peer.ask(str(method), request.get("params") or {})
        except MCPError as error:
            raise UpstreamFailure(MALFORMED, f"the agent did not answer what the provider asked: {error.error.message}", answered=True) from error
    return {"inputResponses": answers, **({"requestState": result["requestState"]} if "requestState" in result else {})}


class CogneeProvider:
    """`bridge` makes the bridge from the stored credentials, afresh for each use."""

    transport = TRANSPORT
    default_timeout_s = 60.0
    discovery_timeout_s = 15.0

    def __init__(self, bridge: Callable[[], CogneeBridge], defects: Defects) -> None:
        self._bridge = bridge
        self.spawns_process = "spawn-subprocess" in defects
        self._probes = "check-probes-bridge" in defects

    def endpoint(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return self._bridge().endpoint(tool, arguments)

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        try:
            check_arguments(tool, arguments)
        except GatewayError as error:
            return error.message
        return None

    def unready(self) -> str | None:
        return None

    def details(self) -> Json:
        return {}

    async def check(self) -> bool:
        """Making the bridge judges its URL and opens its credentials. The API is asked only when a person sets it up or reconnects it."""
        bridge = self._bridge()
        if self._probes:
            await bridge.probe()
        return self._probes

    async def discover(self) -> Discovery:
        await self._bridge().probe()
        return Discovery(tuple(TOOLS), 1, {}, {"name": "cognee-cloud", "version": "v1"}, None, None)

    async def call(self, call: ProviderCall) -> Answer:
        if self.spawns_process:
            child = await asyncio.create_subprocess_exec(sys.executable, "-c", "pass", stdin=asyncio.subprocess.DEVNULL)
            await child.wait()
        try:
            found = await self._bridge().call(call.tool, call.arguments, limit=RESULT_LIMIT)
        except BridgeError as error:
            raise UpstreamFailure(error.code, error.message, status=error.status) from error
        except GatewayError as error:
            raise UpstreamFailure(FETCH_FAILED, error.message) from error
        return Answer(found.result, found.status)

    async def close(self) -> None:
        return


class Absent:
    """Where nothing is connected: a draft, which has no credential yet, and an archived connection, which has none any more."""

    transport = "none"
    spawns_process = False
    default_timeout_s = 10.0
    discovery_timeout_s = 10.0

    def endpoint(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return ""

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        return None

    def unready(self) -> str | None:
        return None

    def details(self) -> Json:
        return {}

    async def check(self) -> bool:
        raise _absent()

    async def discover(self) -> Discovery:
        raise _absent()

    async def call(self, call: ProviderCall) -> Answer:
        raise UpstreamFailure(FETCH_FAILED, "nothing is connected")

    async def close(self) -> None:
        return


def _absent() -> GatewayError:
    return GatewayError("state_conflict", "nothing is connected", where="connection", fix="set the connection up first", http_status=409)


async def prepared(client: Provider, clock: Clock, within_s: float) -> bool:
    """A credential that is due is renewed, before a call is recorded as sent. What came of it, `unready` tells.

    True when it had to be waited for, so that anything may have changed meanwhile.
    """
    if not isinstance(client, McpProvider) or client.access is None:
        return False
    turns: list[bool] = []
    turn = asyncio.get_running_loop().call_soon(turns.append, True)
    with Deadline(clock, within_s):
        await client.access.prepare()
    turn.cancel()
    return any(turns)
