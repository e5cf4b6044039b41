"""Each fault, as a gateway's HTTP client sees it, and as the log names it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import pytest

from harness.errors import UsageError
from harness.tap import (
    FAULT_KINDS,
    Announce,
    Duplicate,
    Empty,
    Fault,
    GzipBomb,
    Hang,
    Html,
    InvalidJson,
    IsError,
    Latency,
    Oversize,
    Reset,
    RpcError,
    Status,
    StubReply,
    Truncated,
    WrongId,
    make_fault,
)

pytestmark = pytest.mark.anyio

MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "search"}
ACCEPT = {"accept": "application/json, text/event-stream"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def modern(bench: Any, tool: str = "search", rpc_id: Any = 1, **arguments: Any) -> dict[str, Any]:
    request: dict[str, Any] = bench.call(tool, arguments, rpc_id)
    request["params"]["_meta"] = META
    return request


async def ask(bench: Any, mount: Any, **keys: Any) -> httpx2.Response:
    headers = {**MODERN, **ACCEPT, "mcp-name": keys.get("tool", "search")}
    answer: httpx2.Response = await bench.http.post(mount.url("/mcp"), json=modern(bench, **keys), headers=headers)
    return answer


def events(text: str) -> list[Any]:
    return [json.loads(line[5:]) for line in text.splitlines() if line.startswith("data:")]


@pytest.mark.parametrize(
    ("fault", "status", "body"),
    [
        (Status(code=503), 503, {"error": "Service Unavailable"}),
        (Status(code=409, body='{"detail":"no"}'), 409, {"detail": "no"}),
        (IsError(text="no"), 200, {"resultType": "complete", "content": [{"type": "text", "text": "no"}], "isError": True}),
        (StubReply(result={"content": [], "structuredContent": {"a": 1}}), 200,
         {"resultType": "complete", "content": [], "structuredContent": {"a": 1}}),
        (RpcError(code=-32000, message="m", data=[1]), 200, {"code": -32000, "message": "m", "data": [1]}),
    ],
    ids=lambda value: getattr(value, "kind", None),
)  # fmt: skip
async def test_made_up_answers(bench: Any, fault: Fault, status: int, body: Any) -> None:
    async with bench.provider() as (provider, mount):
        mount.faults.append(fault)
        answer = await ask(bench, mount)
        got = answer.json()
        assert answer.status_code == status
        assert got.get("result", got.get("error") if "jsonrpc" in got else got) == body
        assert provider.calls == []
        (seen,) = mount.dispatches()
        assert (seen.outcome, seen.fault, seen.forwarded, seen.status) == ("fault", fault.kind, False, status)
        assert seen.is_error is (True if fault.kind == "is-error" else False if fault.kind == "stub-reply" else None)
        assert seen.rpc_error_code == (-32000 if fault.kind == "rpc-error" else None)


async def test_status_headers(bench: Any) -> None:
    async with bench.provider() as (_, mount):
        mount.faults += [
            Status(code=429, retry_after="3", times=1),
            Status(code=401, headers=(("WWW-Authenticate", 'Bearer error="invalid_token"'),), nth=2, times=1),
            Status(code=403, body="<b>no</b>", content_type="text/html", nth=3),
        ]
        limited, challenged, forbidden = [await ask(bench, mount) for _ in range(3)]
        assert (limited.status_code, limited.headers["retry-after"]) == (429, "3")
        assert (challenged.status_code, challenged.headers["www-authenticate"]) == (401, 'Bearer error="invalid_token"')
        assert (forbidden.status_code, forbidden.headers["content-type"], forbidden.text) == (403, "text/html", "<b>no</b>")


async def test_latency_holds_the_answer_on_the_clock(bench: Any) -> None:
    async with bench.provider() as (provider, mount):
        mount.faults.append(Latency(seconds=12))
        running = asyncio.create_task(ask(bench, mount))
        await mount.wait_for(lambda seen: bool(seen) and seen[0].fault == "latency")
        assert provider.calls == [("search", {})]  # carried out, the gateway does not know
        await bench.clock.advance(11.9)
        assert not running.done()
        await bench.clock.advance(0.2)
        assert (await running).json()["result"]["structuredContent"] == {"got": {}}
        assert (mount.dispatches()[0].outcome, mount.dispatches()[0].fault) == ("answered", "latency")


async def test_latency_can_hold_the_request(bench: Any) -> None:
    async with bench.provider() as (provider, mount):
        mount.faults += [Latency(seconds=5, at="request"), Status(code=500)]
        running = asyncio.create_task(ask(bench, mount))
        await mount.wait_for(lambda seen: bool(seen) and seen[0].fault == "latency")
        await bench.clock.advance(5)
        assert (await running).status_code == 500
        assert provider.calls == []
        assert mount.dispatches()[0].fault == "latency,status"


@pytest.mark.parametrize("phase", ["request", "answer"])
async def test_reset(bench: Any, phase: Any) -> None:
    async with bench.provider() as (provider, mount):
        mount.faults.append(Reset(at=phase))
        with pytest.raises(httpx2.ReadError):
            await ask(bench, mount)
        (seen,) = mount.dispatches()
        assert (seen.outcome, seen.fault, seen.forwarded, seen.status) == ("fault", "reset", phase == "answer", None)
        assert len(provider.calls) == (1 if phase == "answer" else 0)


@pytest.mark.parametrize("phase", ["request", "answer"])
async def test_hang_lasts_until_the_gateway_hangs_up(bench: Any, phase: Any) -> None:
    async with bench.provider() as (provider, mount):
        mount.faults.append(Hang(at=phase))
        running = asyncio.create_task(ask(bench, mount))
        await mount.wait_for(lambda seen: bool(seen) and seen[0].fault == "hang")
        await bench.clock.advance(3600)
        assert not running.done()
        assert len(provider.calls) == (1 if phase == "answer" else 0)
        running.cancel()
        (seen,) = await mount.wait_for(lambda seen: seen[0].outcome is not None)
        assert (seen.outcome, seen.fault) == ("client_gone", "hang")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_truncated(bench: Any, version: str) -> None:
    async with bench.provider() as (provider, mount):
        if version == "2025-11-25":
            async with bench.session(mount.url("/mcp"), version) as session:
                mount.faults.append(Truncated(rpc_method="tools/call"))
                with pytest.raises(Exception):  # noqa: B017  # how the SDK says so is its own affair
                    await session.call_tool("search", {}, read_timeout_seconds=2)
        else:
            mount.faults.append(Truncated())
            with pytest.raises(httpx2.RemoteProtocolError):
                await ask(bench, mount)
        (seen,) = mount.dispatches()
        assert (seen.outcome, seen.fault, seen.status, seen.result) == ("fault", "truncated", 200, None)
        assert seen.response_bytes > 20
        assert len(provider.calls) == 1


@pytest.mark.parametrize("rpc_id", [1, "one"])
async def test_wrong_id(bench: Any, rpc_id: Any) -> None:
    async with bench.provider() as (_, mount):
        mount.faults.append(WrongId())
        got = (await ask(bench, mount, rpc_id=rpc_id)).json()
        assert got["id"] != rpc_id
        assert type(got["id"]) is type(rpc_id)
        assert got["result"]["structuredContent"] == {"got": {}}
        assert (mount.dispatches()[0].outcome, mount.dispatches()[0].fault) == ("fault", "wrong-id")


async def test_duplicate_of_a_json_answer(bench: Any) -> None:
    async with bench.provider() as (provider, mount):
        mount.faults.append(Duplicate())
        answer = await ask(bench, mount)
        assert answer.headers["content-type"] == "text/event-stream"
        first, second = events(answer.text)
        assert first == second
        assert first["result"]["structuredContent"] == {"got": {}}
        assert (mount.dispatches()[0].fault, len(provider.calls)) == ("duplicate", 1)


async def test_an_announcement_comes_before_the_answer_on_the_same_stream_and_is_not_taken_for_it(bench: Any) -> None:
    async with bench.provider() as (provider, mount):
        mount.faults.append(Announce(times=1))
        answer = await ask(bench, mount)
        assert answer.headers["content-type"] == "text/event-stream"
        news, told = events(answer.text)
        assert news == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        assert told["result"]["structuredContent"] == {"got": {}}
        seen = mount.dispatches()[0]
        assert (seen.fault, seen.is_error, seen.result["structuredContent"], len(provider.calls)) == ("announce", False, {"got": {}}, 1)
        assert "method" not in (await ask(bench, mount)).json()


async def test_duplicate_and_wrong_id_within_an_event_stream(bench: Any) -> None:
    async with bench.provider() as (provider, mount):
        provider.gate.set()
        mount.faults += [Duplicate(), WrongId()]
        request = modern(bench, "slow")
        request["params"]["_meta"] = {**META, "progressToken": 5}
        answer = await bench.http.post(mount.url("/mcp"), json=request, headers={**MODERN, **ACCEPT, "mcp-name": "slow"})
        progress, first, second = events(answer.text)
        assert progress["method"] == "notifications/progress"
        assert first["id"] == second["id"] != 1
        assert mount.dispatches()[0].fault == "duplicate,wrong-id"


async def test_oversize_and_bomb_are_made_as_they_are_sent(bench: Any) -> None:
    async with bench.provider() as (_, mount):
        mount.faults += [Oversize(size=3_000_000, times=1), GzipBomb(size=5_000_000, nth=2)]
        plain, bomb = await ask(bench, mount), await ask(bench, mount)
        assert len(plain.json()["result"]["content"][0]["text"]) == 3_000_000
        assert bomb.headers["content-encoding"] == "gzip"
        assert len(bomb.json()["result"]["content"][0]["text"]) == 5_000_000
        first, second = mount.dispatches()
        assert (first.fault, second.fault) == ("oversize", "gzip-bomb")
        assert first.response_bytes > 3_000_000
        assert second.response_bytes < 20_000
        assert first.result is None


async def test_a_client_that_stops_reading_stops_the_flood(bench: Any) -> None:
    async with bench.provider() as (_, mount):
        mount.faults.append(Oversize(size=10**12))
        async with bench.http.stream("POST", mount.url("/mcp"), json=modern(bench), headers={**MODERN, **ACCEPT}) as answer:
            await anext(answer.aiter_raw())
        (seen,) = await mount.wait_for(lambda seen: seen[0].outcome is not None)
        assert (seen.outcome, seen.fault) == ("client_gone", "oversize")
        assert seen.response_bytes < 10**8


@pytest.mark.parametrize(
    ("fault", "content_type"),
    [
        (Html(), "text/html; charset=utf-8"),
        (Empty(), "application/json"),
        (Empty(stream=True), "text/event-stream"),
        (InvalidJson(), "application/json"),
    ],
)
async def test_answers_that_are_none(bench: Any, fault: Fault, content_type: str) -> None:
    async with bench.provider() as (_, mount):
        mount.faults.append(fault)
        answer = await ask(bench, mount)
        assert (answer.status_code, answer.headers["content-type"]) == (200, content_type)
        assert (answer.content == b"") is isinstance(fault, Empty)
        with pytest.raises(json.JSONDecodeError):
            answer.json()
        (seen,) = mount.dispatches()
        assert (seen.outcome, seen.fault, seen.result, seen.is_error) == ("fault", fault.kind, None, None)


async def test_a_fault_on_a_rest_operation_answers_in_its_form(bench: Any) -> None:
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("p", url, operations=[("POST", "/api/v1/recall", "recall")])
        mount.faults += [StubReply(result=[{"text": "made up"}], tool="recall", times=1), WrongId()]
        assert (await bench.http.post(mount.url("/api/v1/recall"), json={})).json() == [{"text": "made up"}]
        assert (await bench.http.post(mount.url("/api/v1/recall"), json={})).status_code == 409
        assert [e.fault for e in mount.exchanges] == ["stub-reply", None]


async def test_matching_by_tool_method_occurrence_and_times(bench: Any) -> None:
    async with bench.provider() as (_, mount):
        mount.faults += [IsError(tool="search", nth=2, times=2), Status(code=500, rpc_method="tools/list")]
        for tool in ("search", "add_memory", "search", "search", "add_memory", "search"):
            assert (await ask(bench, mount, tool=tool)).status_code == 200
        assert [e.is_error for e in mount.dispatches("search")] == [False, True, True, False]
        assert [e.fault for e in mount.dispatches("add_memory")] == [None, None]
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}
        assert (await bench.http.post(mount.url("/mcp"), json=listing)).status_code == 500


async def test_equal_faults_count_apart_and_a_removed_one_is_forgotten(bench: Any) -> None:
    async with bench.provider() as (_, mount):
        mount.faults += [Status(code=500, times=1), Status(code=500, nth=2, times=1)]
        assert [(await ask(bench, mount)).status_code for _ in range(3)] == [500, 500, 200]
        mount.faults[:] = [Status(code=500, times=1)]
        assert [(await ask(bench, mount)).status_code for _ in range(2)] == [500, 200]


def test_faults_are_made_by_their_word() -> None:
    assert make_fault("status", code=503, tool="x") == Status(code=503, tool="x")
    assert set(FAULT_KINDS) == {
        "latency", "reset", "hang", "truncated", "wrong-id", "duplicate", "announce", "status", "oversize", "gzip-bomb", "html", "empty",
        "invalid-json", "is-error", "rpc-error", "stub-reply",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "settings", "fix"),
    [("statuss", {}, "status"), ("status", {"cod": 1}, "code"), ("status", {}, "settings are"), ("reset", {"at": 1, "x": 1}, "use one of")],
)
def test_a_fault_that_is_none_says_what_would_be(kind: str, settings: dict[str, Any], fix: str) -> None:
    with pytest.raises(UsageError) as caught:
        make_fault(kind, **settings)
    assert fix in caught.value.fix
