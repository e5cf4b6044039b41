"""The agents' door: three protocol versions, tokens, names, and results that come through as they were."""

from __future__ import annotations

import json

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from .conftest import SECRET, SUCCESS, TLS, VERSIONS, Bench, raw_call


@pytest.mark.parametrize("version", VERSIONS)
def test_a_call_at_every_version_is_one_request_and_three_records(bench: Bench, version: str) -> None:
    run, token = bench.run()
    result = bench.call(token, "notes__get_echo", {"n": 2**70 + 1, "f": 1.25, "u": "é"}, version=version)
    assert result["structuredContent"] == {"got": {"n": 2**70 + 1, "f": 1.25, "u": "é"}}
    assert result["_meta"]["gateway/outcome"] == "success"
    assert result["_meta"]["gateway/origin"] == "provider"
    assert "gateway/reason" not in result["_meta"]
    assert len(bench.provider.calls) == 1
    assert bench.trail(run, result["_meta"]["gateway/invocation"]) == SUCCESS


@pytest.mark.parametrize("upstream", VERSIONS)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_agent_version_meets_every_pinned_provider_version(bench: Bench, version: str, upstream: str) -> None:
    bench.connect("pinned", protocol_version=upstream)
    assert bench.op("GET", "/connections/pinned/tools")["protocol_version"] == upstream
    _, token = bench.run("pinned")
    result = bench.call(token, "pinned__add_note", {"text": "hi"}, version=version)
    assert json.loads(result["content"][0]["text"])["text"] == "hi"
    sent = bench.provider.headers[-1]["mcp-protocol-version"]
    assert sent == upstream


@pytest.mark.parametrize("version", VERSIONS)
def test_auto_speaks_to_the_provider_in_the_agents_own_era(bench: Bench, version: str) -> None:
    _, token = bench.run()
    bench.call(token, "notes__get_echo", {}, version=version)
    modern = bench.provider.headers[-1]["mcp-protocol-version"] == VERSIONS[-1]
    assert modern == (version == VERSIONS[-1])


@pytest.mark.parametrize("version", VERSIONS)
def test_tools_are_listed_under_the_connections_name_exactly_as_discovered(bench: Bench, version: str) -> None:
    bench.permit(delete_note="off", add_note="ask_first")
    _, token = bench.run()

    async def listed() -> list[dict[str, object]]:
        async with bench.agent(token, version) as session:
            found = await session.list_tools()
            return [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in found.tools]

    tools = {str(tool["name"]): tool for tool in anyio.run(listed)}
    assert "notes__delete_note" not in tools
    assert len(tools) == len(bench.provider.tools) - 1
    assert tools["notes__add_note"] == {
        "name": "notes__add_note",
        "title": "Add",
        "description": "Add a note.",
        "inputSchema": bench.provider.tools[0].input_schema,
    }


def test_the_bare_name_works_with_one_connection_only(bench: Bench) -> None:
    _, token = bench.run()
    assert bench.call(token, "get_echo", {"a": 1})["_meta"]["gateway/outcome"] == "success"
    bench.connect("other")
    run, token = bench.run("notes", "other")
    with pytest.raises(MCPError) as refused:
        bench.call(token, "get_echo", {"a": 1})
    assert refused.value.error.code == -32602
    assert refused.value.error.data["gateway/reason"] == "tool_not_found"
    assert refused.value.error.data["gateway/outcome"] == "denied"
    assert bench.call(token, "other__get_echo", {"a": 1})["_meta"]["gateway/outcome"] == "success"
    assert [r["connection"] for r in bench.records(run) if r["event"] == "call_started"] == ["other"]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_is_error_stays_one_and_is_audited_as_failure(bench: Bench, version: str) -> None:
    run, token = bench.run()
    result = bench.call(token, "notes__get_failure", {}, version=version)
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "no such thing"}]
    assert result["_meta"]["gateway/outcome"] == "tool_error"
    assert result["_meta"]["gateway/reason"] == "tool_error"
    assert result["_meta"]["gateway/origin"] == "provider"
    assert bench.trail(run)[-1] == ("call_failed", "failure", "allow", "tool_error")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_json_rpc_error_keeps_code_message_and_data(bench: Bench, version: str) -> None:
    run, token = bench.run()
    with pytest.raises(MCPError) as failed:
        bench.call(token, "notes__get_boom", {}, version=version)
    assert (failed.value.error.code, failed.value.error.message) == (-32042, "kaboom")
    assert failed.value.error.data == {"why": ["a", {"n": 12345678901234567890}]}
    assert bench.trail(run)[-1] == ("call_failed", "failure", "allow", "remote_mcp_error")
    assert bench.records(run)[-1]["details"]["provider_code"] == -32042


