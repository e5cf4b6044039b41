"""Discovery over real loopback HTTP: complete, or honestly incomplete."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from typing import Any

import mcp_types as t
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.responses import Response

from harness.discover.capture import capture_url
from harness.discover.http_wire import EventStream, public_url
from harness.discover.wire import Limits
from harness.errors import CredentialsMissing, HarnessError, Unreachable, UsageError
from harness.inventory.canonical import schema_hash
from harness.model.tool import Capture

from .conftest import http_client, legacy, raw_app, sdk_app, serving

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 12345678901234567890, "x-vendor": 1.50}}, "$comment": "kept"}


def _tools(*names: str) -> list[t.Tool]:
    return [t.Tool(name=name, input_schema=SCHEMA) for name in names]


def capture(app: Any, **options: Any) -> Capture:
    async def run() -> Capture:
        async with serving(app) as url, http_client() as client:
            return await capture_url(f"{url}/mcp", client=client, **options)

    return asyncio.run(run())


def names(found: Capture) -> list[str]:
    return [tool.name for tool in found.tools]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("options", [{}, {"json_response": True, "stateless_http": True}], ids=["sse-stateful", "json-stateless"])
def test_all_pages_of_a_real_server_in_every_era(version: str, options: dict[str, Any]) -> None:
    """An empty-string cursor is a cursor; the schema arrives as it was sent, digit for digit."""
    pages = {None: (_tools("a", "b"), ""), "": (_tools("c"), "p3"), "p3": (_tools("d"), None)}
    found = capture(sdk_app(pages, **options), protocol_version=version)
    assert (names(found), found.pages, found.complete, found.reason) == (["a", "b", "c", "d"], 3, True, "")
    assert (found.protocol_version, found.server_name, found.server_version) == (version, "demo", "7")
    assert found.instructions == "Be kind."
    assert "tools" in found.capabilities
    assert schema_hash(found.tools[0].input_schema) == schema_hash(SCHEMA)
    assert found.tools[0].wire["inputSchema"]["properties"]["n"]["maximum"] == 12345678901234567890


def test_auto_takes_the_newest_era_and_falls_back_to_the_handshake() -> None:
    assert capture(sdk_app({None: (_tools("a"), None)})).protocol_version == "2026-07-28"
    found = capture(raw_app(legacy(lambda _: {"tools": [{"name": "a"}]})))
    assert (found.protocol_version, found.server_name, names(found)) == ("2025-11-25", "raw", ["a"])


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_cursor_loop_is_incomplete_not_endless(version: str) -> None:
    pages: dict[str | None, Any] = {None: (_tools("a"), "p2"), "p2": (_tools("b"), "p3"), "p3": (_tools("c"), "p2")}
    found = capture(sdk_app(pages), protocol_version=version)
    assert not found.complete
    assert found.reason.startswith("cursor-loop")
    assert names(found) == ["a", "b", "c"]


def _endless(body: dict[str, Any]) -> dict[str, Any]:
    at = int((body.get("params") or {}).get("cursor", 0))
    return {"tools": [{"name": f"t{at}"}], "nextCursor": str(at + 1)}


def _second(page: Any) -> Any:
    """A good first page, then `page`."""

    def answer(body: dict[str, Any]) -> Any:
        return page(body) if "cursor" in (body.get("params") or {}) else {"tools": [{"name": "a"}], "nextCursor": "p2"}

    return answer


def _event(body: dict[str, Any], text: str) -> Response:
    return Response(text.replace("ID", str(body["id"])), media_type="text/event-stream")


@pytest.mark.parametrize(
    ("pages", "limits", "reason"),
    [
        (_endless, Limits(pages=5), "too-many-pages"),
        (_endless, Limits(tools=3), "too-many-tools"),
        (_endless, Limits(total_bytes=2000), "too-many-bytes"),
        (lambda _: {"tools": [{"name": "a"}], "nextCursor": 7}, Limits(), "bad-cursor"),
        (_second(lambda _: {"tools": None}), Limits(), "malformed"),
        (_second(lambda _: Response("gone", status_code=500)), Limits(), "http-status"),
        (_second(lambda _: Response("<html>", media_type="text/html")), Limits(), "not-mcp"),
        (_second(lambda _: {"jsonrpc": "2.0", "id": 99, "result": {"tools": []}}), Limits(), "wrong-id"),
        (_second(lambda body: {"jsonrpc": "2.0", "id": body["id"], "error": {"code": -1, "message": "no"}}), Limits(), "rpc-error"),
        (_second(lambda body: {"jsonrpc": "2.0", "id": body["id"], "result": []}), Limits(), "malformed"),
        (_second(lambda _: Response('{"a":1,"a":2}', media_type="application/json")), Limits(), "malformed"),
        (_second(lambda _: Response('{"jsonrpc"', media_type="application/json")), Limits(), "malformed"),
        (_second(lambda body: _event(body, 'data: {"id": ID, "result": {"tools": []}}\n')), Limits(), "no-answer"),
        (_second(lambda body: _event(body, 'data: {"id": 77, "result": {"tools": []}}\n\n')), Limits(), "no-answer"),
        (_second(lambda _: Response(b"[" * 10_000, media_type="application/json")), Limits(), "malformed"),
        (_second(lambda _: Response(b" " * 200_000, media_type="application/json")), Limits(response_bytes=100_000), "too-many-bytes"),
        (
            _second(lambda _: Response(gzip.compress(b" " * 9_000_000), media_type="application/json", headers={"content-encoding": "gzip"})),
            Limits(),
            "too-many-bytes",
        ),
    ],
)
def test_trouble_after_the_first_page_keeps_what_came_and_says_why(pages: Any, limits: Limits, reason: str) -> None:
    found = capture(raw_app(legacy(pages)), protocol_version="2025-11-25", limits=limits)
    assert not found.complete
    assert found.reason.startswith(reason)
    assert names(found)[0] in {"a", "t0"}


def test_events_before_the_answer_are_passed_over_and_pings_are_answered() -> None:
    said: list[dict[str, Any]] = []
    plain = legacy(
        lambda body: _event(
            body,
            ': hi\r\n\r\nevent: message\r\ndata: {"jsonrpc":"2.0","method":"notifications/message","params":{}}\r\n\r\n'
            'data: {"jsonrpc":"2.0","id":"s1","method":"ping"}\n\ndata: {"jsonrpc":"2.0","id":"s2","method":"roots/list"}\n\n'
            'data: {"jsonrpc":"2.0",\ndata: "id":ID,"result":{"tools":[{"name":"a"}]}}\n\n',
        )
    )

    def answer(body: dict[str, Any]) -> Any:
        if "method" not in body:
            said.append(body)
            return Response(status_code=202)
        return plain(body)

    assert names(capture(raw_app(answer), protocol_version="2025-11-25")) == ["a"]
    assert [(item["id"], "result" in item) for item in said] == [("s1", True), ("s2", False)]


def test_duplicates_and_nameless_entries_are_told_not_hidden() -> None:
    listed = [{"name": "a"}, {"name": "b"}, {"name": "a"}, {"title": "x"}, {"name": "  "}, "text", None]
    found = capture(raw_app(legacy(lambda _: {"tools": listed})))
    assert (names(found), found.duplicates, found.nameless, found.complete) == (["a", "b", "a"], ("a",), 4, True)


def test_an_empty_list_is_a_complete_answer() -> None:
    found = capture(raw_app(legacy(lambda _: {"tools": []})))
    assert (found.tools, found.pages, found.complete) == ((), 1, True)


@pytest.mark.parametrize("version", ["auto", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (lambda _: Response("<html>", media_type="text/html"), Unreachable, "text/html"),
        (lambda _: Response("", status_code=401), CredentialsMissing, "401"),
        (lambda _: Response("", status_code=403), CredentialsMissing, "403"),
        (lambda _: Response("", status_code=503), Unreachable, "503"),
        (lambda _: Response("", status_code=307, headers={"location": "http://127.0.0.1:1/"}), Unreachable, "307"),
        (lambda _: {}, Unreachable, "id"),
        (lambda _: [], Unreachable, "id"),
    ],
)
def test_no_first_page_is_an_error_with_a_fix(version: str, answer: Any, error: type[HarnessError], says: str) -> None:
    with pytest.raises(error) as caught:
        capture(raw_app(answer), protocol_version=version)
    assert says in caught.value.what
    assert caught.value.fix
    assert caught.value.where.startswith("http://127.0.0.1:")


def test_a_silent_server_is_given_up_on() -> None:
    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        await asyncio.sleep(5)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        await never(scope, receive, send)

    with pytest.raises(Unreachable, match=r"within 0\.2 s"):
        capture(app, limits=Limits(request_s=0.2))


def test_a_closed_port_and_a_wrong_scheme() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]

        async def run() -> None:
            async with http_client() as client:
                await capture_url(f"http://user:pw@127.0.0.1:{port}/mcp?key=secret", client=client)

        with pytest.raises(Unreachable, match="no connection") as caught:
            asyncio.run(run())
    assert caught.value.where == f"http://127.0.0.1:{port}/mcp"
    for url in ("ftp://x/mcp", "mcp.example", "file:///etc/passwd"):
        with pytest.raises(UsageError, match="not an HTTP URL"):
            asyncio.run(capture_url(url))


def test_a_counter_offer_is_refused_when_a_version_was_named() -> None:
    def answer(body: dict[str, Any]) -> Any:
        result = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "old"}}
        return {"jsonrpc": "2.0", "id": body["id"], "result": result if body["method"] == "initialize" else {"tools": []}} if "id" in body else {}

    with pytest.raises(Unreachable, match="answered 2025-11-25 with '2025-03-26'"):
        capture(raw_app(answer), protocol_version="2025-11-25")
    assert capture(raw_app(answer)).protocol_version == "2025-03-26"
    with pytest.raises(UsageError, match="unknown protocol version") as caught:
        capture(raw_app(answer), protocol_version="2025-11-26")
    assert "2025-11-25" in caught.value.fix


def test_headers_reach_the_server_and_only_their_names_are_kept() -> None:
    seen: list[str | None] = []
    plain = raw_app(legacy(lambda _: {"tools": []}))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            seen.append(dict(scope["headers"]).get(b"x-workspace", b"").decode())
        await plain(scope, receive, send)

    found = capture(app, headers={"X-Workspace": "tenant-7", "Authorization": "Bearer s3cret"})
    assert set(seen) == {"tenant-7"}
    assert found.header_names == ("Authorization", "X-Workspace")
    assert "s3cret" not in repr(found)
    assert "tenant-7" not in repr(found)


def test_the_session_is_ended() -> None:
    methods: list[str] = []
    plain = sdk_app({None: (_tools("a"), None)})

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            methods.append(scope["method"])
        await plain(scope, receive, send)

    capture(app, protocol_version="2025-11-25")
    assert methods == ["POST", "POST", "POST", "DELETE"]


def test_a_client_of_its_own_is_made_and_closed() -> None:
    async def run() -> Capture:
        async with serving(raw_app(legacy(lambda _: {"tools": [{"name": "a"}]}))) as url:
            return await capture_url(f"{url}/mcp")

    assert names(asyncio.run(run())) == ["a"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=8), max_size=5), st.data())
def test_events_survive_any_cut_and_any_line_end(texts: list[str], data: st.DataObject) -> None:
    end = data.draw(st.sampled_from(["\n", "\r\n", "\r"]))
    raw = "".join(f": c{end}data: {json.dumps(text)}{end}{end}" for text in texts).encode() + b"x"
    stream, found = EventStream(), []
    while raw:
        cut = data.draw(st.integers(1, len(raw)))
        found += stream.feed(raw[:cut])
        raw = raw[cut:]
    assert [json.loads(event) for event in found] == texts


def test_a_public_url_holds_no_secret() -> None:
    assert public_url("https://user:pw@h.example:8443/mcp/x?api_key=1#f") == "https://h.example:8443/mcp/x"


def test_an_event_that_carries_no_data_is_no_message() -> None:
    """Servers that let a client come back to a stream open it with one: an id, and nothing to read."""
    stream = EventStream()
    assert stream.feed(b"id: 1\nretry: 100\ndata: \n\n") == []
    assert stream.feed(b'id: 2\r\nevent: message\r\ndata: {"a":\r\ndata: 1}\r\n\r\n\n') == [b'{"a":\n1}']
