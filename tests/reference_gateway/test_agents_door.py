"""The agents' door: everything that an agent may ask for, against everybody who may or may not ask for it, in both eras."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
from mcp_types.methods import CLIENT_REQUESTS

from reference_gateway.passing import METHODS

from .conftest import TLS, Bench, Operator
from .wide import ALL, LEGACY, MODERN, Json, Wide, connected, served

MEMO = {"uri": "memo://1"}
OPENING = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
CASES: dict[str, Json] = {
    "initialize": OPENING,
    "server/discover": {},
    "ping": {},
    "tools/list": {},
    "tools/call": {"name": "notes__note", "arguments": {}},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": MEMO,
    "resources/subscribe": MEMO,
    "resources/unsubscribe": MEMO,
    "prompts/list": {},
    "prompts/get": {"name": "greet"},
    "completion/complete": {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": "o"}},
    "logging/setLevel": {"level": "info"},
    "subscriptions/listen": {"notifications": {"toolsListChanged": True, "resourceSubscriptions": ["memo://1"]}},
}
"""Every request of an agent that the protocol knows, in any version, with its parameters; a new one without a case is red."""

OPEN = {"ping"}
"""What tells nothing of any connection."""
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


def known(version: str) -> list[str]:
    return sorted({method for method, at in CLIENT_REQUESTS if at == version})


def test_every_request_of_every_version_has_a_case() -> None:
    versions = {LEGACY, MODERN, "2025-06-18"}
    assert {method for method, at in CLIENT_REQUESTS if at in versions} <= set(CASES)
    assert set(METHODS) <= set(CASES)


# who asks


@dataclass
class Asker:
    token: str
    run: str = ""
    reason: str = ""
    """Why nothing is answered; "" of whoever may use the connection."""


def granted(bench: Bench) -> Asker:
    run, token = bench.run()
    return Asker(token, run)


def after(change: Callable[[Bench, str], Any], reason: str) -> Callable[[Bench], Asker]:
    """Who could ask, until an operator did this."""

    def asker(bench: Bench) -> Asker:
        run, token = bench.run()
        change(bench, run)
        return Asker(token, run, reason)

    return asker


def foreign(bench: Bench) -> Asker:
    """A run of another tenant, whose own connection has the same name and offers nothing besides tools."""
    other = Bench(bench.operator, bench.provider, bench.operator("POST", "/tenants", {})["tenant"])
    other.connect("theirs", auth={"scheme": "none"}, credentials={})
    run, token = other.run("theirs")
    return Asker(token, run, "foreign")


def planning(bench: Bench) -> Asker:
    run, token = bench.run(mode="planning")
    return Asker(token, run)


def expired(bench: Bench) -> Asker:
    run, token = bench.run(ttl_s=1)
    bench.advance(2)
    return Asker(token, run, "no token")


ASKERS: dict[str, Callable[[Bench], Asker]] = {
    "own": granted,
    "planning": planning,
    "foreign": foreign,
    "ended": after(lambda bench, run: bench.op("POST", f"/runs/{run}/end"), "run_ended"),
    "not granted": after(lambda bench, run: bench.op("PUT", "/connections/notes/agents", {"agents": ["another"]}), "not_granted"),
    "revoked": after(lambda bench, run: bench.op("POST", "/connections/notes/revoke"), "grant_revoked"),
    "outside the audience": after(lambda bench, run: bench.op("PUT", "/connections/notes/audience", {"audience": ["x"]}), "grant_audience_denied"),
    "task taken": after(lambda bench, run: bench.run(takes_task=True), "task_not_owned"),
    "policy": after(lambda bench, run: bench.op("PUT", "/policies", {"policies": [{"id": "p", "permission": "off"}]}), "policy_block"),
    "paused": after(lambda bench, run: bench.op("POST", "/connections/notes/state", {"state": "paused"}), "connection_inactive"),
    "expired": expired,
    "nobody": lambda bench: Asker("nothing", reason="no token"),
    "operator": lambda bench: Asker(str(bench.operator.http.headers["authorization"]).removeprefix("Bearer "), reason="no token"),
}


# asking


class Door:
    """One agent's requests, as they are on the wire."""

    def __init__(self, bench: Bench, token: str, version: str) -> None:
        self._http = httpx2.Client(verify=TLS, trust_env=False, timeout=20, headers={"authorization": f"Bearer {token}"})
        self._url = bench.operator.mcp
        self._version = version
        self._session: dict[str, str] = {}

    def __enter__(self) -> Door:
        if self._version != MODERN:
            with self._post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": OPENING}, {}) as answer:
                if "mcp-session-id" in answer.headers:
                    self._session = {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": LEGACY}
            with self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._session):
                pass
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def _post(self, message: Json, headers: dict[str, str]) -> contextlib.AbstractContextManager[httpx2.Response]:
        accept = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
        return self._http.stream("POST", self._url, headers={**accept, **headers}, content=json.dumps(message).encode())

    def ask(self, method: str) -> Json:
        """The first thing that is said in answer: a result, an error, or of a stream that it is open. `{"status"}` of one that never got in."""
        params, headers = dict(CASES[method]), dict(self._session)
        if self._version == MODERN:
            meta = {"protocolVersion": MODERN, "clientInfo": OPENING["clientInfo"], "clientCapabilities": {}}
            params["_meta"] = {f"io.modelcontextprotocol/{key}": value for key, value in meta.items()}
            headers |= {"mcp-protocol-version": MODERN, "mcp-method": method}
            headers |= {"mcp-name": str(params[NAMED[method]])} if method in NAMED else {}
        elif method == "initialize":
            headers = {}
        with self._post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, headers) as answer:
            if answer.status_code == 401:
                return {"status": 401}
            for line in answer.iter_lines():
                text = line.removeprefix("data:").strip()
                if text.startswith("{"):
                    return dict(json.loads(text))
        raise AssertionError(f"{method}: nothing was said")