@pytest.mark.parametrize("version", VERSIONS)
def test_content_structure_and_meta_come_through_untouched(bench: Bench, version: str) -> None:
    _, token = bench.run()
    result = bench.call(token, "notes__get_rich", {}, version=version)
    assert result["content"][0] == {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    assert result["content"][1]["resource"] == {"uri": "memo://1", "text": "kept", "mimeType": "text/plain"}
    assert result["structuredContent"] == {"n": 2**70, "f": 1.5, "nested": {"list": [None, True]}}
    assert result["_meta"]["vendor/trace"] == "t-1"


def test_nobody_speaks_for_the_gateway(bench: Bench) -> None:
    _, token = bench.run()
    meta = bench.call(token, "notes__get_spoof", {})["_meta"]
    assert meta["gateway/outcome"] == "success"
    assert meta["vendor/x"] == 1


def test_traceparent_reaches_the_provider_and_the_audit_and_no_mark_of_ours_leaves(bench: Bench) -> None:
    run, token = bench.run()
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    bench.call(token, "notes__get_echo", {}, meta={"traceparent": trace, "gateway/timeout_s": 5, "vendor/y": "kept"})
    sent = bench.provider.calls[-1]["_meta"]
    assert sent["traceparent"] == trace
    assert sent["vendor/y"] == "kept"
    assert not [key for key in sent if key.startswith("gateway/")]
    assert {r["traceparent"] for r in bench.records(run) if r["invocation"]} == {trace}


@pytest.mark.parametrize("version", VERSIONS)
def test_progress_crosses_in_order(bench: Bench, version: str) -> None:
    _, token = bench.run()
    seen: list[float] = []

    async def on_progress(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)
        if done >= 5:
            bench.provider.release.set()

    async def slow() -> None:
        async with bench.agent(token, version) as session:
            await session.call_tool("notes__get_slow", {}, progress_callback=on_progress)

    anyio.run(slow)
    assert seen[:5] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cancelled_call_is_cancelled_at_the_provider_and_recorded(bench: Bench, version: str) -> None:
    run, token = bench.run()

    async def give_up() -> None:
        async with bench.agent(token, version) as session:
            with anyio.CancelScope() as scope:

                async def on_progress(*_: object) -> None:
                    scope.cancel()

                await session.call_tool("notes__get_slow", {}, progress_callback=on_progress)
            with anyio.fail_after(5):
                while bench.provider.cancelled == 0:
                    await anyio.sleep(0.02)

    anyio.run(give_up)
    assert bench.trail(run)[-1] == ("call_failed", "cancelled", "allow", "client_cancelled")


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer nonsense", "Basic abc", "Bearer a b"])
def test_without_a_run_token_the_door_stays_shut(bench: Bench, authorization: str) -> None:
    answer = httpx2.post(bench.operator.mcp, headers={"authorization": authorization} if authorization else {}, content=b"{}", verify=TLS)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"


def test_a_token_expires_on_the_gateways_clock_and_an_ended_run_is_refused_by_name(bench: Bench) -> None:
    run, token = bench.run(ttl_s=60)
    _, other = bench.run(ttl_s=3600)
    bench.op("POST", f"/runs/{run}/end")

    async def call() -> dict[str, object]:
        async with bench.agent(token) as session:
            return await raw_call(session, "notes__get_echo", {})

    result = anyio.run(call)
    assert result["_meta"]["gateway/reason"] == "run_ended"  # type: ignore[index]
    bench.advance(61)
    answer = httpx2.post(bench.operator.mcp, headers={"authorization": f"Bearer {token}"}, content=b"{}", verify=TLS)
    assert answer.status_code == 401
    assert bench.call(other, "notes__get_echo")["_meta"]["gateway/outcome"] == "success"


def test_a_session_belongs_to_the_run_that_opened_it(bench: Bench) -> None:
    _, mine = bench.run()
    _, theirs = bench.run()
    body = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    }
    common = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    opened = httpx2.post(bench.operator.mcp, headers={**common, "authorization": f"Bearer {mine}"}, json=body, verify=TLS)
    session = opened.headers["mcp-session-id"]
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    stolen = httpx2.post(
        bench.operator.mcp, headers={**common, "authorization": f"Bearer {theirs}", "mcp-session-id": session}, json=ping, verify=TLS
    )
    assert stolen.status_code == 404


def test_the_upstream_secret_shows_nowhere(bench: Bench) -> None:
    run, token = bench.run()
    result = bench.call(token, "notes__get_echo", {})
    shown = [result, bench.records(run), bench.op("GET", "/connections/notes"), bench.op("GET", "/connections/notes/tools")]
    assert SECRET not in json.dumps(shown)
    assert bench.provider.headers[-1]["authorization"] == f"Bearer {SECRET}"
    assert token not in json.dumps([bench.provider.headers, bench.provider.calls])
