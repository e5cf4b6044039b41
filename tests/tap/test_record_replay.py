"""What passed a mount is kept, and answers once more: every form of MCP over HTTP, both eras, REST, and failures as failures."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as t
import pytest
import yaml
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from harness.cassette.format import Cassette
from harness.cassette.redact import Redactor
from harness.cassette.seal import Draft, seal
from harness.cassette.store import parse_cassette
from harness.tap.mount import Mount
from harness.tap.operations import operation_table
from harness.tap.record import Recorder
from harness.tap.replay import Player

pytestmark = pytest.mark.anyio
ERAS = ("2025-06-18", "2025-11-25", "2026-07-28")
SECRET = "synthetic-key-0123456789abcdef"


def draft(**changed: Any) -> Draft:
    known: dict[str, Any] = {
        "provider": "p", "scenario": "S", "connection": "p", "recorder": "test", "recorded_at": "local", "now": datetime(2026, 11, 30, tzinfo=UTC),
        "endpoint": "test", "path": "/mcp", "agent_protocol": "2025-11-25", "pin": "2025-11-25", "schema_level": "local", "memory_level": "fake",
        "inventory": "", "values": {"nonce": "n1", "run.id": "r1"}, "addresses": (), "hash_prose": False,
    }  # fmt: skip
    return Draft(**known | changed)


def sealed(mount: Mount, **changed: Any) -> Cassette:
    """Through the file, as a run would: redacted, written, read again."""
    assert mount.recorder is not None
    redactor = Redactor()
    redactor.know({"p:key": SECRET})
    content = seal(draft(addresses=(mount.upstream.origin, mount.url()), **changed), mount.recorder.finished(), redactor)
    return parse_cassette(content.decode(), "test.yaml")


def play(bench: Any, cassette: Cassette, name: str = "again") -> Mount:
    mount: Mount = bench.tap.mount(name, "http://127.0.0.1:9")
    redactor = Redactor()
    redactor.know({"p:key": "another-key-of-today-42"})
    mount.player = Player(cassette, redactor.clean, mount.url)
    return mount


@asynccontextmanager
async def recording(bench: Any, **how: Any) -> AsyncIterator[tuple[Any, Mount]]:
    async with bench.provider(**how) as (provider, mount):
        mount.recorder = Recorder()
        yield provider, mount


def lost(mount: Mount) -> list[Any]:
    assert mount.player is not None
    return mount.player.unmatched


def left(mount: Mount) -> list[str]:
    assert mount.player is not None
    return [one.what for one in mount.player.unused()]


async def conversation(session: Any, order: list[int]) -> list[Any]:
    """What an agent gets: the list, calls in this order, a refusal, an error."""
    tools = [tool.name for tool in (await session.list_tools()).tools]
    results = {}
    for n in order:
        results[n] = (await session.call_tool("add_memory", {"text": f"note {n}"})).structured_content
    refused = (await session.call_tool("add_memory", {"text": "refuse"})).is_error
    with pytest.raises(MCPError, match="kaboom") as raised:
        await session.call_tool("boom", {})
    return [tools, sorted(results.items()), refused, raised.value.error.data]


@pytest.mark.parametrize("version", ERAS)
@pytest.mark.parametrize("as_json", [False, True], ids=["sse", "json"])
async def test_every_form_replays_in_any_order(bench: Any, version: str, as_json: bool) -> None:
    async with recording(bench, json_response=as_json) as (provider, mount):
        async with bench.session(mount.url("/mcp"), version) as session:
            then = await conversation(session, [1, 2, 3, 4])
        assert len(provider.calls) == 6
        cassette = sealed(mount)
    replay = play(bench, cassette)
    async with bench.session(replay.url("/mcp"), version) as session:
        assert await conversation(session, [3, 1, 4, 2]) == then
    assert lost(replay) == []
    assert [what for what in left(replay) if "tools/" in what] == []


async def test_many_at_once_each_get_their_own_answer(bench: Any) -> None:
    """The ids of the replay are other ids than the recorded ones, and come in another order."""

    async def many(session: Any, seed: int) -> dict[int, Any]:
        numbers = list(range(20))
        random.Random(seed).shuffle(numbers)
        answers = await asyncio.gather(*(session.call_tool("search", {"query": f"q{n}"}) for n in numbers))
        return {n: answer.structured_content for n, answer in zip(numbers, answers, strict=True)}

    async with recording(bench) as (_, mount):
        async with bench.session(mount.url("/mcp"), "2025-11-25") as session:
            await session.list_tools()
            then = await many(session, 1)
        cassette = sealed(mount)
    replay = play(bench, cassette)
    async with bench.session(replay.url("/mcp"), "2025-11-25") as session:
        await session.list_tools()
        assert await many(session, 2) == then
    assert then == {n: {"got": {"query": f"q{n}"}} for n in range(20)}
    assert lost(replay) == []


class Talker:
    """A provider that asks back, tells its progress, and says that its list changed."""

    def __init__(self) -> None:
        self.changed = False

    def server(self) -> Server[Any]:
        server = Server("talker", version="2", on_list_tools=self._list, on_call_tool=self._call)
        plain = server.create_initialization_options
        options = plain()
        options.capabilities.tools = t.ToolsCapability(list_changed=True)
        server.create_initialization_options = lambda *_, **__: options  # type: ignore[method-assign]
        return server

    async def _list(self, ctx: Any, params: Any) -> t.ListToolsResult:
        names = ["ask", "change", *(["fresh"] if self.changed else [])]
        tools = [t.Tool(name=name, input_schema={"type": "object"}) for name in names]
        return t.ListToolsResult(tools=tools, ttl_ms=0, cache_scope="private")

    async def _call(self, ctx: Any, params: Any) -> t.CallToolResult:
        if params.name == "change":
            self.changed = True
            await ctx.session.send_tool_list_changed()
            return t.CallToolResult(content=[t.TextContent(type="text", text="changed")])
        await ctx.session.report_progress(1, 2, "half way")
        form = {"type": "object", "properties": {"word": {"type": "string"}}}
        answer = await ctx.session.elicit_form("Which word?", form)
        return t.CallToolResult(content=[t.TextContent(type="text", text=f"the word is {answer.content['word']}")])


async def talk(url: str, http: httpx2.AsyncClient) -> tuple[str, list[Any], list[str], bool]:
    """One session of the handshake era with a standing GET stream; returns what was said in it."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    told = asyncio.Event()
    progress: list[Any] = []

    async def word(context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"word": "cobalt"})

    async def seen(message: Any) -> None:
        if isinstance(getattr(message, "root", message), t.ToolListChangedNotification):
            told.set()

    async def half(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    transport = streamable_http_client(url, http_client=http)
    async with Client(transport, mode="legacy", elicitation_callback=word, message_handler=seen) as client:
        await client.list_tools()
        result = await client.call_tool("ask", {}, progress_callback=half)
        await client.call_tool("change", {})
        async with asyncio.timeout(10):
            await told.wait()
        names = [tool.name for tool in (await client.list_tools()).tools]
    return result.content[0].text, progress, names, told.is_set()  # type: ignore[union-attr]


async def test_questions_progress_and_news_on_a_standing_stream(bench: Any) -> None:
    """2025: elicitation both ways, progress, list_changed on GET, the session's DELETE."""
    async with bench.served(Talker().server().streamable_http_app()) as url:
        mount = bench.tap.mount("talker", url)
        mount.recorder = Recorder()
        then = await talk(mount.url("/mcp"), bench.http)
        await mount.wait_for(lambda seen: any(e.method == "DELETE" for e in seen))
        cassette = sealed(mount)
        mount.close()
    assert then == ("the word is cobalt", [(1, 2, "half way")], ["ask", "change", "fresh"], True)
    assert {one.method for one in cassette.interactions} == {"POST", "GET", "DELETE"}
    assert any(one.gates for one in cassette.interactions), "the answer waits until the question was answered"
    replay = play(bench, cassette)
    assert await talk(replay.url("/mcp"), bench.http) == then
    await replay.wait_for(lambda seen: any(e.method == "DELETE" for e in seen))
    assert lost(replay) == []
    assert left(replay) == []


async def test_a_session_is_a_pseudonym_in_the_file_and_works_as_one(bench: Any) -> None:
    async with recording(bench) as (_, mount):
        async with bench.session(mount.url("/mcp"), "2025-11-25") as session:
            await session.list_tools()
        cassette = sealed(mount)
    sessions = {value for one in cassette.interactions for name, value in (*one.request_headers, *one.response_headers) if name == "mcp-session-id"}
    assert sessions == {"session-1"}


async def test_rest_bodies_of_every_kind_find_their_answers(bench: Any) -> None:
    """JSON whatever its spelling, a form, a multipart whose boundary is another one each time, and 409 as 409."""

    async def ask(base: str, flip: bool) -> list[Any]:
        http, first = bench.http, {"a": 1, "b": "x"}
        second = dict(reversed(first.items())) if flip else first
        made = [
            await http.post(f"{base}/api/v1/remember", json=second),
            await http.post(f"{base}/api/v1/remember", files={"data": ("note.txt", b"a cobalt prism")}),
            await http.post(f"{base}/api/v1/remember", data={"grant_type": "refresh_token", "refresh_token": f"rt-{flip}-0123456789"}),
            await http.post(f"{base}/api/v1/recall", json={"query": "x"}),
            await http.get(f"{base}/api/v1/datasets/?token=CANARY-{flip}-7f3a9c&x=1", headers={"x-api-key": SECRET}),
        ]
        return [(answer.status_code, "detail" in answer.text, answer.headers["content-type"]) for answer in made]

    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("rest", url, operations=[("POST", "/api/v1/recall", "recall")])
        mount.recorder = Recorder()
        then = await ask(mount.url(), False)
        cassette = sealed(mount)
        mount.close()
    assert [status for status, _, _ in then] == [200, 200, 200, 409, 200]
    replay = play(bench, cassette)
    assert await ask(replay.url(), True) == then
    assert lost(replay) == []
    assert left(replay) == []


async def test_a_request_without_a_recorded_answer_is_told_with_the_nearest_and_the_difference(bench: Any) -> None:
    async with recording(bench, json_response=True) as (_, mount):
        await bench.http.post(mount.url("/mcp"), json=bench.call("add_memory", {"text": "silver"}), headers={"accept": "application/json"})
        cassette = sealed(mount)
    replay = play(bench, cassette)
    answer = await bench.http.post(
        replay.url("/mcp?api_key=synthetic-7f3a9c-1"),
        json=bench.call("add_memory", {"text": "golden", "password": "another-key-of-today-42"}),
        headers={"accept": "application/json"},
    )
    assert answer.status_code == 502
    (found,) = lost(replay)
    assert found.nearest == 0
    assert '-   "text": "silver"' in found.diff or '-    "text": "silver"' in found.diff, found.diff
    assert "golden" in found.diff
    said = answer.text + json.dumps([found.asked, found.diff]) + str(replay.exchanges[0].fault)
    assert "7f3a9c" not in said
    assert "another-key-of-today" not in said
    assert replay.exchanges[0].fault == "replay-unmatched"


async def test_what_was_asked_once_is_answered_once(bench: Any) -> None:
    operations = [("POST", "/api/v1/remember", "remember")]
    async with bench.served(bench.rest_app()) as url:
        mount = bench.tap.mount("once", url, operations=operations)
        mount.recorder = Recorder()
        await bench.http.post(mount.url("/api/v1/remember"), json={"data": "a"})
        cassette = sealed(mount)
        mount.close()
    replay = play(bench, cassette)
    for wanted in (200, 502):
        assert (await bench.http.post(replay.url("/api/v1/remember"), json={"data": "a"})).status_code == wanted
    (found,) = lost(replay)
    assert "answered as often as it was recorded" in found.diff
    other = play(bench, cassette, "other")
    assert left(other) == ["POST /api/v1/remember"]
    assert other.player is not None
    assert [one.tool for one in other.player.unused(operation_table(operations))] == ["remember"]


@pytest.mark.parametrize("status", [b"401 Unauthorized", b"403 Forbidden", b"409 Conflict", b"500 Internal Server Error", b"429 Too Many Requests"])
async def test_a_recorded_refusal_is_that_refusal_again(bench: Any, status: bytes) -> None:
    async def refuse(head: bytes, reader: Any, writer: Any) -> None:
        headers = b"Retry-After: 7\r\nWWW-Authenticate: Bearer realm=x\r\nSet-Cookie: id=abc123456789\r\n"
        writer.write(bench.answered(b'{"detail":"no"}', status, headers))

    async with bench.scripted(refuse) as url:
        mount = bench.tap.mount("refuses", url)
        mount.recorder = Recorder()
        await bench.http.get(mount.url("/x"))
        cassette = sealed(mount)
        mount.close()
    replay = play(bench, cassette)
    answer = await bench.http.get(replay.url("/x"))
    assert answer.status_code == int(status[:3])
    assert answer.json() == {"detail": "no"}
    assert answer.headers["retry-after"] == "7"
    assert "set-cookie" not in answer.headers


async def test_a_timeout_hangs_again_and_a_reset_breaks_off_again(bench: Any) -> None:
    async def hang(head: bytes, reader: Any, writer: Any) -> None:
        if b"/hangs" in head:
            await asyncio.Event().wait()
        elif b"/resets" in head:
            writer.transport.abort()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"half\":")
            await writer.drain()
            writer.transport.abort()

    async def outcomes(base: str) -> list[str]:
        found = []
        for path in ("/hangs", "/resets", "/halves"):
            try:
                await bench.http.get(base + path, timeout=0.3 if path == "/hangs" else 10)
                found.append("answered")
            except httpx2.TimeoutException:
                found.append("timeout")
            except httpx2.TransportError:
                found.append("broken")
        return found

    async with bench.scripted(hang) as url:
        mount = bench.tap.mount("fails", url)
        mount.recorder = Recorder()
        assert await outcomes(mount.url()) == ["timeout", "broken", "broken"]
        cassette = sealed(mount)
        mount.close()
    assert [one.outcome for one in cassette.interactions] == ["left_open", "broken_off", "broken_off"]
    replay = play(bench, cassette)
    assert await outcomes(replay.url()) == ["timeout", "broken", "broken"]
    assert lost(replay) == []


