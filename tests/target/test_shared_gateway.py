"""Gateways that serve several connections from one process: what their doors answer, in the words of a target. Their own software is not needed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest

from harness.errors import ContractBroken, Exit, Unreachable, Untestable
from harness.model.scenario import ConnectionSpec
from harness.target.base import ConnectionRequest, LaunchOptions
from harness.target.contextforge import TARGET as FORGE
from harness.target.contextforge import ContextForgeGateway
from harness.target.contextforge_record import records_of
from harness.target.dialect import Reply, first
from harness.target.fastmcp import JOINT_NAMES
from harness.target.fastmcp import TARGET as FASTMCP
from harness.target.light import Served
from harness.target.litellm import TARGET as LITELLM
from harness.target.litellm import LiteLlmGateway
from harness.target.names import Naming
from harness.transparency.audit import word_of

TOOLS = [
    {"id": "t1", "originalName": "add_memory", "name": "lab-add-memory", "gatewayId": "g1", "enabled": True, "annotations": {"readOnlyHint": False}},
    {"id": "t2", "originalName": "wipe", "name": "lab-wipe", "gatewayId": "g1", "enabled": False},
    {"id": "t3", "originalName": "other", "name": "else-other", "gatewayId": "g2", "enabled": True},
]


class Living:
    """A process that does not end."""

    process_id = 1

    def must_live(self) -> None:
        return


def request(name: str) -> ConnectionRequest:
    spec = ConnectionSpec(grant="personal")
    return ConnectionRequest(name, "generic", "mcp_http", "http://127.0.0.1:1/mcp", "2025-11-25", {}, {"token": "synthetic-key"}, spec, "user")


async def asked(answers: Callable[[httpx2.Request], httpx2.Response], folder: Path, work: Callable[[ContextForgeGateway], Awaitable[Any]]) -> Any:
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answers)) as http:
        gateway = ContextForgeGateway(FORGE, FORGE.installation(), LaunchOptions(work_dir=folder), http)
        served = gateway.new_process("t", request("lab"))
        served.child = Living()  # type: ignore[assignment]
        gateway.remember("t", request("lab"), served)
        gateway._ids["t", "lab"] = "g1"
        gateway._tokens[served.port] = "synthetic-admin"
        try:
            return await work(gateway)
        finally:
            served.home.rmdir()


def registry(sent: list[tuple[str, str]], entries: Any = ()) -> Callable[[httpx2.Request], httpx2.Response]:
    def answer(asked_for: httpx2.Request) -> httpx2.Response:
        assert asked_for.headers["authorization"] == "Bearer synthetic-admin"
        path = asked_for.url.path
        sent.append((asked_for.method, str(asked_for.url).partition("127.0.0.1")[2].partition("/")[2]))
        if path == "/tools":
            return httpx2.Response(200, json=TOOLS)
        if path == "/api/logs/audit-trails":
            return httpx2.Response(200, json=list(entries))
        return httpx2.Response(200, json={})

    return answer


def test_its_registry_is_read_by_connection_and_in_the_providers_names(tmp_path: Path) -> None:
    catalog = asyncio.run(asked(registry([]), tmp_path, lambda g: g.catalog("t", "lab")))
    assert [(e["name"], e["exposed_as"], e["status"]) for e in catalog["tools"]] == [
        ("add_memory", "lab-add-memory", "active"),
        ("wipe", "lab-wipe", "removed"),
    ]
    assert asyncio.run(asked(registry([]), tmp_path, lambda g: g.access("t", "lab"))) == {"allowed": 1, "ask_first": 0, "off": 1}


def test_a_tool_is_switched_off_and_nothing_is_asked_first(tmp_path: Path) -> None:
    sent: list[tuple[str, str]] = []
    asyncio.run(asked(registry(sent), tmp_path, lambda g: g.set_permissions("t", "lab", {"add_memory": "off"})))
    assert ("POST", "tools/t1/state?activate=false") in sent
    with pytest.raises(Untestable, match="approvals"):
        asyncio.run(asked(registry([]), tmp_path, lambda g: g.set_permissions("t", "lab", {"add_memory": "ask_first"})))


def test_a_connection_that_is_refused_is_unreachable_by_name_and_version(tmp_path: Path) -> None:
    """ContextForge refuses addresses on loopback, unless it is told that it may have them."""
    refused = httpx2.Response(422, text="SSRF protection: 127.0.0.1 is not allowed")
    with pytest.raises(Unreachable, match=r"contextforge 1\.0\.7\S* refused registering tap: HTTP 422 SSRF") as caught:
        asyncio.run(asked(lambda _: refused, tmp_path, lambda g: g.connect("t", request("tap"))))
    assert caught.value.exit_code == Exit.UNREACHABLE


def test_a_refusal_names_the_gateway_its_version_and_what_was_asked(tmp_path: Path) -> None:
    with pytest.raises(ContractBroken, match=r"contextforge 1\.0\.7\S* refused refreshing lab: HTTP 409"):
        asyncio.run(asked(lambda _: httpx2.Response(409, text="busy"), tmp_path, lambda g: g.refresh("t", "lab")))
    with pytest.raises(ContractBroken, match="without JSON"):
        asyncio.run(asked(lambda _: httpx2.Response(200, text="<html>"), tmp_path, lambda g: g.catalog("t", "lab")))


def test_silence_is_unreachable_by_name(tmp_path: Path) -> None:
    def silent(asked_for: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=asked_for)

    with pytest.raises(Unreachable, match=r"contextforge 1\.0\.7\S* did not answer GET /tools"):
        asyncio.run(asked(silent, tmp_path, lambda g: g.catalog("t", "lab")))


def entry(action: str, kind: str, **more: Any) -> Mapping[str, Any]:
    return {"action": action, "resource_type": kind, "timestamp": "2026-01-01T00:00:00", "success": True, "resource_name": "lab-x", **more}


def test_only_an_executed_tool_is_a_call_in_its_trail(tmp_path: Path) -> None:
    made = [entry("create_gateway", "gateway"), entry("UPDATE", "tool"), entry("execute", "resource"), "torn", None]
    assert records_of(made, FORGE.naming) == []
    assert asyncio.run(asked(registry([], made), tmp_path, lambda g: g.audit("t", None))) == []
    called = [entry("execute", "tool", timestamp="2"), entry("EXECUTE", "tool", success=False, timestamp="1")]
    assert [record["outcome"] for record in records_of(called, FORGE.naming)] == ["failure", "success"]
    assert word_of(records_of(called[:1], Naming())) == "ok"


def test_litellm_writes_one_file_for_all_connections_and_leaves_off_what_is_not_allowed(tmp_path: Path) -> None:
    async def work() -> tuple[dict[str, Any], dict[str, Any]]:
        async with httpx2.AsyncClient() as http:
            gateway = LiteLlmGateway(LITELLM, LITELLM.installation(), LaunchOptions(work_dir=tmp_path), http)
            before = gateway._server("t", request("lab"))
            gateway._allowed["t", "lab"] = ["add_memory"]
            return before, gateway._server("t", request("lab"))

    before, after = asyncio.run(work())
    assert "allowed_tools" not in before
    assert after == {**before, "allowed_tools": ["add_memory"]}
    assert before["auth_value"] == "synthetic-key"


def test_litellm_starts_once_for_several_changes_and_always_in_the_end(tmp_path: Path) -> None:
    async def work() -> tuple[list[list[str]], list[str]]:
        async with httpx2.AsyncClient() as http:
            gateway = Counting(LITELLM, LITELLM.installation(), LaunchOptions(work_dir=tmp_path), http)
            await gateway.connect("t", request("first"))
            async with gateway.at_once("t"):
                await gateway.connect("t", request("second"))
                await gateway.connect("t", request("third"))
            with suppress(Unreachable):
                async with gateway.at_once("t"):
                    await gateway.disconnect("t", "second")
                    raise Unreachable("something else went wrong")
            home = gateway.served["t", "first"].home
            left = list(gateway.requests["t"])
            await gateway.close_tenant("t")
            assert not home.exists()
            return gateway.starts, left

    starts, left = asyncio.run(work())
    assert starts == [["first"], ["first", "second", "third"], ["first", "third"]]
    assert left == ["first", "third"]


class Counting(LiteLlmGateway):
    """Which connections each start had; the process itself is left out."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.starts: list[list[str]] = []

    async def begun(self, tenant: str, served: Served) -> None:
        self.starts.append(list(self.requests[tenant]))
        served.child = Living()  # type: ignore[assignment]

    async def _end(self, served: Served) -> None:
        served.child = None


