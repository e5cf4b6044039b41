"""The Papr bridge against the stand-in under Papr's real name and a test authority, alone and behind the gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
from anyio.from_thread import BlockingPortal, start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from harness.clock import TestClock
from harness.fake.kit import Account
from harness.fake.papr import PaprFake
from reference_gateway.bridge.exchange import ArgumentsRefused, BridgeError, BridgeResult
from reference_gateway.bridge.papr import PaprBridge
from reference_gateway.egress import Egress

from .conftest import SUCCESS, Bench, Operator, Provider, Refused, Served, answer, gateway_served

HOST = "memory.papr.ai"
ORIGIN = f"https://{HOST}"
LIMIT = 100_000
SECRETS = {"credentials.api_key": "pk-canary-1", "credentials.session_token": "ps-canary-2", "credentials.bearer": "pb-canary-3"}
KEY = ("credentials.api_key", SECRETS["credentials.api_key"])


@dataclass
class Papr:
    """The stand-in, in front of which every request is written down; `canned` is what is answered instead, if anything is."""

    fake: PaprFake = field(default_factory=lambda: PaprFake(TestClock()))
    seen: list[tuple[str, str, str, dict[str, str], bytes]] = field(default_factory=list)
    encodings: list[str] = field(default_factory=list)
    canned: tuple[int, str, bytes] | None = None

    def __post_init__(self) -> None:
        for path, way in zip(SECRETS, ("api_key", "session_token", "bearer"), strict=True):
            self.fake.admit(Account(SECRETS[path], way))
            self.fake.configure(SECRETS[path], accepts=way)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        parts = []
        while (message := await receive())["type"] == "http.request":
            parts.append(message.get("body", b""))
            if not message.get("more_body"):
                break
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        self.seen.append((scope["method"], scope["path"], scope["query_string"].decode(), headers, b"".join(parts)))
        if self.canned is not None:
            await answer(send, *self.canned)
            return

        async def again() -> Message:
            return {"type": "http.request", "body": b"".join(parts), "more_body": False}

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.encodings.append(dict(message["headers"]).get(b"content-encoding", b"").decode())
            await send(message)

        await self.fake.app(scope, again, watched)


@dataclass
class Place:
    """The stand-in under Papr's name, and one guarded client in a loop of its own: a TLS context for each call would cost more than it."""

    papr: Papr
    port: int
    ca_file: str
    portal: BlockingPortal
    egress: Egress

    def call(self, name: str, arguments: dict[str, Any], credential: tuple[str, str] = KEY, limit: int = LIMIT) -> BridgeResult:
        return self.portal.call(lambda: PaprBridge(self.egress, ORIGIN, credential).call(name, arguments, limit=limit))

    def probe(self, credential: tuple[str, str] = KEY) -> None:
        self.portal.call(PaprBridge(self.egress, ORIGIN, credential).probe)


@asynccontextmanager
async def egress_to(port: int, ca_file: str) -> AsyncIterator[Egress]:
    egress = Egress({HOST: ("127.0.0.1", port)}, ca_file)
    yield egress
    await egress.aclose()


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    authority = trustme.CA()
    ca_file: Path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    papr = Papr()
    served = Served(papr)
    with authority.issue_cert(HOST).private_key_and_cert_chain_pem.tempfile() as pem:
        served.server.config.ssl_certfile = pem
        served.server.config.ssl_keyfile = pem
        with served, start_blocking_portal() as portal, portal.wrap_async_context_manager(egress_to(served.port, str(ca_file))) as egress:
            yield Place(papr, served.port, str(ca_file), portal, egress)


@pytest.fixture
def place(standing: Place) -> Place:
    standing.papr.seen.clear()
    standing.papr.encodings.clear()
    standing.papr.canned = None
    return standing


def added(place: Place, content: str = "a silver compass", **more: Any) -> str:
    found: str = place.call("add_memory", {"content": content, **more}).result["structuredContent"]["data"][0]["memoryId"]
    return found


# requests