async def test_a_provider_that_streams_for_ever_is_not_put_on_disk(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from harness.errors import Incomplete
    from harness.tap import record

    monkeypatch.setattr(record, "BOUND", 64 * 1024)

    async def pour(head: bytes, reader: Any, writer: Any) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"data: x\r\n\r\n" * 100)
            await writer.drain()

    async with bench.scripted(pour) as url:
        mount = bench.tap.mount("pours", url)
        mount.recorder = Recorder()
        async with bench.http.stream("GET", mount.url("/x")) as answer:
            got = 0
            async for chunk in answer.aiter_raw():
                got += len(chunk)
                if got > 256 * 1024:
                    break
        with pytest.raises(Incomplete, match="larger than"):
            sealed(mount)


async def test_texts_of_a_vendor_are_hashes_and_everything_else_stays(bench: Any) -> None:
    async with recording(bench, json_response=True) as (_, mount):
        async with bench.session(mount.url("/mcp"), "2025-11-25") as session:
            await session.list_tools()
            await session.call_tool("search", {"query": "kept"})
        plain, hashed = sealed(mount), sealed(mount, hash_prose=True)
    texts = [b"".join(one.response_body for one in cassette.interactions) for cassette in (plain, hashed)]
    for prose in (b"Searches.", b"Tells its progress.", b'"Add"'):
        assert prose in texts[0]
        assert prose not in texts[1]
    assert b"sha256:" in texts[1]
    assert b'"enum":["a","b","c"]' in texts[1]
    assert hashed.header is not None
    assert hashed.header.redaction.prose == "hashed"
    replay = play(bench, hashed)
    async with bench.session(replay.url("/mcp"), "2025-11-25") as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == [tool["name"] for tool in bench.TOOLS]
        assert (await session.call_tool("search", {"query": "kept"})).structured_content == {"got": {"query": "kept"}}


async def test_stock_vcrpy_opens_the_file(bench: Any, tmp_path: Path) -> None:
    from vcr.persisters.filesystem import FilesystemPersister
    from vcr.serializers import yamlserializer

    async with recording(bench) as (_, mount):
        async with bench.session(mount.url("/mcp"), "2025-11-25") as session:
            await session.list_tools()
        assert mount.recorder is not None
        content = seal(draft(), mount.recorder.finished(), Redactor())
    path = tmp_path / "S.yaml"
    path.write_bytes(content)
    requests, responses = FilesystemPersister.load_cassette(path, yamlserializer)
    assert len(requests) == len(responses) == len(yaml.safe_load(content)["interactions"])
    assert requests[0].method == "POST"
    assert b"tools" in b"".join(answer["body"]["string"] for answer in responses)