@pytest.fixture
def wide() -> Iterator[Wide]:
    with served(Wide()) as provider:
        yield provider


@pytest.fixture
def bench(gateway: Operator, wide: Wide) -> Bench:
    return connected(gateway, wide, offers=ALL)


# what must be answered


def check_granted(method: str, answer: Json, mode: str) -> None:
    if method == "tools/call" and mode == "planning":
        assert answer["result"]["_meta"]["gateway/reason"] == "mode_denied"
    elif method == "tools/list" and mode == "planning":
        assert answer["result"]["tools"] == []
    elif method == "tools/list":
        assert {each["name"] for each in answer["result"]["tools"]} == {"notes__ask", "notes__note"}
    elif method in ("initialize", "server/discover"):
        assert {"resources", "prompts", "completions", "tools"} <= set(answer["result"]["capabilities"])
    elif method == "subscriptions/listen":
        assert answer["method"] == "notifications/subscriptions/acknowledged"
    else:
        assert "error" not in answer
        assert not answer["result"].get("isError")


def check_refused(method: str, answer: Json, reason: str) -> None:
    if method in ("initialize", "server/discover"):
        assert answer["result"]["capabilities"] == {"tools": {}}
    elif method == "tools/list":
        assert answer["result"]["tools"] == []
    elif method == "tools/call":
        assert answer["result"]["_meta"]["gateway/outcome"] == "denied"
        assert answer["result"]["_meta"]["gateway/reason"] == reason
    elif method not in OPEN:
        assert answer["error"]["data"] == {"gateway/reason": reason}


def check_foreign(method: str, answer: Json) -> None:
    """It sees its own tools and nothing besides; what the other tenant's connection has does not exist."""
    if method in ("initialize", "server/discover"):
        assert answer["result"]["capabilities"] == {"tools": {}}
    elif method == "tools/list":
        assert {each["name"] for each in answer["result"]["tools"]} == {"theirs__ask", "theirs__note"}
    elif method not in OPEN:
        assert answer["error"]["code"] == (-32602 if method == "tools/call" else -32601)


@pytest.mark.parametrize("version", [LEGACY, MODERN])
@pytest.mark.parametrize("who", ASKERS)
def test_everything_is_answered_to_whom_it_should_be_and_to_nobody_else(bench: Bench, wide: Wide, who: str, version: str) -> None:
    asker = ASKERS[who](bench)
    methods = known(version)
    wide.asked.clear()
    with Door(bench, asker.token, version) as door:
        for method in methods:
            answer = door.ask(method)
            if asker.reason == "no token":
                assert answer == {"status": 401}, method
            elif asker.reason == "foreign":
                check_foreign(method, answer)
            elif asker.reason:
                check_refused(method, answer, asker.reason)
            else:
                check_granted(method, answer, who)
    judged = {"subscriptions/listen", *METHODS}
    crossed = (
        {r["details"]["method"] for r in bench.records(asker.run) if r["event"] == "passed_on" and r["outcome"] == "success"} if asker.run else set()
    )
    assert crossed == (set() if asker.reason else judged & set(methods))
    if asker.reason:
        assert wide.asked == [], "whoever may not use a connection does not even make its provider be asked"
    if asker.run and asker.reason not in ("", "foreign", "no token"):
        refused = {(r["details"].get("method", "tools/call"), r["reason"]) for r in bench.records(asker.run) if r["decision"] == "deny"}
        assert refused == {(method, asker.reason) for method in methods if method in {"tools/call", *judged}}
