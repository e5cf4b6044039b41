"""A request whose body comes late is judged by what holds when it has come, not by what held when its head was read."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

import pytest

from tests.reference_gateway.conftest import Bench, Json, Provider, denied

MODERN = "2026-07-28"


class Slow:
    """A tools/call whose head is sent at once, and whose body on `finish`. `long_way`: it asks for progress, which the SDK's way serves."""

    def __init__(self, bench: Bench, token: str, *, long_way: bool) -> None:
        meta: Json = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "slow", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
            **({"progressToken": "p1"} if long_way else {}),
        }
        params = {"name": "get_echo", "arguments": {"n": 1}, "_meta": meta}
        self._body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        url = urlsplit(bench.operator.mcp)
        self._http = http.client.HTTPConnection(str(url.hostname), url.port, timeout=20)
        self._http.putrequest("POST", url.path)
        for name, value in {
            "authorization": f"Bearer {token}", "content-type": "application/json", "content-length": str(len(self._body)),
            "accept": "application/json, text/event-stream", "mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": "get_echo",
        }.items():  # fmt: skip
            self._http.putheader(name, value)
        self._http.endheaders()

    def finish(self) -> Json:
        """The result, wherever the answer has it."""
        self._http.send(self._body)
        text = self._http.getresponse().read().decode()
        self._http.close()
        lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")] or [text]
        found: Json = json.loads(lines[-1])
        return dict(found.get("result") or found["error"])


@pytest.mark.parametrize("long_way", [False, True])
@pytest.mark.parametrize("event", ["ended", "expired", "nothing"])
def test_a_call_that_arrives_slowly(bench: Bench, provider: Provider, event: str, long_way: bool) -> None:
    run, token = bench.run(ttl_s=60)
    slow = Slow(bench, token, long_way=long_way)
    _let_the_head_arrive(bench, token)
    if event == "ended":
        bench.op("POST", f"/runs/{run}/end")
    bench.advance(61 if event == "expired" else 1)
    result = slow.finish()
    if event == "nothing":
        assert result["_meta"]["gateway/outcome"] == "success"
        assert len(provider.calls) == 2
    else:
        assert result["_meta"]["gateway/reason"] == "run_ended"
        assert len(provider.calls) == 1
        assert bench.trail(run)[-2:] == denied("run_ended")


def _let_the_head_arrive(bench: Bench, token: str) -> None:
    """A whole call sent later by somebody else is answered after the head sent before it was read: one loop serves both in turn."""
    assert bench.call(token, "get_echo", {"n": 0})["_meta"]["gateway/outcome"] == "success"


@pytest.mark.parametrize("taken_away", [False, True])
def test_what_an_operator_asks_slowly(bench: Bench, taken_away: bool) -> None:
    token = bench.op("POST", "/operators", {"operator": "ann", "role": "operator"})["token"]
    _, agent = bench.run()
    url, body = urlsplit(str(bench.operator.http.base_url)), b'{"permissions":{"get_echo":"off"}}'
    slow = http.client.HTTPConnection(str(url.hostname), url.port, timeout=20)
    slow.putrequest("PUT", f"{url.path}tenants/{bench.tenant}/connections/notes/permissions")
    slow.putheader("authorization", f"Bearer {token}")
    slow.putheader("content-length", str(len(body)))
    slow.endheaders()
    _let_the_head_arrive(bench, agent)
    if taken_away:
        bench.op("DELETE", "/operators/ann")
    bench.advance(1)
    slow.send(body)
    answer = slow.getresponse()
    told = json.loads(answer.read())
    slow.close()
    words = bench.op("GET", "/connections/notes/permissions")["permissions"]
    if taken_away:
        assert (answer.status, told["error"]["code"], words["get_echo"]) == (401, "operator_unauthorized", "allowed")
    else:
        assert (answer.status, words["get_echo"]) == (200, "off")
