"""A provider of everything that MCP has besides tools, agents that ask for it, and agents that listen."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import mcp_types as types
from mcp import ClientSession
from mcp.server.lowlevel import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from pydantic import ConfigDict

from .conftest import TLS, VERSIONS, Bench, Operator, Served, tool

Json = dict[str, Any]
LEGACY, MODERN = VERSIONS[1], VERSIONS[-1]
ALL = ["resources", "prompts", "completion", "logging", "subscriptions", "sampling", "elicitation", "roots"]
ASKED = types.ElicitRequest(params=types.ElicitRequestFormParams(message="Which?", requested_schema={"type": "object", "properties": {}}))


@dataclass
class Wide:
    """A provider of everything, which remembers what it was asked and under which capabilities."""

    port: int = 0
    names: list[str] = field(default_factory=lambda: ["ask", "note"])
    seen: list[tuple[str, Any]] = field(default_factory=list)
    bus: InMemorySubscriptionBus = field(default_factory=InMemorySubscriptionBus)
    loop: asyncio.AbstractEventLoop | None = None
    listening: int = 0
    """Streams that are open."""
    asked: list[str] = field(default_factory=list)
    """Every method that it was asked for, those of the protocol itself too."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def app(self) -> Any:
        async def tools(ctx: Any, params: Any) -> types.ListToolsResult:
            self.loop = asyncio.get_running_loop()
            self.seen.append(("tools/list", None))
            return types.ListToolsResult(tools=[tool(name) for name in self.names], ttl_ms=0, cache_scope="public")

        async def resources(ctx: Any, params: Any) -> types.ListResourcesResult:
            page = params.cursor if params else None
            self.seen.append(("resources/list", page))
            found = [types.Resource(uri=f"memo://{2 if page else 1}", name="memo")]
            return types.ListResourcesResult(resources=found, next_cursor=None if page else "2", ttl_ms=5, cache_scope="public")

        async def templates(ctx: Any, params: Any) -> types.ListResourceTemplatesResult:
            return types.ListResourceTemplatesResult(
                resource_templates=[types.ResourceTemplate(uri_template="memo://{n}", name="memos")], ttl_ms=5, cache_scope="public"
            )

        async def read(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
            self.seen.append(("resources/read", str(params.uri)))
            if str(params.uri) != "memo://1":
                raise MCPError(-32602, "no such memo", {"uri": str(params.uri), "n": 2**70})
            return types.ReadResourceResult(contents=[types.TextResourceContents(uri=str(params.uri), text="kept")], ttl_ms=5, cache_scope="public")

        async def prompts(ctx: Any, params: Any) -> types.ListPromptsResult:
            return types.ListPromptsResult(prompts=[types.Prompt(name="greet")], ttl_ms=5, cache_scope="public")

        async def prompt(ctx: Any, params: types.GetPromptRequestParams) -> types.GetPromptResult:
            self.seen.append(("prompts/get", (params.name, params.arguments)))
            return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=types.TextContent(type="text", text="Hi"))])

        async def complete(ctx: Any, params: types.CompleteRequestParams) -> types.CompleteResult:
            self.seen.append(("completion/complete", params.ref.model_dump(exclude_none=True)))
            return types.CompleteResult(completion=types.Completion(values=["one"]))

        async def accept(ctx: Any, params: Any) -> types.EmptyResult:
            self.seen.append((ctx.method, getattr(params, "uri", None)))
            if str(params.uri) == "memo://none":
                raise MCPError(-32602, "no such memo")
            return types.EmptyResult()

        async def level(ctx: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
            self.seen.append((ctx.method, params.level))
            return types.EmptyResult()

        listen = ListenHandler(self.bus)

        async def listening(ctx: Any, params: Any) -> Any:
            self.seen.append(("listen", params.notifications.resource_subscriptions))
            self.listening += 1
            try:
                return await listen(ctx, params)
            finally:
                self.listening -= 1

        async def noted(ctx: Any, call_next: Any) -> Any:
            self.asked.append(ctx.method)
            return await call_next(ctx)

        server: Server[Any] = Server(
            "wide", version="1", on_list_tools=tools, on_call_tool=self.call, on_list_resources=resources, on_list_resource_templates=templates,
            on_read_resource=read, on_list_prompts=prompts, on_get_prompt=prompt, on_completion=complete, on_subscriptions_listen=listening,
        )  # fmt: skip
        for method, kind in (("resources/subscribe", types.SubscribeRequestParams), ("resources/unsubscribe", types.UnsubscribeRequestParams)):
            server.add_request_handler(method, kind, accept)
        server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, level)
        server.middleware.append(noted)
        return server.streamable_http_app()

    async def call(self, ctx: Any, params: types.CallToolRequestParams) -> Any:
        able = ctx.session.client_capabilities
        self.seen.append(("able", sorted(able.model_dump(exclude_none=True)) if able is not None else []))
        if params.name != "ask":
            return text("noted")
        if ctx.protocol_version == MODERN:
            if params.request_state is None:
                return types.InputRequiredResult(input_requests={"which": ASKED}, request_state="its own state")
            return text(f"{params.request_state}: {sorted(params.input_responses or {})}")
        try:
            found = await ctx.session.elicit_form("Which?", {"type": "object", "properties": {}}, ctx.request_id)
        except MCPError as error:
            return text(f"refused: {error.error.message}")
        return text(f"told: {found.action}")

    def publish(self, event: Any) -> None:
        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(self.bus.publish(event), self.loop).result(10)