@pytest.mark.parametrize(
    ("path", "header", "value"),
    [
        ("credentials.api_key", "x-api-key", "pk-canary-1"),
        ("credentials.session_token", "x-session-token", "ps-canary-2"),
        ("credentials.bearer", "authorization", "Bearer pb-canary-3"),
    ],
)
def test_one_credential_in_its_own_header_and_a_client_type(place: Place, path: str, header: str, value: str) -> None:
    place.probe((path, SECRETS[path]))
    ((method, asked, query, headers, body),) = place.papr.seen
    assert (method, asked, query, body) == ("GET", "/v1/memory/00000000-0000-0000-0000-000000000000", "", b"")
    assert headers[header] == value
    assert {"x-api-key", "x-session-token", "authorization"} & headers.keys() == {header}
    assert headers["x-client-type"]
    assert headers["host"] == HOST
    with pytest.raises(BridgeError) as caught:
        place.probe((path, "wrong-canary"))
    assert (caught.value.code, caught.value.http_status, caught.value.status) == ("memory_api_key_rejected", 422, 401)
    assert "wrong-canary" not in str(caught.value)


def test_each_argument_goes_where_papr_reads_it(place: Place) -> None:
    whole = {
        "content": "x", "type": "document", "metadata": {"role": "user", "own": 1}, "context": [{"role": "user", "content": "c"}],
        "relationships_json": [{"relation_type": "r"}], "graph_generation": {"mode": "auto", "auto": {"schema_id": "s"}},
        "organization_id": "o", "namespace_id": "n", "user_id": "u", "external_user_id": "e",
    }  # fmt: skip
    memory = place.call("add_memory", {**whole, "skip_background_processing": True}).result["structuredContent"]["data"][0]["memoryId"]
    search = {
        "query": "x", "rank_results": True, "enable_agentic_graph": True, "user_id": "u", "external_user_id": "e", "organization_id": "o",
        "namespace_id": "n", "schema_id": "s", "simple_schema_mode": True, "metadata": {"role": "user"},
        "search_override": {"pattern": {"source_label": "A", "relationship_type": "R", "target_label": "B"}},
    }  # fmt: skip
    place.call("search_memory", {**search, "max_memories": 10, "max_nodes": 50})
    place.call("update_memory", {"memory_id": memory, "content": "y", "namespace_id": "n"})
    place.call("get_memory", {"memory_id": memory})
    batch = {"memories": [{"content": "z"}], "batch_size": 50, "user_id": "u", "webhook_url": "https://hooks.example.com/", "webhook_secret": "w"}
    place.call("add_memory_batch", {**batch, "skip_background_processing": False})
    place.call("delete_memory", {"memory_id": memory, "skip_parse": True})
    place.call("delete_all_memories", {"user_id": "u", "external_user_id": "e", "skip_parse": False})
    assert [(method, path, query, json.loads(body) if body else None) for method, path, query, _, body in place.papr.seen] == [
        ("POST", "/v1/memory", "skip_background_processing=true", whole),
        ("POST", "/v1/memory/search", "max_memories=10&max_nodes=50", search),
        ("PUT", f"/v1/memory/{memory}", "", {"content": "y", "namespace_id": "n"}),
        ("GET", f"/v1/memory/{memory}", "", None),
        ("POST", "/v1/memory/batch", "skip_background_processing=false", batch),
        ("DELETE", f"/v1/memory/{memory}", "skip_parse=true", None),
        ("DELETE", "/v1/memory/all", "user_id=u&external_user_id=e&skip_parse=false", None),
    ]


def test_what_is_refused_is_not_sent(place: Place) -> None:
    for name, arguments in (
        ("delete_all_memories", {}),
        ("delete_memory", {"memory_id": "all"}),
        ("add_memory", {"content": "é" * 7_501}),
        ("search_memory", {"query": "q", "max_memories": 9}),
        ("add_memory_batch", {"memories": [{"content": "x"}], "webhook_url": "https://10.0.0.1/"}),
    ):
        with pytest.raises(ArgumentsRefused):
            place.call(name, arguments)
    assert place.papr.seen == []


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.text(min_size=1, max_size=200).filter(lambda text: text.strip()),
    metadata=st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
)
def test_any_text_comes_back_as_it_went(place: Place, content: str, metadata: dict[str, str]) -> None:
    """Through the rules, the wire and the stand-in, nothing is lost."""
    free = {f"own {name}": value for name, value in metadata.items()}
    memory = added(place, content, metadata=free)
    (kept,) = place.call("get_memory", {"memory_id": memory}).result["structuredContent"]["data"]["memories"]
    assert (kept["content"], kept["metadata"]) == (content, free)


# answers


