"""A bench on loopback, all in the test's own event loop: an MCP provider (SDK), a REST app, a scripted raw server, the tap, a client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import mcp_types as t
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from harness.clock import TestClock
from harness.fake.kit import serve_app
from harness.model.exchange import Sequencer
from harness.tap import Tap

TOOLS = [
    {
        "name": "add_memory",
        "title": "Add",
        "description": "Adds.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string"}, "mode": {"type": "string", "enum": ["a", "b", "c"]}, "count": {"type": "integer"}},
            "required": ["text"],
        },
        "annotations": {"readOnlyHint": False},
    },
    {"name": "search", "description": "Searches.", "inputSchema": {"type": "object", "properties": {"query": {"type": "string"}}}},
    {"name": "slow", "description": "Tells its progress.", "inputSchema": {"type": "object"}},
    {"name": "boom", "description": "Fails.", "inputSchema": {"type": "object"}},
]


@dataclass
class Provider:
    """The SDK server's state: what it was called with, and gates that tests open."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    page_size: int = 100

    def server(self) -> Server[Any]:
        return Server("provider", version="1", on_list_tools=self._list, on_call_tool=self._call)

    async def _list(self, ctx: Any, params: Any) -> t.ListToolsResult:
        start = int(params.cursor) if params and params.cursor else 0
        after = start + self.page_size
        tools = [t.Tool.model_validate(tool) for tool in TOOLS[start:after]]
        return t.ListToolsResult(tools=tools, next_cursor=str(after) if after < len(TOOLS) else None, ttl_ms=0, cache_scope="private")

    async def _call(self, ctx: Any, params: Any) -> t.CallToolResult:
        arguments = params.arguments or {}
        self.calls.append((params.name, arguments))
        if params.name == "boom":
            raise MCPError(-32042, "kaboom", {"why": 12345678901234567890})
        if params.name == "slow":
            await ctx.session.report_progress(1, 2, "half way")
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
        if arguments.get("text") == "refuse":
            return t.CallToolResult(content=[t.TextContent(type="text", text="no")], is_error=True)
        return t.CallToolResult(content=[t.TextContent(type="text", text=json.dumps(arguments))], structured_content={"got": arguments})


def rest_app() -> Starlette:
    async def remember(request: Request) -> Response:
        body = await request.body()
        return JSONResponse({"stored": len(body), "host": request.headers["host"]})

    async def recall(request: Request) -> Response:
        return JSONResponse({"detail": "not indexed"}, status_code=409)

    async def datasets(request: Request) -> Response:
        return JSONResponse([{"id": "d1"}], headers={"x-seen-encoding": request.headers.get("accept-encoding", "none")})

    return Starlette(
        routes=[
            Route("/api/v1/remember", remember, methods=["POST"]),
            Route("/api/v1/recall", recall, methods=["POST"]),
            Route("/api/v1/datasets/", datasets),
        ]
    )


@asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[str]:
    """The app on an OS-chosen port; its base URL."""
    async with serve_app(app) as base_url:
        yield base_url


Handler = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def scripted(handler: Handler) -> AsyncIterator[str]:
    """A raw server: `handler(head, reader, writer)` gets each request's head and does with the connection what it likes."""
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while True:
                    await handler(await reader.readuntil(b"\r\n\r\n"), reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def raw_request(url: str, head: bytes, body: bytes = b"") -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection of our own to the tap with `head` (no Host, no blank line) and `body` already sent."""
    target = httpx2.URL(url)
    reader, writer = await asyncio.open_connection(target.host, target.port)
    method, _, rest = head.partition(b"\r\n")
    lines = [method + b" " + target.raw_path + b" HTTP/1.1", b"Host: tap", *([rest] if rest else []), b"", b""]
    writer.write(b"\r\n".join(lines) + body)
    await writer.drain()
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class _Pinned(ClientSession):
    pin = ""

    async def initialize(self) -> t.InitializeResult:
        offer = t.InitializeRequestParams(
            protocol_version=self.pin, capabilities=t.ClientCapabilities(), client_info=t.Implementation(name="test", version="1")
        )
        answer = await self.send_request(t.InitializeRequest(params=offer), t.InitializeResult)
        self.adopt(answer)
        await self.send_notification(t.InitializedNotification())
        return answer


@asynccontextmanager
async def connected(url: str, http: httpx2.AsyncClient, version: str) -> AsyncIterator[ClientSession]:
    """An MCP client session at exactly this protocol version."""
    async with streamable_http_client(url, http_client=http) as (read, write), _Pinned(read, write) as session:
        session.pin = version
        if version in MODERN_PROTOCOL_VERSIONS:
            offer = t.DiscoverResult(supported_versions=[version], capabilities=t.ServerCapabilities(), ttl_ms=0, cache_scope="public")
            session.adopt(offer)
        else:
            await session.initialize()
        yield session


def call(tool: str, arguments: dict[str, Any] | None = None, rpc_id: Any = 1) -> dict[str, Any]:
    """A tools/call request."""
    return {"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": {"name": tool, "arguments": arguments or {}}}


def answered(body: bytes, status: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    """A whole JSON response as bytes."""
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (status, extra, len(body), body)


@dataclass
class Bench:
    tap: Tap
    clock: TestClock
    sequencer: Sequencer
    http: httpx2.AsyncClient
    served = staticmethod(served)
    scripted = staticmethod(scripted)
    raw = staticmethod(raw_request)
    rest_app = staticmethod(rest_app)
    call = staticmethod(call)
    answered = staticmethod(answered)
    Provider = Provider
    TOOLS = TOOLS

    def session(self, url: str, version: str) -> Any:
        return connected(url, self.http, version)

    @asynccontextmanager
    async def provider(self, *, json_response: bool = False, name: str = "p") -> AsyncIterator[tuple[Provider, Any]]:
        """An SDK server and a mount in front of it."""
        provider = Provider()
        async with served(provider.server().streamable_http_app(json_response=json_response)) as url:
            mount = self.tap.mount(name, url)
            try:
                yield provider, mount
            finally:
                mount.close()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    clock, sequencer = TestClock(), Sequencer()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    async with Tap(clock, sequencer) as tap, httpx2.AsyncClient(verify=context, trust_env=False, timeout=20) as http:
        context.load_verify_locations(tap.ca_file)
        yield Bench(tap, clock, sequencer, http)
