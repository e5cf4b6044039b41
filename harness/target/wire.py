"""The agent's side: one MCP session at one pinned protocol version, raw JSON in and out.

The SDK's typed client would re-model what it received (and so hide what a gateway did to it), and it offers only its
newest handshake version; so the SDK's dispatcher is driven directly and every answer is kept exactly as it came.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_METHOD_HEADER, MCP_NAME_HEADER, MCP_PROTOCOL_VERSION_HEADER, encode_header_value
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher

from harness.errors import ContractBroken, HarnessError, Unreachable
from harness.model.evidence import RpcError
from harness.model.scenario import NEWEST_PROTOCOL

MODERN = frozenset({NEWEST_PROTOCOL})
CLIENT_INFO = {"name": "harness", "version": "1"}
CONNECTION_CLOSED = -32000
REQUEST_TIMEOUT = -32001
MAX_PAGES = 100
MAX_EVENT = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """Exactly one is set: `result` (wire JSON), `error` (JSON-RPC error), or `transport_error` (no usable answer)."""

    result: dict[str, Any] | None = None
    error: RpcError | None = None
    transport_error: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """All pages of tools/list; `complete` is false when a cursor repeated or the page bound was hit."""

    tools: tuple[dict[str, Any], ...]
    pages: int
    complete: bool


class AgentTransport(httpx2.AsyncBaseTransport):
    """Carries one agent's requests over a shared transport, which closing it leaves open.

    The SDK ends the whole session when one request cannot be delivered, or its answer breaks off. To an agent that is the end of one
    call, so it is made the answer to that call.
    """

    def __init__(self, shared: httpx2.AsyncBaseTransport) -> None:
        self._shared = shared

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await self._shared.handle_async_request(request)
        except httpx2.TransportError as error:
            failure = {"code": CONNECTION_CLOSED, "message": str(error) or type(error).__name__}
            return httpx2.Response(502, json={"jsonrpc": "2.0", "id": None, "error": failure}, request=request)
        response.stream = _Unbroken(response.stream)
        return response


class _Unbroken(httpx2.AsyncByteStream):
    """A body that breaks off raises what the SDK takes for the end of this answer alone."""

    def __init__(self, body: Any) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._body:
                yield chunk
        except httpx2.TransportError as error:
            raise httpx2.StreamError(f"the answer broke off: {error}") from error

    async def aclose(self) -> None:
        await self._body.aclose()


class WireSession:
    """One session. `headers` carry the run token; the HTTP client is shared by every session of the bench."""

    def __init__(self, dispatcher: JSONRPCDispatcher[Any], protocol: str) -> None:
        self._dispatcher = dispatcher
        self.protocol = protocol
        self.server: dict[str, Any] = {}

    async def open(self, timeout: float) -> None:
        """Handshake at the pinned version; a counter-offer is a broken contract, not something to go along with."""
        if self.protocol in MODERN:
            self.server = await self._need("server/discover", {}, timeout)
            return
        params = {"protocolVersion": self.protocol, "capabilities": {}, "clientInfo": CLIENT_INFO}
        self.server = await self._need("initialize", params, timeout)
        offered = self.server.get("protocolVersion")
        if offered != self.protocol:
            raise ContractBroken(
                f"asked for protocol {self.protocol}, was offered {offered}",
                where="initialize",
                fix="the gateway must serve every protocol version it declares",
            )
        await self._dispatcher.notify("notifications/initialized", None, {"headers": {MCP_PROTOCOL_VERSION_HEADER: self.protocol}})

    async def _need(self, method: str, params: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        answer = await self.request(method, params, timeout=timeout)
        if answer.result is None:
            reason = answer.transport_error or (answer.error.message if answer.error else "")
            raise Unreachable(f"the MCP handshake failed: {reason}", where=method, fix="check that the endpoint speaks MCP and accepts the token")
        return answer.result

    async def request(self, method: str, params: Mapping[str, Any], *, timeout: float, headers: Mapping[str, str] | None = None) -> Answer:
        """One JSON-RPC request, answered raw. Never raises for what the other side did."""
        sent, extra = self._prepare(method, params)
        options: dict[str, Any] = {"headers": {**extra, **(headers or {})}, "timeout": timeout}
        if method == "initialize":
            options["cancel_on_abandon"] = False
        try:
            result = await self._dispatcher.send_raw_request(method, sent, options)  # type: ignore[arg-type]  # options built above
        except MCPError as error:
            if error.error.code == REQUEST_TIMEOUT:
                return Answer(transport_error=f"no answer within {timeout:g} s")
            if error.error.code == CONNECTION_CLOSED:
                return Answer(transport_error=f"connection closed: {error.error.message}")
            return Answer(error=RpcError(code=error.error.code, message=error.error.message, data=error.error.data))
        return Answer(result=result)

    def _prepare(self, method: str, params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        sent = dict(params)
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.protocol}
        if method == "initialize":
            return sent, {}
        if self.protocol in MODERN:
            sent["_meta"] = {
                **(sent.get("_meta") or {}),
                "io.modelcontextprotocol/protocolVersion": self.protocol,
                "io.modelcontextprotocol/clientInfo": CLIENT_INFO,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            headers[MCP_METHOD_HEADER] = method
            if method == "tools/call":
                headers[MCP_NAME_HEADER] = encode_header_value(str(sent.get("name", "")))
        return sent, headers

    async def call(self, name: str, arguments: Mapping[str, Any], *, meta: Mapping[str, Any], timeout: float) -> Answer:
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments)}
        if meta:
            params["_meta"] = dict(meta)
        return await self.request("tools/call", params, timeout=timeout)

    async def list_tools(self, *, timeout: float) -> Listing:
        """Every page. Only an absent or null cursor ends the list: the empty string is a cursor like any other."""
        tools: list[dict[str, Any]] = []
        seen: set[str] = set()
        cursor: str | None = None
        for page in range(1, MAX_PAGES + 1):
            answer = await self.request("tools/list", {} if cursor is None else {"cursor": cursor}, timeout=timeout)
            if answer.result is None:
                reason = answer.transport_error or (answer.error.message if answer.error else "")
                raise ContractBroken(f"tools/list failed: {reason}", where=f"page {page}", fix="see the gateway's log")
            tools.extend(t for t in answer.result.get("tools", []) if isinstance(t, dict))
            cursor = answer.result.get("nextCursor")
            if cursor is None:
                return Listing(tuple(tools), page, True)
            if cursor in seen:
                return Listing(tuple(tools), page, False)
            seen.add(cursor)
        return Listing(tuple(tools), MAX_PAGES, False)


@asynccontextmanager
async def wire_session(url: str, http: httpx2.AsyncClient, protocol: str, *, timeout: float = 15.0) -> AsyncIterator[WireSession]:
    """An open session. `http` carries authorization; it outlives the session. Failures to open are Unreachable."""
    failure: HarnessError | None = None
    try:
        async with streamable_http_client(url, http_client=http, max_sse_event_size=MAX_EVENT) as (read, write):
            dispatcher: JSONRPCDispatcher[Any] = JSONRPCDispatcher(read, write)
            async with anyio.create_task_group() as group:
                await group.start(dispatcher.run, _refuse, _ignore)
                session = WireSession(dispatcher, protocol)
                try:
                    await session.open(timeout)
                    yield session
                except HarnessError as error:
                    failure = error
                group.cancel_scope.cancel()
    except* httpx2.HTTPError as group_error:
        raise Unreachable(f"cannot reach the MCP endpoint: {_first(group_error)}", where=url, fix="is the gateway running?") from None
    if failure is not None:
        raise failure


def _first(group: BaseExceptionGroup[Any]) -> str:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


async def _refuse(_context: Any, method: str, _params: Any) -> dict[str, Any]:
    if method == "ping":
        return {}
    raise MCPError(code=-32601, message=f"this agent does not support {method}")


async def _ignore(_context: Any, _method: str, _params: Any) -> None:
    return None
