"""A server on standard input and output, behind HTTP: it works, it is recorded and replayed like any other, and no process is left."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import psutil
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from harness.cassette.events import event_data, split_events
from harness.cassette.redact import Redactor
from harness.cassette.seal import Draft, seal
from harness.cassette.store import parse_cassette
from harness.clock import SystemClock
from harness.local.stdio import StdioCommand, behind_http
from harness.local.stdio_process import BACKLOG, StdioProcess
from harness.model.exchange import Sequencer
from harness.tap import Tap
from harness.tap.record import Recorder
from harness.tap.replay import Player
from tests.tap.test_listening_replayed import converse

SERVER = """\
import asyncio, os, sys
import mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

async def tools(ctx, params):
    print("a stray line on standard error", file=sys.stderr)
    return t.ListToolsResult(tools=[t.Tool(name="echo", input_schema={"type": "object"})], ttl_ms=0, cache_scope="private")

async def call(ctx, params):
    if params.name == "die":
        os._exit(3)
    await ctx.session.report_progress(1, 2, "half way")
    said = f"{params.arguments['word']} in {os.environ.get('ROOM', 'nowhere')} {os.environ.get('SECRET', '')}"
    return t.CallToolResult(content=[t.TextContent(type="text", text=said)])

async def main():
    server = Server("on stdio", version="3", on_list_tools=tools, on_call_tool=call)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())

asyncio.run(main())
"""


async def talk(url: str, http: httpx2.AsyncClient) -> tuple[list[str], list[str], list[Any]]:
    progress: list[Any] = []

    async def half(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async with Client(streamable_http_client(url, http_client=http), mode="legacy") as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        said = [(await client.call_tool("echo", {"word": word}, progress_callback=half)).content[0].text for word in ("cobalt", "amber")]  # type: ignore[union-attr]
    return names, said, progress


def draft() -> Draft:
    return Draft(
        provider="p", scenario="S", connection="p", recorder="test", recorded_at="local", now=datetime(2026, 11, 30, tzinfo=UTC), endpoint="test",
        path="/mcp", agent_protocol="2025-11-25", pin="2025-11-25", schema_level="local", memory_level="local", inventory="", values={}, addresses=(),
        hash_prose=False,
    )  # fmt: skip


def test_a_server_on_stdio_is_recorded_and_replayed_like_any_other(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("SECRET", "not-for-a-child")
    command = StdioCommand((sys.executable, "-c", SERVER), {"ROOM": "the attic"}, tmp_path / "server.log")

    async def whole() -> None:
        clock = SystemClock()
        async with Tap(clock, Sequencer()) as tap, httpx2.AsyncClient(trust_env=False, timeout=30) as http:
            async with behind_http(command) as base_url:
                mount = tap.mount("stdio", base_url)
                mount.recorder = Recorder()
                then = await talk(mount.url("/mcp"), http)
                await mount.wait_for(lambda seen: any(e.method == "DELETE" and e.outcome for e in seen))
                cassette = parse_cassette(seal(draft(), mount.recorder.finished(), Redactor()).decode(), "x")
            assert then == (["echo"], ["cobalt in the attic ", "amber in the attic "], [(1, 2, "half way")] * 2)
            assert servers() == []
            again = tap.mount("again", "http://127.0.0.1:9")
            again.player = Player(cassette, str, again.url)
            assert await talk(again.url("/mcp"), http) == then
            assert again.player.unmatched == []

    asyncio.run(whole())
    assert "a stray line" in (tmp_path / "server.log").read_text(encoding="utf-8")


def servers() -> list[list[str]]:
    """Command lines of our children, without what lives for the worker's life: the child that compares schemas, and trackers."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            line = child.cmdline()
            if not any(word in " ".join(line) for word in ("harness.drift.related", "multiprocessing")):
                found.append(line)
    return found


def test_a_server_that_dies_ends_its_calls_and_is_no_session_any_more(tmp_path: Path) -> None:
    command = StdioCommand((sys.executable, "-c", SERVER), {}, tmp_path / "server.log")
    who = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}

    async def whole() -> list[int]:
        async with behind_http(command) as base_url, httpx2.AsyncClient(trust_env=False, timeout=30, base_url=base_url) as http:
            first = await http.post("/mcp", json=hello)
            session = {"mcp-session-id": first.headers["mcp-session-id"]}
            await http.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=session)
            died = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "die"}}, headers=session)
            assert died.text == ""
            after = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 3, "method": "ping"}, headers=session)
            stranger = await http.post("/mcp", json={"jsonrpc": "2.0", "id": 4, "method": "ping"}, headers={"mcp-session-id": "x"})
            broken = await http.post("/mcp", content=b"{", headers=session)
            ended = [await http.delete("/mcp", headers=session) for _ in range(2)]
            return [r.status_code for r in (first, died, after, stranger, broken, *ended)]

    assert asyncio.run(whole()) == [200, 200, 502, 404, 400, 200, 404]
    assert servers() == []


# ---- 2026-07-28: no session, so a caller is known by his credential

NOTES = Path(__file__).parents[1] / "cassette" / "notes_server.py"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def asking(method: str, params: dict[str, Any], number: Any = 1) -> dict[str, Any]:
    """With the envelope of this version, and a progress token that equals the id."""
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": {**META, "progressToken": number}}}


