"""2026-07-28 has no standing stream: a subscription is a request whose answer stands open, known by that request's id. Recorded and replayed."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import mcp_types as t
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from harness.cassette.events import event_data, split_events
from harness.cassette.format import Cassette
from harness.tap.record import Recorder
from tests.cassette.notes_server import Notes
from tests.tap.test_record_replay import left, lost, play, sealed

pytestmark = pytest.mark.anyio
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


async def converse(url: str, http: httpx2.AsyncClient, *, ask_first: bool) -> dict[str, Any]:
    """A question, and news on a subscription; in another order the ids of everything are others."""
    progress: list[Any] = []

    async def word(context: Any, params: Any) -> t.ElicitResult:
        return t.ElicitResult(action="accept", content={"word": "cobalt"})

    async def half(done: float, total: float | None, message: str | None) -> None:
        progress.append((done, total, message))

    async with Client(streamable_http_client(url, http_client=http), mode="2026-07-28", elicitation_callback=word) as client:

        async def ask() -> Any:
            await client.call_tool("search_notes", {"query": "none"}, progress_callback=half)
            return (await client.call_tool("ask", {})).structured_content

        before = [tool.name for tool in (await client.list_tools()).tools]
        said = await ask() if ask_first else None
        async with client.listen(tools_list_changed=True) as news, asyncio.timeout(20):
            await client.call_tool("change", {})
            event = await anext(aiter(news))
        after = [tool.name for tool in (await client.list_tools()).tools]
        return {"said": said or await ask(), "event": type(event).__name__, "new": sorted(set(after) - set(before)), "progress": progress}


async def test_a_subscription_and_a_question_replay_under_other_ids(bench: Any) -> None:
    async with bench.served(Notes().server().streamable_http_app()) as url:
        mount = bench.tap.mount("notes", url)
        mount.recorder = Recorder()
        then = await converse(mount.url("/mcp"), bench.http, ask_first=False)
        await mount.wait_for(lambda seen: all(e.outcome is not None for e in seen))
        cassette = sealed(mount, agent_protocol="2026-07-28", pin="2026-07-28")
        mount.close()
    assert then == {
        "said": {"word": "cobalt", "state": "state-1"},
        "event": "ToolsListChanged",
        "new": ["fresh"],
        "progress": [(1, 2, "half way")],
    }
    (listen,) = [one for one in cassette.interactions if b"subscriptions/listen" in (one.request_body or b"")]
    assert listen.outcome == "left_open", "it stands until the client hangs up"
    assert listen.gates, "the news came after the call that made it"
    replay = play(bench, cassette)
    assert await converse(replay.url("/mcp"), bench.http, ask_first=True) == then
    assert lost(replay) == []
    assert left(replay) == []
    replay.close()
    await each_event_names_the_subscription_of_today_and_waits_for_its_cause(bench, cassette)


async def each_event_names_the_subscription_of_today_and_waits_for_its_cause(bench: Any, cassette: Cassette) -> None:
    (asked,) = [json.loads(one.request_body or b"{}") for one in cassette.interactions if b"subscriptions/listen" in (one.request_body or b"")]
    (change,) = [json.loads(one.request_body or b"{}") for one in cassette.interactions if b'"change"' in (one.request_body or b"")]
    replay = play(bench, cassette)
    url, events = replay.url("/mcp"), bytearray()
    async with asyncio.timeout(20), bench.http.stream("POST", url, json={**asked, "id": "another-17"}) as answer:
        parts = answer.aiter_raw()
        events += await anext(parts)
        assert b"list_changed" not in events
        assert (await bench.http.post(url, json={**change, "id": "another-18"})).status_code == 200
        while b"list_changed" not in events:
            events += await anext(parts)
    messages = [json.loads(data) for event in split_events(bytes(events)) if (data := event_data(event))]
    assert [message["method"] for message in messages] == ["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"]
    assert {message["params"]["_meta"][SUBSCRIPTION] for message in messages} == {"another-17"}
