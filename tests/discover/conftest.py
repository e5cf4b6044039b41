"""Loopback servers for discovery: real ones of the SDK, and raw ones that misbehave."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import mcp_types as t
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from harness.fake.kit import serve_app

CONTEXT = ssl.create_default_context()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """The base URL of `app` on a port that the system chose."""
    async with serve_app(app) as base_url:
        yield base_url


@asynccontextmanager
async def http_client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(verify=CONTEXT, trust_env=False, timeout=10) as client:
        yield client


def sdk_app(pages: dict[str | None, tuple[list[t.Tool], str | None]], **options: Any) -> Any:
    """A real MCP server whose list is `pages`: cursor (None first) → tools and next cursor."""

    async def list_tools(_ctx: Any, params: Any) -> t.ListToolsResult:
        tools, following = pages[params.cursor if params is not None else None]
        return t.ListToolsResult(tools=tools, next_cursor=following, ttl_ms=0, cache_scope="private")

    server: Any = Server("demo", version="7", instructions="Be kind.", on_list_tools=list_tools)
    return server.streamable_http_app(**options)


def raw_app(answer: Callable[[dict[str, Any]], Any]) -> Starlette:
    """A server that says what `answer` returns: a dict is sent as JSON, a Response as it is."""

    async def endpoint(request: Request) -> Response:
        if request.method == "DELETE":
            return Response(status_code=204)
        given = answer(json.loads(await request.body()))
        return given if isinstance(given, Response) else JSONResponse(given)

    return Starlette(routes=[Route("/mcp", endpoint, methods=["POST", "DELETE"])])


def legacy(pages: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    """An older server: declines server/discover, shakes hands, and lets `pages` answer tools/list."""

    def answer(body: dict[str, Any]) -> Any:
        method, request_id = body["method"], body.get("id")
        if method == "initialize":
            result = {"protocolVersion": body["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "raw"}}
            return {"jsonrpc": "2.0", "id": request_id, "result": result}
        if method == "tools/list":
            given = pages(body)
            return given if isinstance(given, Response) or "jsonrpc" in given else {"jsonrpc": "2.0", "id": request_id, "result": given}
        if request_id is None:
            return Response(status_code=202)
        return {"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601, "message": "unknown method"}}

    return answer
