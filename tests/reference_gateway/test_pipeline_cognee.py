"""The Cognee bridge behind the gateway: the real host name, mapped to loopback, with its certificate and URL rules in force."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
import trustme
from starlette.types import Receive, Scope, Send

from .conftest import SUCCESS, Bench, Operator, Provider, Refused, Served, answer, denied, gateway_served, raw_call

HOST = "tenant-0f8fad5b-d9cb-469f-a165-70867728950e.aws.cognee.ai"
KEY = "cognee-key-77aa"
REMEMBER = {"data": "a silver compass", "dataset_name": "d1"}


@dataclass
class Cognee:
    """The smallest thing that answers like Cognee Cloud."""

    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    status: int = 200
    body: bytes = b'[{"text":"a silver compass"}]'
    hold: threading.Event | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = {k.decode(): v.decode() for k, v in scope["headers"]}
        self.requests.append((scope["method"], scope["path"], headers, body))
        if headers.get("x-api-key") != KEY:
            await answer(send, 401, "application/json", b"{}")
        elif scope["path"] == "/api/v1/datasets/":
            await answer(send, 200, "application/json", b'[{"id":"1","name":"d1"}]')
        else:
            if self.hold is not None:
                await asyncio.to_thread(self.hold.wait, 20)
            await answer(send, self.status, "application/json", self.body)

    def calls(self) -> list[str]:
        return [path for method, path, _, _ in self.requests if method == "POST"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[trustme.CA, str]:
    authority = trustme.CA()
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return authority, str(path)


@contextlib.contextmanager
def cognee_bench(authority: tuple[trustme.CA, str], *defects: str, host: str = HOST) -> Iterator[tuple[Bench, Cognee]]:
    ca, ca_file = authority
    cognee = Cognee()
    served = Served(cognee)
    with ca.issue_cert(host).private_key_and_cert_chain_pem.tempfile() as pem:
        served.server.config.ssl_certfile = pem
        served.server.config.ssl_keyfile = pem
        with served, gateway_served(*defects, mapped={"*.aws.cognee.ai": ("127.0.0.1", served.port)}, map_ca=ca_file) as operator:
            bench = Bench(operator, Provider(), operator("POST", "/tenants", {})["tenant"], "cognee")
            try:
                yield bench, cognee
            finally:
                if cognee.hold is not None:
                    cognee.hold.set()


def connect(bench: Bench, key: str = KEY) -> dict[str, Any]:
    credentials = {"env.COGNEE_BASE_URL": f"https://{HOST}", "env.COGNEE_API_KEY": key}
    body = {"name": "cognee", "provider": "cognee", "transport": "cognee_cloud", "credentials": credentials}
    return bench.op("POST", "/connections", body)


def test_remember_and_recall_cross_the_bridge_with_the_right_records(authority: tuple[trustme.CA, str]) -> None:
    with cognee_bench(authority) as (bench, cognee):
        made = connect(bench)
        assert made["transport_details"] == {"spawned_local_process": False, "mapped": True}
        assert (made["url"], made["tools"]) == (None, 3)
        assert bench.operator("GET", "/health")["development"]["mapped_hosts"] == ["*.aws.cognee.ai"]
        run, token = bench.run("cognee")
        assert bench.call(token, "remember", REMEMBER)["_meta"]["gateway/outcome"] == "success"
        result = bench.call(token, "cognee__recall", {"query": "compass", "datasets": "d1"})
        assert json.loads(result["content"][0]["text"]) == [{"text": "a silver compass"}]
        assert cognee.calls() == ["/api/v1/remember", "/api/v1/recall"]
        assert bench.trail(run) == [*SUCCESS, *SUCCESS]
        record = bench.records(run)[-1]
        assert record["details"]["transport"] == "cognee_cloud"
        assert record["details"]["spawned_local_process"] is False
        assert record["details"]["endpoint"] == f"https://{HOST}/api/v1/recall"
        assert cognee.requests[-1][2]["x-tenant-id"] == HOST[7:43]
        assert KEY not in json.dumps([bench.records(), made])


def test_a_recall_before_indexing_is_an_honest_failure(authority: tuple[trustme.CA, str]) -> None:
    with cognee_bench(authority) as (bench, cognee):
        connect(bench)
        cognee.status = 409
        run, token = bench.run("cognee")
        result = bench.call(token, "recall", {"query": "compass", "datasets": "d1"})
        assert result["isError"] is True
        assert result["_meta"]["gateway/outcome"] == "tool_error"
        assert bench.trail(run)[-1] == ("call_failed", "failure", "allow", "tool_error")
        assert bench.records(run)[-1]["details"]["provider_status"] == 409
        assert len(cognee.calls()) == 1


def test_what_would_delete_everything_by_accident_is_refused_before_anything_is_sent(authority: tuple[trustme.CA, str]) -> None:
    with cognee_bench(authority) as (bench, cognee):
        connect(bench)
        for arguments in ({}, {"dataset": "d1", "everything": True}, {"dataset": 3}):
            run, token = bench.run("cognee")
            assert bench.call(token, "forget", arguments)["_meta"]["gateway/reason"] == "invalid_arguments"
            assert bench.trail(run) == denied("invalid_arguments")
        assert cognee.calls() == []


def test_a_wrong_key_and_a_wrong_certificate_are_told_apart(authority: tuple[trustme.CA, str]) -> None:
    with cognee_bench(authority) as (bench, _), pytest.raises(Refused) as caught:
        connect(bench, "wrong")
    assert (caught.value.status, caught.value.code) == (422, "memory_api_key_rejected")
    with cognee_bench(authority, host="other.aws.cognee.ai") as (bench, _), pytest.raises(Refused) as caught:
        connect(bench)
    assert (caught.value.status, caught.value.code) == (502, "provider_unreachable")


@pytest.mark.parametrize(
    ("asked", "steps", "outcome"),
    [(None, [12.0], "success"), (None, [35.0], "success"), (None, [61.0], "timeout"), (20, [12.0, 9.0], "timeout"), (40, [35.0], "success")],
)
def test_a_slow_recall_has_sixty_seconds_unless_the_caller_says_less(
    authority: tuple[trustme.CA, str], asked: float | None, steps: list[float], outcome: str
) -> None:
    with cognee_bench(authority) as (bench, cognee):
        connect(bench)
        cognee.hold = threading.Event()
        _, token = bench.run("cognee")

        async def go() -> dict[str, Any]:
            results: list[dict[str, Any]] = []

            async def call() -> None:
                async with bench.agent(token) as session:
                    meta = {"gateway/timeout_s": asked} if asked is not None else None
                    results.append(await raw_call(session, "cognee__recall", {"query": "compass", "datasets": "d1"}, meta))

            async with anyio.create_task_group() as group:
                group.start_soon(call)
                with anyio.fail_after(10):
                    while not cognee.calls():
                        await anyio.sleep(0.01)
                for step in steps:
                    await anyio.to_thread.run_sync(bench.advance, step)
                assert cognee.hold is not None
                cognee.hold.set()
            return results[0]

        assert anyio.run(go)["_meta"]["gateway/outcome"] == outcome


def test_the_defect_that_starts_a_process_says_so_in_its_records(authority: tuple[trustme.CA, str]) -> None:
    with cognee_bench(authority, "spawn-subprocess") as (bench, _):
        assert connect(bench)["transport_details"]["spawned_local_process"] is False
        run, token = bench.run("cognee")
        assert bench.call(token, "remember", REMEMBER)["_meta"]["gateway/outcome"] == "success"
        assert [r["details"]["spawned_local_process"] for r in bench.records(run)[-2:]] == [True, True]


def test_the_defect_that_leaks_finds_the_bridges_key_too(authority: tuple[trustme.CA, str]) -> None:
    with cognee_bench(authority, "leak-credential") as (bench, _):
        connect(bench)
        _, token = bench.run("cognee")
        assert KEY in json.dumps(bench.call(token, "remember", REMEMBER))


def test_a_gateway_without_the_mapping_never_reaches_loopback() -> None:
    with gateway_served() as operator:
        unmapped = Operator(operator.mcp.removesuffix("/mcp"))
        bench = Bench(unmapped, Provider(), unmapped("POST", "/tenants", {})["tenant"])
        body = {
            "name": "x",
            "provider": "generic",
            "transport": "mcp_http",
            "url": "http://127.0.0.1.nip.example/mcp",
        }
        with pytest.raises(Refused) as caught:
            bench.op("POST", "/connections", body)
        assert caught.value.code == "url_rejected"
        unmapped.http.close()
