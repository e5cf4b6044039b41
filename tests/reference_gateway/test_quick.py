"""The short way of a call and the long way through the SDK: the same answers, and whatever is odd gets the protocol's own words."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from .conftest import SUCCESS, TLS, VERSIONS, Bench

Json = dict[str, Any]
MODERN = VERSIONS[-1]
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Wire:
    """An agent that writes its own bytes."""

    def __init__(self, bench: Bench, token: str, version: str) -> None:
        self.version = version
        self.http = httpx2.Client(verify=TLS, trust_env=False, timeout=20)
        self.url = bench.operator.mcp
        self.headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream", "content-type": "application/json"}
        if version != MODERN:
            params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            opened = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
            self.headers |= {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": version}
            self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def post(self, message: Any, **headers: str) -> httpx2.Response:
        content = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.http.post(self.url, content=content, headers={**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}})

    def message(self, tool: str, arguments: Any, number: Any = 1, **more: Any) -> Json:
        meta = {**(META if self.version == MODERN else {}), **more.pop("meta", {})}
        params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {}), **more}
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}

    def call(self, tool: str, arguments: Any, number: Any = 1, **more: Any) -> httpx2.Response:
        named = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": tool} if self.version == MODERN else {}
        return self.post(self.message(tool, arguments, number, **more), **named)


Make = Callable[[Bench, str, str], Wire]


@pytest.fixture
def wired() -> Iterator[Make]:
    made: list[Wire] = []

    def make(bench: Bench, token: str, version: str) -> Wire:
        made.append(Wire(bench, token, version))
        return made[-1]

    yield make
    for each in made:
        each.http.close()


def answer(response: httpx2.Response) -> Json:
    if response.headers["content-type"].startswith("text/event-stream"):
        return [json.loads(line[5:]) for line in response.text.splitlines() if line.startswith("data:") and '"id"' in line][-1]
    return response.json()


def short(response: httpx2.Response) -> bool:
    """The SDK answers a session of the handshake era with a stream, always."""
    return response.headers["content-type"] == "application/json"


@pytest.mark.parametrize("version", VERSIONS)
def test_both_ways_give_the_same_result_and_the_same_records(bench: Bench, wired: Make, version: str) -> None:
    run, token = bench.run()
    wire = wired(bench, token, version)
    ways = [wire.call("notes__get_rich", {}), wire.call("notes__get_rich", {}, 2, meta={"progressToken": "p"})]
    found = [answer(each)["result"] for each in ways]
    for each in found:
        each["_meta"].pop("gateway/invocation")
        each.setdefault("isError", False)
    assert found[0] == found[1]
    assert found[0]["structuredContent"] == {"n": 2**70, "f": 1.5, "nested": {"list": [None, True]}}
    if version != MODERN:
        assert [short(each) for each in ways] == [True, False]
    assert bench.trail(run) == SUCCESS * 2
    assert len(bench.provider.calls) == 2


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tool", ["notes__get_boom", "notes__get_failure", "notes__nothing", "notes__add_note"])
def test_failures_and_refusals_are_the_same_both_ways(bench: Bench, wired: Make, version: str, tool: str) -> None:
    _, token = bench.run()
    wire = wired(bench, token, version)
    found = [wire.call(tool, {}), wire.call(tool, {}, 1, meta={"progressToken": "p"})]
    bodies = [json.loads(json.dumps(answer(each)).replace("null", "null")) for each in found]
    for body in bodies:
        for holder in (body.get("result", {}).get("_meta", {}), body.get("error", {}).get("data") or {}):
            holder.pop("gateway/invocation", None)
    assert bodies[0] == bodies[1]
    assert version != MODERN or found[0].status_code == found[1].status_code


@pytest.mark.parametrize("version", VERSIONS)
def test_numbers_arrive_digit_for_digit_and_what_no_double_carries_is_refused(bench: Bench, wired: Make, version: str) -> None:
    run, token = bench.run()
    wire = wired(bench, token, version)
    text = json.dumps(wire.message("notes__get_echo", {"n": "HERE"})).replace('"HERE"', "123456789012345678901234567890").encode()
    named = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "notes__get_echo"} if version == MODERN else {}
    assert answer(wire.post(text, **named))["result"]["structuredContent"] == {"got": {"n": 123456789012345678901234567890}}
    infinite = json.dumps(wire.message("notes__get_echo", {"n": "HERE"})).replace('"HERE"', "1e400").encode()
    assert answer(wire.post(infinite, **named))["result"]["_meta"]["gateway/reason"] == "invalid_arguments"
    assert len(bench.provider.calls) == 1
    assert bench.trail(run)[-1][3] == "invalid_arguments"


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"mcp_name": "notes__add_note"}, 400, -32020),
        ({"mcp_method": "tools/list"}, 400, -32020),
        ({"mcp_protocol_version": "2031-01-01"}, 400, -32020),
        ({"accept": "application/json"}, 406, None),
        ({"content_type": "text/plain"}, 400, None),
        ({"host": "evil.example"}, 421, None),
        ({"origin": "https://evil.example"}, 403, None),
    ],
)
def test_headers_that_say_something_else_are_refused_as_the_protocol_says(
    bench: Bench, wired: Make, headers: dict[str, str], status: int, code: int | None
) -> None:
    _, token = bench.run()
    wire = wired(bench, token, MODERN)
    named = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "notes__get_echo", **headers}
    response = wire.post(wire.message("notes__get_echo", {}), **named)
    assert response.status_code == status
    assert code is None or response.json()["error"]["code"] == code
    assert bench.provider.calls == []


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}',
        b'{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"notes__get_echo"}}',
        b'{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"notes__get_echo"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":7}}',
        b'{"id":1,"method":"tools/call","params":{"name":"notes__get_echo"}}',
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("version", [VERSIONS[1], MODERN])
def test_bodies_that_are_no_call_reach_nobody(bench: Bench, wired: Make, version: str, body: bytes) -> None:
    _, token = bench.run()
    wire = wired(bench, token, version)
    named = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "notes__get_echo"} if version == MODERN else {}
    response = wire.post(body, **named)
    assert response.status_code == 202 or response.status_code >= 400 or "error" in answer(response)
    assert bench.provider.calls == []


def test_a_session_goes_the_short_way_only_for_its_own_run_and_version(bench: Bench, wired: Make) -> None:
    _, mine = bench.run()
    _, theirs = bench.run()
    wire = wired(bench, mine, VERSIONS[1])
    assert short(wire.call("notes__get_echo", {}))
    assert wire.post(wire.message("notes__get_echo", {}), authorization=f"Bearer {theirs}").status_code == 404
    assert wire.post(wire.message("notes__get_echo", {}), mcp_session_id="0" * 32).status_code == 404
    assert not short(wire.post(wire.message("notes__get_echo", {}), mcp_protocol_version=VERSIONS[0]))
    assert wire.http.delete(wire.url, headers=wire.headers).status_code == 200
    assert wire.call("notes__get_echo", {}).status_code == 404


def test_a_session_that_was_quiet_goes_the_long_way_once_and_so_stays_known(bench: Bench, wired: Make) -> None:
    _, token = bench.run(ttl_s=3600)
    wire = wired(bench, token, VERSIONS[1])
    assert short(wire.call("notes__get_echo", {}, 1))
    bench.advance(601)
    assert [short(wire.call("notes__get_echo", {}, number)) for number in (2, 3)] == [False, True]


def test_a_notification_cancels_the_call_of_its_session_and_no_other(bench: Bench, wired: Make) -> None:
    run, token = bench.run()
    wire, other = wired(bench, token, VERSIONS[1]), wired(bench, token, VERSIONS[1])
    found: list[httpx2.Response] = []
    calling = threading.Thread(target=lambda: found.append(wire.call("notes__get_slow", {}, 7)))
    calling.start()
    assert bench.provider.started.wait(10)
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    assert other.post(note).status_code == 202
    assert wire.post({**note, "params": {"requestId": "7"}}).status_code == 202
    assert found == []
    assert wire.post(note).status_code == 202
    calling.join(10)
    assert answer(found[0])["error"]["code"] == -32800
    assert bench.trail(run)[-1] == ("call_failed", "cancelled", "allow", "client_cancelled")


def test_the_bench_itself_tells_the_two_ways_apart(bench: Bench, wired: Make) -> None:
    """The negative control of the comparisons above."""
    _, token = bench.run()
    wire = wired(bench, token, VERSIONS[1])
    assert short(wire.call("notes__get_echo", {}, 1))
    assert not short(wire.call("notes__get_echo", {}, 2, meta={"progressToken": 1}))
    assert not short(wire.call("notes__get_echo", {}, 3, task={"ttl": 1}))
