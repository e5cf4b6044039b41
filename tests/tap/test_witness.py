"""The witness in front of a real MCP server: attribution, order, live streaming, cancellation, at every protocol version."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from harness.errors import Incomplete
from harness.model.digest import json_digest
from harness.tap import Stray

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("json_response", [False, True], ids=["sse", "json"])
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_call_is_attributed_and_its_answer_read(bench: Any, version: str, json_response: bool) -> None:
    arguments = {"text": "hé", "count": 2**70 + 1}
    async with bench.provider(json_response=json_response) as (provider, mount), bench.session(mount.url("/mcp"), version) as session:
        await session.list_tools()
        result = await session.call_tool("add_memory", arguments)
        assert result.structured_content == {"got": arguments}
        assert provider.calls == [("add_memory", arguments)]
        assert mount.discoveries == 1
        (seen,) = mount.dispatches()
        assert (seen.tool, seen.arguments, seen.rpc_method, seen.method, seen.path) == (
            "add_memory", arguments, "tools/call", "POST", "/mcp",
        )  # fmt: skip
        expected = '{"count":1180591620717411303425,"text":"hé"}'
        assert seen.arguments_digest == hashlib.sha256(expected.encode()).hexdigest()
        assert (seen.protocol_version, seen.status, seen.is_error, seen.outcome, seen.fault) == (version, 200, False, "answered", None)
        assert seen.forwarded
        assert seen.result["structuredContent"] == {"got": arguments}
        assert seen.result_digest == json_digest(seen.result)
        assert seen.ended_seq is not None
        assert seen.started_seq < seen.ended_seq < bench.sequencer.next()
        listing = next(e for e in mount.exchanges if e.rpc_method == "tools/list")
        assert listing.n < seen.n
        assert listing.ended_seq < seen.started_seq
        assert mount.dispatches("search") == ()


@pytest.mark.parametrize("version", VERSIONS)
async def test_errors_of_both_kinds_are_told_apart(bench: Any, version: str) -> None:
    async with bench.provider() as (_, mount), bench.session(mount.url("/mcp"), version) as session:
        await session.list_tools()
        assert (await session.call_tool("add_memory", {"text": "refuse"})).is_error
        with pytest.raises(Exception, match="kaboom"):
            await session.call_tool("boom", {})
        refused, broke = mount.dispatches()
        assert (refused.is_error, refused.rpc_error_code) == (True, None)
        assert (broke.is_error, broke.rpc_error_code, broke.result) == (None, -32042, None)


@pytest.mark.parametrize("version", VERSIONS)
async def test_progress_passes_before_the_answer_exists(bench: Any, version: str) -> None:
    told = asyncio.Event()

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        told.set()

    async with bench.provider() as (provider, mount), bench.session(mount.url("/mcp"), version) as session:
        await session.list_tools()
        running = asyncio.create_task(session.call_tool("slow", {}, progress_callback=on_progress))
        await asyncio.wait_for(told.wait(), 10)  # the provider still waits for its gate
        assert mount.dispatches()[0].outcome is None
        assert mount.dispatches()[0].ended_seq is None
        provider.gate.set()
        await running
        assert mount.dispatches()[0].outcome == "answered"


async def test_a_gateway_that_hangs_up_cancels_the_provider(bench: Any) -> None:
    async with bench.provider() as (provider, mount):
        request = {**bench.call("slow"), "params": {"name": "slow", "_meta": _MODERN}}
        headers = {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "slow",
            "accept": "application/json, text/event-stream",
        }
        running = asyncio.create_task(bench.http.post(mount.url("/mcp"), json=request, headers=headers))
        await mount.wait_for(lambda seen: any(e.status == 200 for e in seen) or bool(provider.calls))
        running.cancel()
        await asyncio.wait_for(provider.cancelled.wait(), 10)
        (seen,) = await mount.wait_for(lambda seen: seen[0].outcome is not None)
        assert seen.outcome == "client_gone"


_BOTH = "application/json, text/event-stream"
_MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
    "progressToken": 1,
}


@pytest.mark.parametrize("version", VERSIONS)
async def test_fifty_concurrent_calls_keep_their_answers(bench: Any, version: str) -> None:
    async with bench.provider() as (_, mount), bench.session(mount.url("/mcp"), version) as session:
        await session.list_tools()
        results = await asyncio.gather(*[session.call_tool("search", {"query": f"q{n}"}) for n in range(50)])
        assert [result.structured_content["got"]["query"] for result in results] == [f"q{n}" for n in range(50)]
        seen = mount.dispatches("search")
        assert sorted(e.arguments["query"] for e in seen) == sorted(f"q{n}" for n in range(50))
        assert all(e.result["structuredContent"]["got"] == e.arguments for e in seen)
        assert len({e.arguments_digest for e in seen}) == 50
        numbers = [number for e in mount.exchanges for number in (e.started_seq, e.ended_seq) if number is not None]
        assert len(set(numbers)) == len(numbers)
        assert [e.n for e in mount.exchanges] == list(range(1, len(mount.exchanges) + 1))


async def test_two_mounts_on_one_provider_are_kept_apart(bench: Any) -> None:
    async with bench.provider() as (_, first):
        second = bench.tap.mount("other", first.upstream.origin)
        async with bench.session(first.url("/mcp"), "2026-07-28") as a, bench.session(second.url("/mcp"), "2026-07-28") as b:
            await asyncio.gather(a.call_tool("search", {"query": "a"}), b.call_tool("search", {"query": "b"}))
        assert [e.arguments for e in first.dispatches()] == [{"query": "a"}]
        assert [e.arguments for e in second.dispatches()] == [{"query": "b"}]
        assert {e.mount for e in second.exchanges} == {"other"}


async def test_traceparent_comes_from_meta_or_else_the_header(bench: Any) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("p", url)
        request = bench.call("x")
        await bench.http.post(mount.url("/api/v1/remember"), json=request, headers={"traceparent": trace})
        request["params"]["_meta"] = {"traceparent": trace[:-1] + "0"}
        await bench.http.post(mount.url("/api/v1/remember"), json=request, headers={"traceparent": trace})
        assert [e.traceparent for e in mount.exchanges] == [trace, trace[:-1] + "0"]


async def test_a_call_that_names_its_tool_twice_is_no_call_that_could_be_attributed(bench: Any) -> None:
    """The provider may read the first name where the witness reads the last one; so it is none, and its absence is noticed."""
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"delete_all","name":"add_memory","arguments":{}}}'
    async with bench.provider() as (_, mount):
        await bench.http.post(mount.url("/mcp"), content=body, headers={"Content-Type": "application/json"})
        (seen,) = mount.exchanges
        assert (seen.rpc_method, seen.tool, seen.request_bytes) == (None, None, len(body))
        assert mount.dispatches() == ()


async def test_time_comes_from_the_clock(bench: Any) -> None:
    await bench.clock.advance(61.5)
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("p", url)
        await bench.http.get(mount.url("/api/v1/datasets/"))
        assert mount.exchanges[0].at == "2026-01-01T00:01:01.500000Z"


async def test_a_row_without_a_tool_is_a_request_that_carries_out_none(bench: Any) -> None:
    operations = [("GET", "/api/v1/none", None), ("GET", "/api/v1/{id}", "get")]
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("papr", url, operations=operations)
        for path in ("none", "some"):
            await bench.http.get(mount.url(f"/api/v1/{path}"))
        assert [e.tool for e in mount.exchanges] == [None, "get"]
        assert len(mount.dispatches()) == 1


async def test_rest_requests_carry_the_tool_of_their_operation(bench: Any) -> None:
    operations = [("POST", "/api/v1/remember", "remember"), ("POST", "/api/v1/recall", "recall"), ("GET", "/api/v1/{any}", "list")]
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("cognee", url, operations=operations)
        await bench.http.post(mount.url("/api/v1/remember"), json={"b": 1, "a": "ü"})
        await bench.http.post(mount.url("/api/v1/recall"), json={"query": "x"})
        await bench.http.post(mount.url("/api/v1/remember"), files={"data": b"text"})
        await bench.http.get(mount.url("/api/v1/datasets?x=1"))
        await bench.http.get(mount.url("/other"))
        stored, refused, upload, redirected, other = mount.exchanges
        assert (stored.tool, stored.arguments, stored.arguments_digest) == ("remember", {"b": 1, "a": "ü"}, json_digest({"a": "ü", "b": 1}))
        assert stored.result["stored"] == len('{"b":1,"a":"ü"}'.encode())
        assert (refused.tool, refused.status, refused.result, refused.is_error) == ("recall", 409, {"detail": "not indexed"}, None)
        assert (upload.tool, upload.arguments, upload.arguments_digest, upload.outcome) == ("remember", None, None, "answered")
        assert upload.request_bytes > 4
        assert (redirected.tool, redirected.path, redirected.status) == ("list", "/api/v1/datasets", 307)
        assert other.tool is None
        assert [e.tool for e in mount.dispatches()] == ["remember", "recall", "remember", "list"]
        assert len(mount.dispatches("recall")) == 1


async def test_what_no_mount_stands_for_is_a_stray(bench: Any) -> None:
    mount = bench.tap.mount("gone", "http://127.0.0.1:9")
    mount.close()
    for url in (mount.url("/mcp"), bench.tap.url + "/", bench.tap.url + "/m/", bench.tap.url + "/mcp"):
        answer = await bench.http.post(url, json={})
        assert (answer.status_code, "error" in answer.json()) == (404, True)
    assert [(s.method, s.path) for s in bench.tap.strays] == [("POST", "/m/gone/mcp"), ("POST", "/"), ("POST", "/m/"), ("POST", "/mcp")]
    assert all(isinstance(s, Stray) and s.host.startswith("127.0.0.1") for s in bench.tap.strays)
    assert mount.exchanges == ()


async def test_waiting_in_vain_says_where_and_what(bench: Any) -> None:
    mount = bench.tap.mount("quiet", "http://127.0.0.1:9")
    with pytest.raises(Incomplete) as caught:
        await mount.wait_for(lambda seen: len(seen) == 1, timeout=0.05)
    assert "quiet" in caught.value.where
    assert caught.value.fix