@contextlib.contextmanager
def served(provider: Wide) -> Iterator[Wide]:
    with Served(provider.app()) as at:
        provider.port = at.port
        yield provider


def text(said: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


def offer(bench: Bench, *offers: str, connection: str = "notes") -> None:
    assert bench.op("PUT", f"/connections/{connection}/offers", {"offers": list(offers)})["offers"] == list(offers)


def passed(bench: Bench, run: str, event: str = "passed_on") -> list[tuple[str, str, str]]:
    return [(r["details"].get("method", ""), r["outcome"], r["reason"]) for r in bench.records(run) if r["event"] == event]


async def request(session: ClientSession, method: str, **params: Any) -> Json:
    """The result as on the wire, or the error as {"error"}."""
    kind = types.Request[Any, str]
    try:
        answer = await session.send_request(kind(method=method, params=params or None), _Any)  # type: ignore[arg-type]
    except MCPError as error:
        return {"error": error.error.model_dump(exclude_none=True)}
    return answer.model_dump(by_alias=True, mode="json")


class _Any(types.Result):
    model_config = ConfigDict(extra="allow")


def ask(bench: Bench, token: str, version: str, *requests: tuple[str, Json]) -> list[Json]:
    async def go() -> list[Json]:
        async with bench.agent(token, version) as session:
            return [await request(session, method, **params) for method, params in requests]

    return anyio.run(go)


async def until(done: Any) -> None:
    with anyio.fail_after(40):
        while not done():
            await anyio.sleep(0.01)


@contextlib.contextmanager
def listening(bench: Bench, token: str, *uris: str) -> Iterator[list[Json]]:
    """An agent of 2026-07-28 that listens; what it is told is in the list."""
    wanted = {"toolsListChanged": True, **({"resourceSubscriptions": list(uris)} if uris else {})}
    meta = {"protocolVersion": MODERN, "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}
    params = {"notifications": wanted, "_meta": {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}}
    headers = {
        "authorization": f"Bearer {token}", "accept": "application/json, text/event-stream", "content-type": "application/json",
        "mcp-protocol-version": MODERN, "mcp-method": "subscriptions/listen",
    }  # fmt: skip
    told: list[Json] = []
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}).encode()
    with (
        httpx2.Client(verify=TLS, trust_env=False, timeout=20) as http,
        http.stream("POST", bench.operator.mcp, headers=headers, content=body) as stream,
    ):
        reader = _Told(stream, told)
        reader.start()
        anyio.run(until, lambda: told)
        yield told
        # Closing alone would leave the reader waiting in its read for ever.
        with contextlib.suppress(OSError):  # the gateway may have ended it
            stream.extensions["network_stream"].get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        reader.join(10)
    assert not reader.is_alive()


class _Told(threading.Thread):
    def __init__(self, stream: httpx2.Response, told: list[Json]) -> None:
        super().__init__(daemon=True)
        self._stream = stream
        self._told = told

    def run(self) -> None:
        with contextlib.suppress(httpx2.HTTPError, httpx2.StreamError, OSError):
            for line in self._stream.iter_lines():
                if line.startswith("data:"):
                    self._told.append(json.loads(line[5:]))


def methods(told: list[Json]) -> list[str]:
    return [each["method"].removeprefix("notifications/") for each in told[1:] if "method" in each]


def connected(gateway: Operator, wide: Wide, **changes: Any) -> Bench:
    """A tenant of its own whose one connection, without a credential, leads there."""
    made = Bench(gateway, wide, gateway("POST", "/tenants", {})["tenant"])  # type: ignore[arg-type]  # its address is all that is needed
    made.connect(auth={"scheme": "none"}, credentials={}, **changes)
    return made
