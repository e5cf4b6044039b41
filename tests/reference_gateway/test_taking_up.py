"""What a provider may do besides answering: let go of a stream and go on elsewhere, ask on the stream beside, name its version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from harness.fake.kit import serve_app
from reference_gateway.background import Background
from reference_gateway.catalog import distinct
from reference_gateway.defects import Defects
from reference_gateway.egress import Egress
from reference_gateway.upstream import McpUpstream
from reference_gateway.wire import UpstreamFailure

Json = dict[str, Any]
DONE = {"content": [{"type": "text", "text": "done"}]}


def event(message: Json | None, number: int, retry: int = 1) -> str:
    return f"id: e{number}\nretry: {retry}\ndata: {'' if message is None else json.dumps(message)}\n\n"


@dataclass
class Provider:
    """`resumes`: how often its stream ends early; `numbers` whether it says where it can be taken up; `asks`: a question on the stream beside."""

    resumes: int = 0
    numbers: bool = True
    asks: bool = False
    refuses_first: bool = False
    seen: list[tuple[str, str]] = field(default_factory=list)
    answers: list[Json] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    pending: Any = None

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/mcp", self.post, methods=["POST"]), Route("/mcp", self.get, methods=["GET"])])

    async def post(self, request: Request) -> Response:
        message = json.loads(await request.body())
        method = message.get("method", "answer")
        self.seen.append(("POST", method))
        if method == "server/discover":
            return self._discovered(message)
        if method == "initialize":
            told = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "p", "version": "1"}}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": told}, headers={"mcp-session-id": "s1"})
        if method == "answer":
            self.answers.append(message)
            self.asked.set()
        if method != "tools/call":
            return Response(status_code=202)
        self.pending = message["id"]
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    def _discovered(self, message: Json) -> Response:
        if self.refuses_first:
            self.refuses_first = False
            data = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
            return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32022, "message": "no", "data": data}}, 400)
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], "result": {"supportedVersions": ["2026-07-28"], "capabilities": {}}})

    async def get(self, request: Request) -> Response:
        last = request.headers.get("last-event-id", "")
        self.seen.append(("GET", last))
        if not last:
            return StreamingResponse(self._beside(), media_type="text/event-stream") if self.asks else Response(status_code=405)
        self.resumes -= 1
        return StreamingResponse(self._stream(), media_type="text/event-stream")

    async def _stream(self) -> Any:
        if self.asks:
            await self.asked.wait()
        if self.resumes > 0:
            yield event(None, 10 - self.resumes) if self.numbers else ": nothing yet\n\n"
            return
        yield f"data: {json.dumps({'jsonrpc': '2.0', 'id': self.pending, 'result': DONE})}\n\n"

    async def _beside(self) -> Any:
        yield event({"jsonrpc": "2.0", "id": "q1", "method": "elicitation/create", "params": {"message": "?"}}, 1)
        await self.asked.wait()


def with_upstream(provider: Provider, work: Callable[[McpUpstream], Awaitable[None]], **more: Any) -> None:
    async def run() -> None:
        egress, background = Egress(allow_loopback=True), Background()
        async with serve_app(provider.app()) as base:
            upstream = McpUpstream(egress.lines, f"{base}/mcp", dict, background, **more)
            try:
                await work(upstream)
            finally:
                await upstream.close()
                await background.close(drain=1.0)
                await egress.aclose()

    asyncio.run(run())


async def called(upstream: McpUpstream) -> Json:
    reply, _ = await upstream.request("tools/call", {"name": "t", "arguments": {}}, era="legacy", limit=100_000)
    return reply.result


@pytest.mark.parametrize("times", [1, 3])
def test_a_stream_that_was_let_go_is_taken_up_where_it_ended(times: int) -> None:
    provider = Provider(resumes=times)

    async def work(upstream: McpUpstream) -> None:
        assert await called(upstream) == DONE

    with_upstream(provider, work)
    assert [seen for seen in provider.seen if seen[1] == "tools/call"] == [("POST", "tools/call")]  # one call, however often it is resumed
    assert [seen[1] for seen in provider.seen if seen[0] == "GET"] == [f"e{10 - left}" for left in range(times, 0, -1)]


@pytest.mark.parametrize("provider", [Provider(resumes=1, numbers=False), Provider(resumes=99)], ids=["unnumbered", "endless"])
def test_a_stream_that_leads_nowhere_fails_the_call_once(provider: Provider) -> None:
    async def work(upstream: McpUpstream) -> None:
        with pytest.raises(UpstreamFailure) as caught:
            await called(upstream)
        assert caught.value.reason == "mcp_remote_fetch_failed"

    with_upstream(provider, work)
    assert [seen for seen in provider.seen if seen[1] == "tools/call"] == [("POST", "tools/call")]
    assert len(provider.seen) < 20


def test_what_is_asked_beside_a_call_is_answered() -> None:
    provider = Provider(asks=True)

    async def asked(method: str, params: Json) -> Json | None:
        return {"action": "accept", "content": {}} if method == "elicitation/create" else None

    async def work(upstream: McpUpstream) -> None:
        assert await called(upstream) == DONE

    with_upstream(provider, work, abilities={"elicitation": {}}, asked=asked)
    assert provider.answers == [{"jsonrpc": "2.0", "id": "q1", "result": {"action": "accept", "content": {}}}]


def test_a_version_that_is_refused_and_named_is_offered_once_more() -> None:
    provider = Provider(refuses_first=True)

    async def work(upstream: McpUpstream) -> None:
        assert (await upstream.session("modern")).version == "2026-07-28"

    with_upstream(provider, work)
    assert provider.seen == [("POST", "server/discover")] * 2


@pytest.mark.parametrize("header", ["", "a b", "Ä", 7])
def test_a_tool_whose_headers_cannot_be_made_is_no_tool(header: object) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": header}}}
    kept, dropped = distinct([{"name": "bad", "inputSchema": schema}, {"name": "good", "inputSchema": {"type": "object"}}], Defects())
    assert ([tool["name"] for tool in kept], dropped) == (["good"], {"unusable_headers": 1})
