"""A small provider of our own (the SDK's server on loopback), the gateway behind a real socket, an operator and pinned agents."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reference_gateway.app import Gateway, Options, opened_store

from .served import Served

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
OPERATOR_TOKEN = "operator-token-for-tests"
SECRET = "upstream-secret-5f2c9a"
TLS = ssl.create_default_context()

Json = dict[str, Any]


# the provider

OBJECT: Json = {"type": "object"}
TEXT: Json = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}


def tool(name: str, schema: Json = OBJECT, **more: Any) -> types.Tool:
    return types.Tool(name=name, input_schema=schema, **more)


STANDARD = [
    tool("add_note", TEXT, description="Add a note.", title="Add"),
    tool("get_echo", OBJECT, annotations=types.ToolAnnotations(read_only_hint=True)),
    tool("delete_note", {"type": "object", "properties": {"id": {"type": "string", "default": "x"}}}),
    tool("get_failure"),
    tool("get_boom"),
    tool("get_slow"),
    tool("get_rich"),
    tool("get_big"),
    tool("get_spoof"),
]


@dataclass
class Provider:
    """What it offers, what it saw, and canned answers (`script`) that replace its own to the next tools/call requests."""

    tools: list[types.Tool] = field(default_factory=lambda: list(STANDARD))
    page: int = 4
    secret: str | None = SECRET
    calls: list[Json] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    script: list[tuple[int, str, bytes]] = field(default_factory=list)
    list_answer: Callable[[str | None], Json] | None = None
    cancelled: int = 0
    started: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)
    forget_sessions: bool = False
    hang: bool = False
    port: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def app(self) -> ASGIApp:
        server: Server[Any] = Server("tiny", version="1.2.3", instructions="be kind", on_list_tools=self._list, on_call_tool=self._call)
        inner = server.streamable_http_app()

        async def front(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http":
                await self._front(inner, scope, receive, send)
            else:
                await inner(scope, receive, send)

        return front

    async def _front(self, inner: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {k.decode().lower(): v.decode() for k, v in scope["headers"]}
        if self.secret is not None and headers.get("authorization") != f"Bearer {self.secret}":
            await answer(send, 401, "application/json", b'{"error":"unauthorized"}')
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        parsed = json.loads(body) if body else {}
        method = parsed.get("method", scope["method"])
        self.methods.append(method)
        if method == "tools/call":
            self.calls.append(parsed["params"])
            self.headers.append(headers)
            if self.hang:
                await asyncio.to_thread(self.release.wait, 20)
            if self.script:
                status, kind, canned = self.script.pop(0)
                await answer(send, status, kind, canned.replace(b"$ID", str(parsed["id"]).encode()))
                return
            if self.forget_sessions and "mcp-session-id" in headers:
                self.forget_sessions = False
                await answer(send, 404, "text/plain", b"Session not found")
                return
        if method == "tools/list" and self.list_answer is not None:
            result = self.list_answer(parsed.get("params", {}).get("cursor"))
            reply = {"jsonrpc": "2.0", "id": parsed["id"], "result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result}}
            await answer(send, 200, "application/json", json.dumps(reply).encode())
            return
        first = True

        async def again() -> Message:
            nonlocal first
            if first:
                first = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await receive()

        await inner(scope, again, send)

    async def _list(self, ctx: Any, params: Any) -> types.ListToolsResult:
        start = int(params.cursor) if params and params.cursor else 0
        end = start + self.page
        return types.ListToolsResult(
            tools=self.tools[start:end], next_cursor=str(end) if end < len(self.tools) else None, ttl_ms=0, cache_scope="private"
        )

    async def _call(self, ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        arguments = params.arguments or {}
        match params.name:
            case "add_note":
                return said(json.dumps({"id": f"n{len(self.calls)}", "text": arguments["text"]}))
            case "get_failure":
                return types.CallToolResult(content=[types.TextContent(type="text", text="no such thing")], is_error=True)
            case "get_boom":
                raise MCPError(-32042, "kaboom", {"why": ["a", {"n": 12345678901234567890}]})
            case "get_slow":
                return await self._slow(ctx)
            case "get_big":
                return said("x" * int(arguments["n"]))
            case "get_spoof":
                return types.CallToolResult(
                    content=[types.TextContent(type="text", text="hello")], _meta={"gateway/outcome": "denied", "vendor/x": 1}
                )
            case "get_rich":
                return types.CallToolResult(
                    content=[
                        types.ImageContent(type="image", data="aGk=", mime_type="image/png"),
                        types.EmbeddedResource(
                            type="resource", resource=types.TextResourceContents(uri="memo://1", text="kept", mime_type="text/plain")
                        ),
                    ],
                    structured_content={"n": 2**70, "f": 1.5, "nested": {"list": [None, True]}},
                    _meta={"vendor/trace": "t-1"},
                )
        return types.CallToolResult(content=[types.TextContent(type="text", text=json.dumps(arguments))], structured_content={"got": arguments})

    async def _slow(self, ctx: Any) -> types.CallToolResult:
        self.started.set()
        try:
            for step in range(200):
                await ctx.session.report_progress(step + 1, 200, f"step {step + 1}")
                if self.release.is_set():
                    return said("done")
                await anyio.sleep(0.05)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        return said("done")


def said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def answer(send: Send, status: int, kind: str, body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind.encode())]})
    await send({"type": "http.response.body", "body": body})


@contextlib.contextmanager
def provider_served(provider: Provider | None = None) -> Iterator[Provider]:
    provider = provider or Provider()
    with Served(provider.app()) as served:
        provider.port = served.port
        try:
            yield provider
        finally:
            provider.release.set()


# the gateway and its operator


class Refused(Exception):
    def __init__(self, status: int, error: Json) -> None:
        super().__init__(f"{status} {error}")
        self.status = status
        self.error = error
        self.code = error["code"]


class Operator:
    """The operator API of one gateway."""

    def __init__(self, base: str, token: str = OPERATOR_TOKEN) -> None:
        self.http = httpx2.Client(
            base_url=f"{base}/operator/v1", headers={"authorization": f"Bearer {token}"}, verify=TLS, trust_env=False, timeout=30
        )
        self.mcp = f"{base}/mcp"

    def __call__(self, method: str, path: str, body: Json | None = None, **query: Any) -> Json:
        response = self.http.request(method, path, content=json.dumps(body).encode() if body is not None else None, params=query or None)
        if response.status_code >= 400:
            raise Refused(response.status_code, response.json()["error"])
        return response.json() if response.content else {}


@dataclass
class Bench:
    """One tenant with one provider's connection, ready to be called."""

    operator: Operator
    provider: Provider
    tenant: str
    connection: str = "notes"

    def connect(self, name: str = "notes", **changes: Any) -> Json:
        body = {
            "name": name,
            "provider": "generic",
            "transport": "mcp_http",
            "url": self.provider.url,
            "auth": {"scheme": "bearer", "path": "credentials.authorization"},
            "credentials": {"credentials.authorization": SECRET},
            "quarantine": False,
            **changes,
        }
        return self.operator("POST", f"/tenants/{self.tenant}/connections", body)

    def op(self, method: str, path: str, body: Json | None = None, **query: Any) -> Json:
        return self.operator(method, f"/tenants/{self.tenant}{path}", body, **query)

    def run(self, *connections: str, **more: Any) -> tuple[str, str]:
        made = self.op("POST", "/runs", {"connections": list(connections) or ["notes"], "task": "task-1", "agent": "agent-1", **more})
        return made["run"], made["token"]

    def permit(self, **words: str) -> None:
        self.op("PUT", f"/connections/{self.connection}/permissions", {"permissions": words})

    def trail(self, run: str | None = None, invocation: str | None = None) -> list[tuple[str, str, str, str]]:
        return [
            (r["event"], r["outcome"], r["decision"], r["reason"])
            for r in self.records(run)
            if r["invocation"] is not None and (invocation is None or r["invocation"] == invocation)
        ]

    def records(self, run: str | None = None) -> list[Json]:
        records: list[Json] = self.op("GET", "/audit", **({"run": run} if run else {}))["records"]
        return records

    def agent(self, token: str, version: str = VERSIONS[-1], **more: Any) -> contextlib.AbstractAsyncContextManager[ClientSession]:
        return agent(self.operator.mcp, token, version, **more)

    def call(self, token: str, name: str, arguments: Json | None = None, *, version: str = VERSIONS[-1], meta: Json | None = None) -> Json:
        """One call by a fresh agent; the result as on the wire."""

        async def once() -> Json | MCPError:
            async with self.agent(token, version) as session:
                try:
                    return await raw_call(session, name, arguments, meta)
                except MCPError as error:  # raised outside the agent's task groups, which would wrap it
                    return error

        outcome = anyio.run(once)
        if isinstance(outcome, MCPError):
            raise outcome
        return outcome

    def advance(self, seconds: float) -> None:
        self.operator("POST", "/clock/advance", {"seconds": seconds})