def test_fastmcp_has_one_file_for_a_joint_session_in_the_order_that_was_asked_for(tmp_path: Path) -> None:
    served = Served(request("b"), tmp_path, 1, tmp_path / "x.log")
    command = FASTMCP.command_for(FASTMCP.installation(), served, [request("b"), request("a")])
    file = tmp_path / "mcp.json"
    assert list(json.loads(file.read_text())["mcpServers"]) == ["b", "a"]
    assert file.stat().st_mode & 0o077 == 0
    assert "synthetic" not in json.dumps(list(command.words))
    assert JOINT_NAMES.shown("acme_", "status") == JOINT_NAMES.shown("acme", "_status"), "the collision that case b08 shows"


def test_litellm_refuses_in_a_text_and_a_providers_error_is_no_refusal() -> None:
    def said(text: str, error: bool) -> Mapping[str, Any]:
        return first(LITELLM.dialects, Reply(result={"content": [{"type": "text", "text": text}], "isError": error}))

    refused = "403: Tool wipe is not allowed for server lab. Contact proxy admin to allow this tool."
    assert said(refused, True)["outcome"] == "denied"
    assert said("Error: 403 Forbidden: this tag is not allowed", True) == {}
    assert said(refused, False) == {}


@pytest.mark.parametrize("target", [FORGE, LITELLM])
def test_no_secret_stands_in_the_command_line(target: Any, tmp_path: Path) -> None:
    """Anybody on the machine can read a command line."""

    async def work() -> Any:
        async with httpx2.AsyncClient() as http:
            gateway = target.running(target.installation(), LaunchOptions(work_dir=tmp_path), http)
            return target.command(target.installation(), gateway.new_process("t", request("lab")))

    command = asyncio.run(work())
    assert "synthetic" not in json.dumps(list(command.words))
    assert "synthetic-key" in command.hidden
    command.home.rmdir()