def test_an_envelope_is_passed_on_as_it_is(place: Place) -> None:
    place.papr.canned = (200, "application/json", b'{"status": "success", "n": 1e2, "data": []}')
    found = place.call("add_memory", {"content": "x"})
    assert (found.is_error, found.status, found.endpoint) == (False, 200, f"{ORIGIN}/v1/memory")
    assert found.result["content"] == [{"type": "text", "text": '{"status": "success", "n": 1e2, "data": []}'}]
    assert found.result["structuredContent"] == {"status": "success", "n": 100.0, "data": []}


def test_a_large_answer_comes_compressed_and_bounded(place: Place) -> None:
    memory = added(place, "z" * 14_000)
    assert place.call("get_memory", {"memory_id": memory}).result["structuredContent"]["data"]["memories"][0]["content"] == "z" * 14_000
    assert place.papr.encodings[-1] == "gzip"
    with pytest.raises(BridgeError) as caught:
        place.call("get_memory", {"memory_id": memory}, limit=10_000)
    assert caught.value.code == "mcp_remote_response_too_large"


def test_partial_is_an_answer_and_error_inside_200_is_none(place: Place) -> None:
    place.papr.fake.configure(KEY[1], failing_items=(0,))
    found = place.call("add_memory_batch", {"memories": [{"content": "a"}, {"content": "b"}]})
    assert (found.is_error, found.status, found.result["structuredContent"]["status"]) == (False, 207, "partial")
    place.papr.fake.configure(KEY[1], failing_items=())
    place.papr.canned = (200, "application/json", b'{"code": 500, "status": "error", "error": "no"}')
    found = place.call("search_memory", {"query": "q"})
    assert (found.is_error, found.result["isError"], found.status) == (True, True, 200)


@pytest.mark.parametrize("status", [301, 400, 401, 403, 404, 413, 422, 429, 500, 503])
def test_a_status_other_than_2xx_is_an_error_that_repeats_nothing(place: Place, status: int) -> None:
    place.papr.canned = (status, "application/json", b'{"error": "canary-body"}')
    found = place.call("get_memory", {"memory_id": "m1"})
    assert (found.is_error, found.status) == (True, status)
    assert found.result == {"content": [{"type": "text", "text": f"Papr answered with HTTP status {status}."}], "isError": True}
    assert len(place.papr.seen) == 1


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"<html>", "mcp_remote_invalid_json"),
        (b"", "mcp_remote_invalid_json"),
        (b"\xff", "mcp_remote_invalid_json"),
        (b'{"a": NaN}', "mcp_remote_invalid_json"),
        (b'{"a": 1e999}', "mcp_remote_invalid_json"),
        (b"[" * 50_000, "mcp_remote_invalid_json"),
        (b"[]", "remote_mcp_malformed_response"),
        (b"null", "remote_mcp_malformed_response"),
    ],
)
def test_what_is_no_envelope_is_no_answer(place: Place, body: bytes, code: str) -> None:
    place.papr.canned = (200, "application/json", body)
    with pytest.raises(BridgeError) as caught:
        place.call("get_memory", {"memory_id": "m1"})
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("status", "code"),
    [(200, "papr_access_unverified"), (302, "papr_access_unverified"), (500, "papr_access_unverified"), (403, "memory_api_key_rejected")],
)
def test_a_probe_believes_nothing_but_that_there_is_no_such_memory(place: Place, status: int, code: str) -> None:
    place.papr.canned = (status, "application/json", b"{}")
    with pytest.raises(BridgeError) as caught:
        place.probe()
    assert (caught.value.code, caught.value.http_status) == (code, 422)


# behind the gateway


@pytest.fixture(scope="module")
def bench(standing: Place) -> Iterator[Bench]:
    with gateway_served(mapped={HOST: ("127.0.0.1", standing.port)}, map_ca=standing.ca_file) as operator:
        yield Bench(operator, Provider(), operator("POST", "/tenants", {})["tenant"], "papr")


def connect(bench: Bench, name: str, credentials: dict[str, str], **more: Any) -> dict[str, Any]:
    body = {"name": name, "provider": "papr", "transport": "papr_cloud", "credentials": credentials, **more}
    return bench.op("POST", "/connections", body)


def test_a_bad_key_is_refused_and_stored_nowhere_and_the_retry_works(place: Place, bench: Bench) -> None:
    with pytest.raises(Refused) as caught:
        connect(bench, "first", {"credentials.api_key": "bad-canary-9"})
    assert (caught.value.status, caught.value.code) == (422, "memory_api_key_rejected")
    with pytest.raises(Refused):
        bench.op("GET", "/connections/first")
    made = connect(bench, "first", {"credentials.api_key": KEY[1]})
    assert (made["tools"], made["transport"]) == (7, "papr_cloud")
    assert "canary" not in json.dumps([made, bench.records()])