SUCCESS = [
    ("policy_decision", "success", "allow", "allow_default"),
    ("call_started", "pending", "allow", "dispatching"),
    ("call_completed", "success", "allow", "tool_completed"),
]
PENDING = [
    ("policy_decision", "pending", "require_approval", "requires_approval_policy"),
    ("approval_requested", "pending", "require_approval", "requires_approval_policy"),
]


def denied(reason: str) -> list[tuple[str, str, str, str]]:
    return [("policy_decision", "denied", "deny", reason), ("call_denied", "denied", "deny", reason)]


async def raw_call(session: ClientSession, name: str, arguments: Json | None = None, meta: Json | None = None) -> Json:
    result = await session.call_tool(name, arguments or {}, meta=meta)  # type: ignore[arg-type]
    return result.model_dump(by_alias=True, mode="json", exclude_none=True)


class Pinned(ClientSession):
    pin = ""

    async def initialize(self) -> types.InitializeResult:
        params = types.InitializeRequestParams(
            protocol_version=self.pin, capabilities=self._build_capabilities(self.pin), client_info=self._client_info
        )
        result = await self.send_request(types.InitializeRequest(params=params), types.InitializeResult)
        assert result.protocol_version == self.pin
        self.adopt(result)
        await self.send_notification(types.InitializedNotification())
        return result


