"""The far side of a connection, whichever protocol it speaks: discover its tools, call one, let go of it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from reference_gateway.bridge.cognee import TOOLS, TRANSPORT, BridgeError, CogneeBridge, check_arguments
from reference_gateway.catalog import Discovery, distinct, walk
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.upstream import Era, McpUpstream, Progress, era_of
from reference_gateway.wire import FETCH_FAILED, Json, UpstreamFailure

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

    async def discover(self) -> Discovery:
        """Raises UpstreamFailure and GatewayError."""
        ...

    async def call(self, call: ProviderCall) -> Answer:
        """Raises UpstreamFailure; cancelling it gives up the request."""
        ...

    async def close(self) -> None: ...


class McpProvider:
    transport = "mcp_http"
    spawns_process = False
    default_timeout_s = 10.0
    discovery_timeout_s = 30.0

    def __init__(self, upstream: McpUpstream, url: str, pin: str | None, defects: Defects) -> None:
        self._upstream = upstream
        self._endpoint = url.partition("?")[0]
        self._preferred: Era = era_of(pin) if pin is not None else "modern"
        self._defects = defects

    def endpoint(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return self._endpoint

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        return None

    async def discover(self) -> Discovery:
        self._upstream.forget()
        session = await self._upstream.session(self._preferred)

        async def fetch(params: Json) -> Json:
            reply, _ = await self._upstream.request("tools/list", params, era=session.era, limit=LIST_LIMIT)
            return reply.result

        listed, pages = await walk(fetch, self._defects)
        tools, dropped = distinct(listed)
        return Discovery(tuple(tools), pages, dropped, session.server, session.version, session.instructions)

    async def call(self, call: ProviderCall) -> Answer:
        params: Json = {"name": call.tool, "arguments": dict(call.arguments)}
        if call.meta:
            params["_meta"] = call.meta
        reply, _ = await self._upstream.request("tools/call", params, era=call.era, limit=RESULT_LIMIT, progress=call.progress, schema=call.schema)
        return Answer(reply.result, reply.status)

    async def close(self) -> None:
        await self._upstream.close()


class CogneeProvider:
    """`bridge` makes the bridge from the stored credentials, afresh for each use."""

    transport = TRANSPORT
    default_timeout_s = 60.0
    discovery_timeout_s = 15.0

    def __init__(self, bridge: Callable[[], CogneeBridge], defects: Defects) -> None:
        self._bridge = bridge
        self.spawns_process = "spawn-subprocess" in defects

    def endpoint(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return self._bridge().endpoint(tool, arguments)

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        try:
            check_arguments(tool, arguments)
        except GatewayError as error:
            return error.message
        return None

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
