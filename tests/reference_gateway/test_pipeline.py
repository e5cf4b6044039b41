"""Calls through every stage: allowed, denied, held, approved, declined, expired, replayed, timed out, and every way a provider fails."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from reference_gateway.connection import MAX_IN_FLIGHT, MAX_WAITING, Busy, Slots
from reference_gateway.wire import encode

from .conftest import PENDING, SUCCESS, VERSIONS, Bench, Provider, Refused, denied, provider_served, raw_call

NOTE = {"text": "a silver compass"}


def held(bench: Bench, **more: Any) -> tuple[str, str, dict[str, Any]]:
    """Run, token and the pending result of a call that waits."""
    bench.permit(add_note="ask_first")
    run, token = bench.run()
    return run, token, bench.call(token, "notes__add_note", NOTE, **more)


def approval_of(result: dict[str, Any]) -> str:
    found: str = result["_meta"]["gateway/approval"]["id"]
    return found


# approvals


@pytest.mark.parametrize("version", VERSIONS)
def test_a_held_call_waits_runs_once_and_brings_its_result(bench: Bench, version: str) -> None:
    run, token, result = held(bench, version=version)
    meta = result["_meta"]
    assert result["isError"] is True
    assert "do not repeat" in result["content"][0]["text"]
    assert (meta["gateway/outcome"], meta["gateway/origin"], meta["gateway/reason"]) == ("pending", "gateway", "requires_approval_policy")
    assert meta["gateway/approval"]["state"] == "pending"
    assert bench.provider.calls == []
    assert bench.trail(run) == PENDING

    answer = bench.op("POST", f"/approvals/{approval_of(result)}/approve", {"by": "ann"})
    approval = answer["approval"]
    assert answer["error"] is None
    assert json.loads(answer["result"]["content"][0]["text"])["text"] == NOTE["text"]
    assert (approval["state"], approval["decided_by"]) == ("executed", "ann")
    assert approval["execution"] == {"outcome": "success", "invocation": meta["gateway/invocation"]}
    assert [call["arguments"] for call in bench.provider.calls] == [NOTE]
    assert bench.trail(run) == [
        *PENDING,
        ("approval_resolved", "success", "allow", "approved"),
        ("call_started", "pending", "allow", "dispatching"),
        ("call_completed", "success", "allow", "tool_completed"),
    ]
    records = [r for r in bench.records(run) if r["invocation"]]
    assert {r["approval"] for r in records} == {approval["id"]}
    assert [r["actor"] for r in records] == ["agent:agent-1", "agent:agent-1", "operator:ann", "agent:agent-1", "agent:agent-1"]

    again = bench.call(token, "notes__add_note", NOTE, version=version)
    assert again["content"] == answer["result"]["content"]
    assert again["_meta"]["gateway/outcome"] == "replayed"
    assert again["_meta"]["gateway/replay_of"] == meta["gateway/invocation"]
    assert len(bench.provider.calls) == 1
    assert bench.trail(run)[-1] == ("call_replayed", "success", "allow", "idempotent_replay")
    assert bench.records(run)[-1]["details"] == {"replay_of": meta["gateway/invocation"]}


def test_the_identical_call_waits_for_the_same_approval_and_another_for_its_own(bench: Bench) -> None:
    run, token, first = held(bench)
    second = bench.call(token, "notes__add_note", NOTE)
    assert approval_of(second) == approval_of(first)
    assert bench.trail(run)[-1] == ("policy_decision", "pending", "require_approval", "approval_pending")
    assert approval_of(bench.call(token, "notes__add_note", {"text": "other"})) != approval_of(first)
    other_run, other = bench.run()
    assert approval_of(bench.call(other, "notes__add_note", NOTE)) != approval_of(first)
    assert len(bench.op("GET", "/approvals", run=run)["approvals"]) == 2
    assert len(bench.op("GET", "/approvals", run=other_run, state="pending")["approvals"]) == 1


def test_a_declined_call_is_never_sent_and_its_repetition_is_refused(bench: Bench) -> None:
    run, token, result = held(bench)
    approval = bench.op("POST", f"/approvals/{approval_of(result)}/reject", {"by": "ann", "reason": "no"})["approval"]
    assert (approval["state"], approval["reason"]) == ("rejected", "no")
    again = bench.call(token, "notes__add_note", NOTE)
    assert again["_meta"]["gateway/reason"] == "action_declined"
    assert bench.trail(run) == [*PENDING, ("approval_resolved", "denied", "deny", "action_declined"), *denied("action_declined")]
    assert bench.provider.calls == []
    with pytest.raises(Refused) as refused:
        bench.op("POST", f"/approvals/{approval['id']}/approve", {"by": "bob"})
    assert (refused.value.status, refused.value.code, refused.value.error["state"]) == (409, "approval_not_pending", "rejected")


def test_an_approval_expires_after_an_hour_by_itself(bench: Bench) -> None:
    run, _, result = held(bench)
    bench.advance(3599)
    assert bench.trail(run) == PENDING
    bench.advance(2)
    assert bench.trail(run) == [*PENDING, ("approval_resolved", "denied", "deny", "action_expired")]
    assert bench.op("GET", f"/approvals/{approval_of(result)}")["state"] == "expired"
    with pytest.raises(Refused) as refused:
        bench.op("POST", f"/approvals/{approval_of(result)}/approve", {"by": "ann"})
    assert (refused.value.status, refused.value.code) == (409, "action_expired")
    assert bench.provider.calls == []


@pytest.mark.parametrize("change", ["schema", "off", "revoked", "deleted"])
def test_what_changed_since_it_was_asked_for_is_not_executed(bench: Bench, change: str) -> None:
    run, _, result = held(bench)
    if change == "schema":
        bench.provider.tools[0] = bench.provider.tools[0].model_copy(update={"input_schema": {"type": "object"}})
        bench.op("POST", "/connections/notes/refresh")
    elif change == "off":
        bench.permit(add_note="off")
    elif change == "revoked":
        bench.op("POST", "/connections/notes/revoke")
    else:
        bench.op("DELETE", "/connections/notes")
    answer = bench.op("POST", f"/approvals/{approval_of(result)}/approve", {"by": "ann"})
    assert (answer["approval"]["state"], answer["result"]) == ("cancelled", None)
    assert answer["error"]["code"] == "approved_tool_target_changed"
    assert bench.trail(run) == [*PENDING, ("approval_resolved", "denied", "deny", "approved_tool_target_changed")]
    assert bench.provider.calls == []


def test_a_hundred_clicks_at_once_execute_once(bench: Bench) -> None:
    run, _, result = held(bench)

    def click(number: int) -> str:
        try:
            state: str = bench.op("POST", f"/approvals/{approval_of(result)}/approve", {"by": f"p{number}"})["approval"]["state"]
        except Refused as refused:
            return refused.code
        return state

    with ThreadPoolExecutor(8) as pool:
        outcomes = list(pool.map(click, range(100)))
    assert outcomes.count("executed") == 1
    assert set(outcomes) == {"executed", "approval_not_pending"}
    assert len(bench.provider.calls) == 1
    assert [r["event"] for r in bench.records(run)].count("call_started") == 1


def test_an_approved_call_that_fails_is_failed_and_replayed_as_such(bench: Bench) -> None:
    bench.permit(get_failure="ask_first", get_boom="ask_first")
    run, token = bench.run()
    first = bench.call(token, "notes__get_failure", {})
    answer = bench.op("POST", f"/approvals/{approval_of(first)}/approve", {"by": "ann"})
    assert (answer["approval"]["state"], answer["error"]) == ("failed", None)
    assert answer["result"]["isError"] is True
    assert bench.trail(run)[-1] == ("call_failed", "failure", "allow", "tool_error")
    again = bench.call(token, "notes__get_failure", {})
    assert (again["isError"], again["_meta"]["gateway/outcome"]) == (True, "replayed")
    assert bench.trail(run)[-1] == ("call_replayed", "failure", "allow", "idempotent_replay")

    second = bench.call(token, "notes__get_boom", {})
    answer = bench.op("POST", f"/approvals/{approval_of(second)}/approve", {"by": "ann"})
    assert answer["result"] is None
    assert answer["error"] == {"code": -32042, "message": "kaboom", "data": {"why": ["a", {"n": 12345678901234567890}]}}
    with pytest.raises(MCPError, match="kaboom"):
        bench.call(token, "notes__get_boom", {})


def test_an_allowed_write_is_never_deduplicated(bench: Bench) -> None:
    _, token = bench.run()
    bench.call(token, "notes__add_note", NOTE)
    bench.call(token, "notes__add_note", NOTE)
    assert len(bench.provider.calls) == 2


# refusals


@pytest.mark.parametrize(
    ("reason", "name", "arguments"),
    [
        ("tool_off", "notes__delete_note", {}),
        ("mode_denied", "notes__add_note", NOTE),
        ("invalid_arguments", "notes__add_note", {"text": 7}),
        ("grant_revoked", "notes__get_echo", {}),
        ("not_granted", "personal__get_echo", {}),
    ],
)
def test_refusals_have_their_reason_two_records_and_no_dispatch(bench: Bench, reason: str, name: str, arguments: dict[str, Any]) -> None:
    bench.permit(delete_note="off")
    bench.connect("personal", grant={"kind": "personal", "subject": "ann"})
    run, token = bench.run("notes", "personal", mode="planning" if reason == "mode_denied" else "execute", subject="bob")
    if reason == "grant_revoked":
        bench.op("POST", "/connections/notes/revoke")
    result = bench.call(token, name, arguments)
    assert result["isError"] is True
    meta = result["_meta"]
    assert (meta["gateway/outcome"], meta["gateway/origin"], meta["gateway/reason"]) == ("denied", "gateway", reason)
    assert bench.trail(run) == denied(reason)
    assert bench.provider.calls == []


def test_a_personal_grant_serves_its_subject(bench: Bench) -> None:
    bench.connect("personal", grant={"kind": "personal", "subject": "ann"})
    run, token = bench.run("personal", subject="ann")
    assert bench.call(token, "personal__get_echo")["_meta"]["gateway/outcome"] == "success"
    assert bench.trail(run)[0] == ("policy_decision", "success", "allow", "allow_grant")


def test_an_unknown_tool_is_a_json_rpc_error_and_recorded(bench: Bench) -> None:
    run, token = bench.run()
    with pytest.raises(MCPError) as refused:
        bench.call(token, "notes__nothing")
    assert refused.value.error.code == -32602
    assert bench.trail(run) == denied("tool_not_found")
    assert {(r["connection"], r["tool"]) for r in bench.records(run) if r["invocation"]} == {("notes", "nothing")}


def raw_post(bench: Bench, token: str, arguments: str, version: str) -> Any:
    """A tools/call whose arguments are sent as this very text."""

    async def go() -> Any:
        async with bench.agent(token, version) as session:
            headers = {
                "authorization": f"Bearer {token}",
                "accept": "application/json, text/event-stream",
                "content-type": "application/json",
                "mcp-protocol-version": version,
            }
            del session
            meta = "{}"
            if version == VERSIONS[-1]:
                headers |= {"mcp-method": "tools/call", "mcp-name": "notes__get_echo"}
                meta = (
                    '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},'
                    '"io.modelcontextprotocol/clientInfo":{"name":"x","version":"1"}}'
                )
            body = (
                '{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"notes__get_echo","arguments":'
                + arguments
                + ',"_meta":'
                + meta
                + "}}"
            )
            import httpx2

            from .conftest import TLS

            async with httpx2.AsyncClient(verify=TLS, trust_env=False) as http:
                if version != VERSIONS[-1]:
                    hello = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
                    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
                    opened = await http.post(bench.operator.mcp, json=opening, headers=headers)
                    headers["mcp-session-id"] = opened.headers["mcp-session-id"]
                text = (await http.post(bench.operator.mcp, content=body.encode(), headers=headers)).text
                # An answer comes as JSON, or as the one event of a stream.
                return json.loads(next((line[6:] for line in text.splitlines() if line.startswith("data: {")), text))

    return anyio.run(go)


@pytest.mark.parametrize("number", ["1e400", "-1e400", "NaN", "Infinity"])
def test_a_number_that_no_double_carries_is_refused(bench: Bench, number: str) -> None:
    run, token = bench.run()
    answer = raw_post(bench, token, '{"n":' + number + "}", VERSIONS[-1])
    assert answer["result"]["_meta"]["gateway/reason"] == "invalid_arguments"
    assert bench.trail(run) == denied("invalid_arguments")
    assert bench.provider.calls == []


@pytest.mark.parametrize("number", ["1e400", "NaN"])
def test_nor_does_one_come_in_beside_the_arguments(bench: Bench, number: str) -> None:
    """What an agent answers to a provider is passed on exactly, or not at all."""
    run, token = bench.run()
    answer = raw_post(bench, token, '{"n":1},"inputResponses":{"a":{"action":"accept","content":{"n":' + number + "}}}", VERSIONS[-1])
    assert answer["result"]["_meta"]["gateway/reason"] == "invalid_arguments"
    assert bench.trail(run) == denied("invalid_arguments")
    assert bench.provider.calls == []


@pytest.mark.parametrize("message", [{"n": float("nan")}, {"n": [1, {"m": float("-inf")}]}])
def test_what_json_does_not_carry_is_never_sent_as_something_else(message: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        encode(message)


def test_a_null_is_sent_as_one() -> None:
    assert encode({"n": None, "big": 2**70, "half": "\ud800"}) == b'{"n":null,"big":1180591620717411303424,"half":"\\ud800"}'


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[2]])
@pytest.mark.parametrize("arguments", ["[]", '"text"', "7", "true"])
def test_arguments_that_are_no_object_are_refused_and_recorded(bench: Bench, version: str, arguments: str) -> None:
    run, token = bench.run()
    result = raw_post(bench, token, arguments, version)["result"]
    assert result["isError"] is True
    assert result["_meta"]["gateway/reason"] == "invalid_arguments"
    assert bench.trail(run) == denied("invalid_arguments")
    assert bench.records(run)[-1]["tool"] == "get_echo"
    assert bench.provider.calls == []


def test_big_integers_pass_digit_for_digit(bench: Bench) -> None:
    _, token = bench.run()
    digits = "123456789012345678901234567890123456789"
    answer = raw_post(bench, token, '{"n":' + digits + "}", VERSIONS[-1])
    assert bench.provider.calls[-1]["arguments"] == {"n": int(digits)}
    assert answer["result"]["structuredContent"] == {"got": {"n": int(digits)}}


# providers that fail

MALFORMED = "remote_mcp_malformed_response"
GOOD = b'{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"ok"}]}}'


@pytest.mark.parametrize("version", [VERSIONS[1], VERSIONS[2]])
@pytest.mark.parametrize(
    ("reason", "status", "kind", "body"),
    [
        ("mcp_remote_status", 500, "text/plain", b"oops"),
        ("mcp_remote_status", 409, "application/json", b'{"detail":"busy"}'),
        ("mcp_remote_status", 429, "application/json", b"not json"),
        ("mcp_remote_status", 307, "text/plain", b""),
        ("mcp_remote_invalid_json", 200, "text/html", b"<html>hello</html>"),
        ("mcp_remote_invalid_json", 200, "application/json", b'{"jsonrpc":"2.0","id":$ID,"result":{"content":['),
        ("mcp_remote_invalid_json", 200, "application/json", b'{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"n":1e400}}'),
        ("mcp_remote_invalid_json", 200, "application/json", b"[" * 100_000),
        (MALFORMED, 200, "application/json", GOOD.replace(b"$ID", b"99999")),
        (MALFORMED, 200, "application/json", GOOD.replace(b"$ID", b'"$ID"')),
        (MALFORMED, 200, "application/json", b"[" + GOOD + b"]"),
        (MALFORMED, 200, "application/json", b'{"jsonrpc":"2.0","id":$ID}'),
        (MALFORMED, 200, "application/json", b'{"jsonrpc":"2.0","id":$ID,"result":{"content":"text"}}'),
        (MALFORMED, 200, "application/json", b'{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text"}]}}'),
        (MALFORMED, 200, "application/json", b'{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"text":"x"}]}}'),
        (MALFORMED, 200, "application/json", b'{"jsonrpc":"2.0","id":$ID,"error":{"code":"x","message":1}}'),
        (MALFORMED, 200, "text/event-stream", b"data: " + GOOD.replace(b"$ID", b"99999") + b"\n\n"),
        (MALFORMED, 202, "text/plain", b""),
        ("mcp_remote_fetch_failed", 200, "text/event-stream", b": only a comment\n\n"),
        ("mcp_remote_response_too_large", 200, "application/json", GOOD.replace(b"ok", b"x" * 1_000_001)),
        ("mcp_remote_response_too_large", 200, "text/event-stream", b"data: " + GOOD.replace(b"ok", b"x" * 1_000_001) + b"\n\n"),
    ],
)
def test_each_way_to_fail_has_its_own_word(bench: Bench, version: str, reason: str, status: int, kind: str, body: bytes) -> None:
    run, token = bench.run()
    bench.provider.script.append((status, kind, body))
    result = bench.call(token, "notes__get_echo", {}, version=version)
    meta = result["_meta"]
    assert result["isError"] is True
    assert (meta["gateway/outcome"], meta["gateway/origin"], meta["gateway/reason"]) == ("upstream_error", "gateway", reason)
    assert bench.trail(run)[-1] == ("call_failed", "failure", "allow", reason)
    assert bench.records(run)[-1]["details"]["provider_status"] == status
    assert len(bench.provider.calls) == 1
    assert bench.call(token, "notes__get_echo", {}, version=version)["_meta"]["gateway/outcome"] == "success"


def test_a_json_rpc_error_under_any_status_is_the_providers_word(bench: Bench) -> None:
    run, token = bench.run()
    bench.provider.script.append((400, "application/json", b'{"jsonrpc":"2.0","id":$ID,"error":{"code":-32011,"message":"nope"}}'))
    with pytest.raises(MCPError, match="nope"):
        bench.call(token, "notes__get_echo", {})
    assert bench.trail(run)[-1] == ("call_failed", "failure", "allow", "remote_mcp_error")


def test_a_result_of_exactly_the_limit_passes(bench: Bench) -> None:
    _, token = bench.run()
    assert len(bench.call(token, "notes__get_big", {"n": 900_000})["content"][0]["text"]) == 900_000


def test_a_lost_session_is_renewed_once_without_a_second_dispatch(bench: Bench) -> None:
    run, token = bench.run()
    bench.call(token, "notes__get_echo", {}, version=VERSIONS[1])
    bench.provider.forget_sessions = True
    result = bench.call(token, "notes__get_echo", {"n": 1}, version=VERSIONS[1])
    assert result["structuredContent"] == {"got": {"n": 1}}
    assert bench.provider.methods.count("initialize") == 2
    assert bench.trail(run)[-3:] == SUCCESS


def test_one_session_per_era_serves_many_calls(bench: Bench) -> None:
    _, token = bench.run()

    async def many() -> list[dict[str, Any]]:
        results: list[dict[str, Any]] = []
        async with bench.agent(token, VERSIONS[1]) as session, anyio.create_task_group() as group:

            async def one(number: int) -> None:
                results.append(await raw_call(session, "notes__get_echo", {"n": number}))

            for number in range(40):
                group.start_soon(one, number)
        return results

    results = anyio.run(many)
    assert sorted(result["structuredContent"]["got"]["n"] for result in results) == list(range(40))
    assert bench.provider.methods.count("initialize") == 1
    assert len(bench.provider.calls) == 40


def test_a_dead_provider_fails_its_own_calls_and_no_others(bench: Bench) -> None:
    with provider_served() as mortal:
        dead = Bench(bench.operator, mortal, bench.tenant)
        dead.connect("mortal")
    run, token = bench.run("mortal", "notes")
    result = bench.call(token, "mortal__get_echo", {})
    assert result["_meta"]["gateway/reason"] == "mcp_remote_fetch_failed"
    assert bench.op("GET", "/connections/mortal")["health"] == "error"
    assert bench.call(token, "notes__get_echo", {})["_meta"]["gateway/outcome"] == "success"
    assert bench.trail(run)[2] == ("call_failed", "failure", "allow", "mcp_remote_fetch_failed")


def test_text_that_is_not_unicode_is_a_malformed_answer_and_breaks_no_session(bench: Bench) -> None:
    run, token = bench.run()
    for body in (GOOD.replace(b"ok", b"\\ud800"), GOOD.replace(b"ok", b"\xed\xa0\x80"), GOOD.replace(b"ok", b"\xff")):
        bench.provider.script.append((200, "application/json", body))
        result = bench.call(token, "get_echo", version=VERSIONS[1])
        assert result["_meta"]["gateway/reason"] == "mcp_remote_invalid_json"
    bench.provider.script.append((200, "application/json", GOOD.replace(b"ok", b"\\ud83d\\ude00")))
    assert bench.call(token, "get_echo", version=VERSIONS[1])["content"][0]["text"] == "\N{GRINNING FACE}"
    assert bench.trail(run)[-1] == SUCCESS[-1]


def test_a_deeply_nested_answer_is_malformed(bench: Bench) -> None:
    _, token = bench.run()
    deep = b'{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"structuredContent":{"x":' + b"[" * 300 + b"]" * 300 + b"}}}"
    bench.provider.script.append((200, "application/json", deep))
    assert bench.call(token, "get_echo", version=VERSIONS[1])["_meta"]["gateway/reason"] == MALFORMED


def test_a_hanging_provider_holds_only_its_own_slots(bench: Bench) -> None:
    bench.connect("lively")
    with provider_served() as hanging:
        hanging.hang = True
        Bench(bench.operator, hanging, bench.tenant).connect("hanging")
        run, token = bench.run("hanging", "lively", ttl_s=3600)
        outcomes: list[str] = []

        async def go() -> None:
            async with bench.agent(token) as session, anyio.create_task_group() as group:

                async def one() -> None:
                    outcomes.append((await raw_call(session, "hanging__get_echo"))["_meta"]["gateway/reason"])

                for _ in range(MAX_IN_FLIGHT + 10):
                    group.start_soon(one)
                with anyio.fail_after(60):
                    while len(await anyio.to_thread.run_sync(bench.records, run)) < 2 * MAX_IN_FLIGHT:
                        await anyio.sleep(0.05)
                assert len(hanging.calls) <= MAX_IN_FLIGHT
                lively = await raw_call(session, "lively__get_echo")
                assert lively["_meta"]["gateway/outcome"] == "success"
                for _ in range(2):
                    await anyio.to_thread.run_sync(bench.advance, 11)

        anyio.run(go)
        hanging.release.set()
        assert len(outcomes) == MAX_IN_FLIGHT + 10
        assert outcomes.count("tool_timeout") >= MAX_IN_FLIGHT
        assert set(outcomes) <= {"rate_limited", "tool_timeout"}


def test_a_call_that_waited_for_its_turn_is_judged_by_what_holds_then(bench: Bench) -> None:
    with provider_served() as hanging:
        hanging.hang = True
        Bench(bench.operator, hanging, bench.tenant).connect("hanging")
        run, token = bench.run("hanging")
        reasons: list[str | None] = []

        async def go() -> None:
            async with bench.agent(token) as session, anyio.create_task_group() as group:

                async def one() -> None:
                    reasons.append((await raw_call(session, "hanging__get_echo"))["_meta"].get("gateway/reason"))

                for _ in range(MAX_IN_FLIGHT + 5):
                    group.start_soon(one)
                with anyio.fail_after(60):
                    while [r["event"] for r in await anyio.to_thread.run_sync(bench.records, run)].count("call_started") < MAX_IN_FLIGHT:
                        await anyio.sleep(0.05)
                await anyio.sleep(0.5)
                await anyio.to_thread.run_sync(bench.op, "POST", f"/runs/{run}/end")
                hanging.release.set()

        anyio.run(go)
        assert sorted(map(str, reasons)) == ["None"] * MAX_IN_FLIGHT + ["run_ended"] * 5
        assert len(hanging.calls) == MAX_IN_FLIGHT


def test_slots_refuse_at_once_what_neither_runs_nor_may_wait() -> None:
    async def go() -> None:
        slots = Slots()
        taken = 0
        release = anyio.Event()

        async def take() -> None:
            nonlocal taken
            async with slots.one():
                taken += 1
                await release.wait()

        async with anyio.create_task_group() as group:
            for _ in range(MAX_IN_FLIGHT + MAX_WAITING):
                group.start_soon(take)
            await anyio.wait_all_tasks_blocked()
            assert taken == MAX_IN_FLIGHT
            with pytest.raises(Busy):
                async with slots.one():
                    pass
            release.set()
        assert taken == MAX_IN_FLIGHT + MAX_WAITING

    anyio.run(go)


# time


def call_and_advance(bench: Bench, token: str, seconds: list[float], meta: dict[str, Any] | None = None) -> dict[str, Any]:
    """A call to a provider that hangs, while the clock moves on."""
    bench.provider.hang = True

    async def go() -> dict[str, Any]:
        results: list[dict[str, Any]] = []

        async def call() -> None:
            async with bench.agent(token) as session:
                results.append(await raw_call(session, "notes__get_echo", {}, meta))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            with anyio.fail_after(10):
                while not bench.provider.calls:
                    await anyio.sleep(0.01)
            for step in seconds:
                await anyio.to_thread.run_sync(bench.advance, step)
            bench.provider.release.set()
        return results[0]

    return anyio.run(go)


def test_a_call_times_out_after_ten_seconds_of_the_gateways_clock(bench: Bench) -> None:
    run, token = bench.run()
    result = call_and_advance(bench, token, [9.5, 1.0])
    meta = result["_meta"]
    assert (meta["gateway/outcome"], meta["gateway/origin"], meta["gateway/reason"]) == ("timeout", "gateway", "tool_timeout")
    assert bench.trail(run)[-1] == ("call_failed", "timeout", "allow", "tool_timeout")
    assert bench.records(run)[-1]["details"]["latency_ms"] == 10_000


def test_a_caller_may_name_another_timeout(bench: Bench) -> None:
    _, token = bench.run()
    result = call_and_advance(bench, token, [12.0, 12.0], {"gateway/timeout_s": 30})
    assert result["_meta"]["gateway/outcome"] == "success"


def test_a_timeout_is_recorded_when_advance_returns(bench: Bench) -> None:
    run, token = bench.run()
    result = call_and_advance(bench, token, [2.5], {"gateway/timeout_s": 2})
    assert result["_meta"]["gateway/outcome"] == "timeout"
    assert bench.trail(run)[-1] == ("call_failed", "timeout", "allow", "tool_timeout")


@pytest.mark.parametrize("asked", [0, -1, "5", True, None])
def test_a_timeout_that_is_none_is_refused(bench: Bench, asked: object) -> None:
    run, token = bench.run()
    result = bench.call(token, "notes__get_echo", {}, meta={"gateway/timeout_s": asked})
    if asked is None:
        assert result["_meta"]["gateway/outcome"] == "success"
    else:
        assert bench.trail(run) == denied("invalid_arguments")


def test_records_hold_digests_and_sizes_and_never_content(bench: Bench) -> None:
    run, token = bench.run()
    bench.call(token, "notes__add_note", {"text": "kept-out-of-audit"})
    text = json.dumps(bench.records(run))
    assert "kept-out-of-audit" not in text
    last = bench.records(run)[-1]
    assert last["details"]["result_bytes"] > 20
    assert len(last["details"]["result_digest"]) == 64
    assert len(last["arguments_digest"]) == 64
    assert last["details"]["endpoint"] == bench.provider.url
    assert last["details"]["transport"] == "mcp_http"
    assert last["details"]["spawned_local_process"] is False
    assert last["details"]["provider_status"] == 200


def test_a_provider_with_a_hostile_schema_is_refused_without_a_fetch(bench: Bench) -> None:
    deep: dict[str, Any] = {}
    for _ in range(60):
        deep = {"properties": {"x": deep}}
    deepest: dict[str, Any] = {}
    for _ in range(400):
        deepest = {"not": deepest}
    listed = [
        {"name": "get_remote", "inputSchema": {"$ref": bench.provider.url}},
        {"name": "get_deep", "inputSchema": deep},
        {"name": "get_deepest", "inputSchema": deepest},
    ]
    with provider_served(Provider(list_answer=lambda cursor: {"tools": listed})) as hostile:
        other = Bench(bench.operator, hostile, bench.tenant)
        other.connect("hostile")
        assert other.op("POST", "/connections/hostile/refresh")["dropped"] == [{"reason": "too_deep", "count": 1}]
        before = len(bench.provider.methods)
        for name in ("get_remote", "get_deep"):
            run, token = bench.run("hostile")
            assert bench.call(token, name, {"x": 1})["_meta"]["gateway/reason"] == "invalid_arguments"
            assert bench.trail(run) == denied("invalid_arguments")
        assert len(bench.provider.methods) == before
        assert hostile.calls == []