@contextlib.asynccontextmanager
async def agent(url: str, token: str, version: str, **more: Any) -> AsyncIterator[ClientSession]:
    """An agent pinned to one protocol version."""
    async with (
        httpx2.AsyncClient(verify=TLS, trust_env=False, timeout=httpx2.Timeout(20), headers={"authorization": f"Bearer {token}"}) as http,
        streamable_http_client(url, http_client=http) as (read, write),
        Pinned(read, write, **more) as session,
    ):
        session.pin = version
        if version in MODERN_PROTOCOL_VERSIONS:
            session.adopt(types.DiscoverResult(supported_versions=[version], capabilities=types.ServerCapabilities(), ttl_ms=0, cache_scope="public"))
        else:
            await session.initialize()
        await session.list_tools()
        yield session


@contextlib.contextmanager
def gateway_served(*defects: str, **options: Any) -> Iterator[Operator]:
    """The gateway's own application on a socket, without the process around it."""
    chosen = {"test_clock": True, "defects": defects, "experimental": ("memory_connectors",), **options}
    settings = Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, **chosen)
    with opened_store(settings.store) as store, Served(Gateway(settings, store, lambda: None).asgi()) as served:
        operator = Operator(f"http://127.0.0.1:{served.port}")
        try:
            yield operator
        finally:
            operator.http.close()


@pytest.fixture(scope="session")
def gateway() -> Iterator[Operator]:
    with gateway_served() as operator:
        yield operator


@pytest.fixture
def provider() -> Iterator[Provider]:
    with provider_served() as served:
        yield served


@pytest.fixture
def bench(gateway: Operator, provider: Provider) -> Bench:
    made = Bench(gateway, provider, gateway("POST", "/tenants", {})["tenant"])
    made.connect()
    return made