def calling(tool: str, arguments: dict[str, Any], number: Any = 1) -> dict[str, Any]:
    return asking("tools/call", {"name": tool, "arguments": arguments}, number)


def said(answer: bytes) -> list[dict[str, Any]]:
    return [json.loads(data) for event in split_events(answer) if (data := event_data(event))]


def test_without_sessions_it_is_recorded_and_replayed_too_and_each_caller_has_a_process(tmp_path: Path) -> None:
    command = StdioCommand((sys.executable, str(NOTES)), {}, tmp_path / "server.log", {"NOTES_KEY": "synthetic-key-0123"}, modern=True)

    async def whole() -> None:
        async with Tap(SystemClock(), Sequencer()) as tap, httpx2.AsyncClient(trust_env=False, timeout=30) as http:
            async with behind_http(command) as base_url:
                mount = tap.mount("notes", base_url)
                mount.recorder = Recorder()
                then = await converse(mount.url("/mcp"), http, ask_first=False)
                await mount.wait_for(lambda seen: all(e.outcome is not None for e in seen))
                cassette = parse_cassette(seal(draft(), mount.recorder.finished(), Redactor()).decode(), "x")
                assert len(servers()) == 1
                await equal_ids_at_the_same_time(http, f"{base_url}/mcp")
                await another_caller(http, f"{base_url}/mcp")
                assert len(servers()) == 2
            assert (then["new"], then["event"]) == (["fresh"], "ToolsListChanged")
            assert servers() == []
            again = tap.mount("again", "http://127.0.0.1:9")
            again.player = Player(cassette, str, again.url)
            assert await converse(again.url("/mcp"), http, ask_first=True) == then
            assert again.player.unmatched == []

    asyncio.run(whole())
    assert "called ask with [secret:env:NOTES_KEY]" in (tmp_path / "server.log").read_text(encoding="utf-8")


async def equal_ids_at_the_same_time(http: httpx2.AsyncClient, url: str) -> None:
    """Two requests of one caller under the id 1: each gets its own answer, under that id; and a stream that is left is cancelled."""
    listen = asking("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    async with http.stream("POST", url, json=listen) as standing:
        parts, got = standing.aiter_raw(), bytearray()
        got += await anext(parts)
        progress, answer = said((await http.post(url, json=calling("search_notes", {"query": "none"}))).content)
        assert (progress["params"]["progressToken"], answer["id"]) == (1, 1)
        await http.post(url, json=calling("change", {}))
        while b"list_changed" not in got:
            got += await anext(parts)
    assert {message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] for message in said(bytes(got))} == {1}


async def another_caller(http: httpx2.AsyncClient, url: str) -> None:
    await http.post(url, json=calling("add_note", {"text": "mine"}))
    find = calling("search_notes", {"query": "mine"})
    (mine, theirs) = [said((await http.post(url, json=find, headers=who)).content)[-1]["result"] for who in ({}, {"authorization": "Bearer other"})]
    assert [len(found["structuredContent"]["results"]) for found in (mine, theirs)] == [1, 0]


def test_a_command_of_the_handshake_era_is_not_asked_otherwise(tmp_path: Path) -> None:
    command = StdioCommand(("no-such-command-anywhere",), {}, tmp_path / "server.log")

    async def whole() -> list[int]:
        async with behind_http(command) as base_url, httpx2.AsyncClient(trust_env=False, timeout=30, base_url=base_url) as http:
            hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
            made = [await http.post("/mcp", json=body) for body in (asking("tools/list", {}), hello, [])]
            assert "could not be started" in made[1].text
            return [answer.status_code for answer in made]

    assert asyncio.run(whole()) == [404, 502, 400]


FLOODS = """\
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x" * 2000}}
    for _ in range(10_000 if message["method"] == "tools/call" else 0):
        print(json.dumps(told))
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"after": message["method"]}}), flush=True)
"""


def test_a_server_that_says_more_than_anybody_takes_is_held_back_and_then_read_from_again(tmp_path: Path) -> None:
    command = StdioCommand((sys.executable, "-c", FLOODS), {}, tmp_path / "server.log")

    async def whole() -> tuple[int, int, str]:
        process = await StdioProcess.begin(command)
        try:
            flood = process.call(b'{"id":1,"method":"tools/call"}', {"id": 1, "method": "tools/call"})
            await flood.lines.get()
            async with asyncio.timeout(30):
                while not flood.lines.full():
                    await asyncio.sleep(0)
            held = flood.lines.qsize()
            process.hang_up(flood, cancel=False)
            ping = process.call(b'{"id":2,"method":"ping"}', {"id": 2, "method": "ping"})
            async with asyncio.timeout(30):
                told = [json.loads(await ping.lines.get() or b"{}")]
                while "result" not in told[-1]:
                    told.append(json.loads(await ping.lines.get() or b"{}"))
            return held, len(told), told[-1]["result"]["after"]
        finally:
            await process.end()

    held, told, last = asyncio.run(whole())
    assert (held, last) == (BACKLOG, "ping")
    assert told <= 10_001
    assert servers() == []