@pytest.mark.parametrize(
    ("credentials", "more"),
    [
        ({}, {}),
        (SECRETS, {}),
        ({"credentials.api_key": KEY[1], "credentials.bearer": "b"}, {}),
        ({"credentials.authorization": KEY[1]}, {}),
        ({"credentials.api_key": "a b"}, {}),
        ({"credentials.api_key": KEY[1]}, {"auth": {"scheme": "bearer", "path": "credentials.api_key"}}),
        ({"credentials.api_key": KEY[1]}, {"url": "http://memory.papr.ai/"}),
        ({"credentials.api_key": KEY[1]}, {"url": "http://127.0.0.1:80"}),
        ({"credentials.api_key": KEY[1]}, {"url": "https://10.0.0.1"}),
        ({"credentials.api_key": KEY[1]}, {"url": "https://memory.papr.ai/v1"}),
    ],
)
def test_a_connection_has_exactly_one_credential_and_an_https_origin(
    place: Place, bench: Bench, credentials: dict[str, str], more: dict[str, Any]
) -> None:
    with pytest.raises(Refused) as caught:
        connect(bench, "never", dict(credentials), **more)
    assert caught.value.status == 422
    assert caught.value.code in ("invalid_field", "url_rejected")
    assert "canary" not in json.dumps(caught.value.error)
    assert place.papr.seen == []


def test_calls_cross_the_bridge_with_the_right_records(place: Place, bench: Bench) -> None:
    connect(bench, "papr", {"credentials.session_token": SECRETS["credentials.session_token"]})
    run, token = bench.run("papr")
    stored = bench.call(token, "add_memory", {"content": "a silver compass"})
    memory = stored["structuredContent"]["data"][0]["memoryId"]
    found = bench.call(token, "papr__search_memory", {"query": "compass"})
    assert found["structuredContent"]["data"]["memories"][0]["id"] == memory
    assert bench.trail(run) == [*SUCCESS, *SUCCESS]
    details = bench.records(run)[-1]["details"]
    assert (details["transport"], details["endpoint"]) == ("papr_cloud", f"{ORIGIN}/v1/memory/search")
    sent = len(place.papr.seen)
    for name, arguments in (("delete_all_memories", {}), ("delete_memory", {"memory_id": "all"}), ("search_memory", {"query": "q", "max_nodes": 51})):
        assert bench.call(token, name, arguments)["_meta"]["gateway/reason"] == "invalid_arguments"
    assert len(place.papr.seen) == sent
    assert "canary" not in json.dumps(bench.records())


def test_the_gallery_sets_papr_up_with_one_of_the_three(place: Place, bench: Bench) -> None:
    bench.op("POST", "/setups", {"connector": "papr", "name": "guided"})
    bearer = {"credentials.bearer": SECRETS["credentials.bearer"]}
    for values, code in ((dict(SECRETS), "invalid_field"), ({"credentials.bearer": "bad-canary-8"}, "memory_api_key_rejected")):
        with pytest.raises(Refused) as caught:
            bench.op("POST", "/setups/guided/credentials", {"values": values})
        assert caught.value.code == code
        assert bench.op("GET", "/setups/guided")["credentials"] == []
    done = bench.op("POST", "/setups/guided/credentials", {"values": bearer})
    assert (done["status"], done["step"], [c["path"] for c in done["credentials"]]) == ("active", "done", ["credentials.bearer"])
    _, token = bench.run("guided")
    assert bench.call(token, "search_memory", {"query": "compass"})["_meta"]["gateway/outcome"] == "success"
    assert place.papr.seen[-1][3]["authorization"] == f"Bearer {SECRETS['credentials.bearer']}"
    sent = len(place.papr.seen)
    assert bench.op("POST", "/connections/guided/check")["probed"] is False
    assert len(place.papr.seen) == sent
    bench.op("POST", "/connections/guided/rotate", {"values": bearer})
    assert "canary" not in json.dumps(bench.records())


def test_the_gallery_s_fields_are_the_bridge_s_credentials(bench: Bench) -> None:
    operator: Operator = bench.operator
    (papr,) = [c for c in operator("GET", f"/tenants/{bench.tenant}/gallery")["connectors"] if c["id"] == "papr"]
    assert ({f["path"] for f in papr["fields"]}, papr["choose"], papr["endpoint"]) == (set(SECRETS), "one", ORIGIN)
