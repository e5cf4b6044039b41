"""What crosses besides tools: nothing until an operator says so, then all of it, each request on the record and under the run's own rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.server.subscriptions import ResourceUpdated, ToolsListChanged
from mcp.shared.exceptions import MCPError

from reference_gateway.subscriptions import BURST

from .conftest import Bench, Operator
from .wide import ALL, LEGACY, MODERN, Json, Wide, ask, connected, listening, methods, offer, passed, request, served, until


@pytest.fixture
def wide() -> Iterator[Wide]:
    with served(Wide()) as provider:
        yield provider


@pytest.fixture
def bench(gateway: Operator, wide: Wide) -> Bench:
    return connected(gateway, wide)


EVERYTHING: list[tuple[str, Json]] = [
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "memo://1"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "greet", "arguments": {"a": "b"}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "a", "value": "o"}}),
]


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_nothing_but_tools_crosses_until_it_is_switched_on_and_then_it_is_recorded(bench: Bench, wide: Wide, version: str) -> None:
    run, token = bench.run()
    assert [each["error"]["code"] for each in ask(bench, token, version, *EVERYTHING)] == [-32601] * 6
    assert passed(bench, run) == []
    assert [method for method, _ in wide.seen if method != "tools/list"] == []
    offer(bench, *ALL)
    found = ask(bench, token, version, *EVERYTHING)
    assert found[0]["resources"] == [{"name": "memo", "uri": "memo://1"}]
    assert found[0]["nextCursor"] == "2"
    assert found[2]["contents"][0]["text"] == "kept"
    assert found[4]["messages"][0]["content"]["text"] == "Hi"
    assert found[5]["completion"]["values"] == ["one"]
    hints = {each.get("cacheScope") for each in found[:4]}
    assert hints == ({"private"} if version == MODERN else {None})
    assert passed(bench, run) == [(method, "success", method) for method, _ in EVERYTHING]
    offer(bench)
    assert ask(bench, token, version, EVERYTHING[0])[0]["error"]["code"] == -32601


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_providers_own_error_keeps_code_message_and_data(bench: Bench, version: str) -> None:
    offer(bench, "resources")
    run, token = bench.run()
    found = ask(bench, token, version, ("resources/read", {"uri": "memo://none"}))[0]["error"]
    assert found == {"code": -32602, "message": "no such memo", "data": {"uri": "memo://none", "n": 2**70}}
    assert passed(bench, run) == [("resources/read", "failure", "remote_mcp_error")]


def test_what_a_run_may_not_use_is_refused_and_recorded(bench: Bench, wide: Wide) -> None:
    offer(bench, *ALL)
    run, token = bench.run()
    bench.op("PUT", "/policies", {"policies": [{"id": "p", "permission": "off", "agents": ["agent-1"]}]})
    assert ask(bench, token, MODERN, EVERYTHING[2])[0]["error"]["data"] == {"gateway/reason": "policy_block"}
    bench.op("PUT", "/policies", {"policies": [{"id": "p", "permission": "off", "tools": ["note"]}]})
    assert "contents" in ask(bench, token, MODERN, EVERYTHING[2])[0]
    bench.op("POST", "/connections/notes/revoke")
    assert ask(bench, token, MODERN, EVERYTHING[2])[0]["error"]["data"] == {"gateway/reason": "grant_revoked"}
    assert [entry[1:] for entry in passed(bench, run)] == [
        ("denied", "policy_block"), ("success", "resources/read"), ("denied", "grant_revoked")
    ]  # fmt: skip
    assert [method for method, _ in wide.seen].count("resources/read") == 1


def test_two_connections_are_told_apart_by_their_names(bench: Bench, wide: Wide) -> None:
    with served(Wide()) as other:
        bench.connect("more", url=other.url, auth={"scheme": "none"}, credentials={}, offers=ALL)
        offer(bench, *ALL)
        _, token = bench.run("notes", "more")
        pages: list[Json] = []
        while not pages or "nextCursor" in pages[-1]:
            cursor = {"cursor": pages[-1]["nextCursor"]} if pages else {}
            pages += ask(bench, token, MODERN, ("resources/list", cursor))
        assert [each["uri"] for page in pages for each in page["resources"]] == ["notes+memo://1", "notes+memo://2", "more+memo://1", "more+memo://2"]
        found = ask(
            bench, token, MODERN,
            ("resources/read", {"uri": "more+memo://1"}), ("resources/read", {"uri": "memo://1"}), ("prompts/get", {"name": "more__greet"}),
        )  # fmt: skip
        assert found[0]["contents"][0] == {"uri": "more+memo://1", "text": "kept"}
        assert found[1]["error"]["data"] == {"gateway/reason": "not_found"}
        assert [method for method, _ in other.seen].count("resources/read") == 1
        assert ("resources/read", "memo://1") in other.seen
        assert ("prompts/get", ("greet", None)) in other.seen
        assert ("resources/read", "memo://1") not in wide.seen


# asking back


def elicit(bench: Bench, token: str, version: str, **more: Any) -> str:
    async def answer(ctx: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content={})

    async def go() -> str:
        async with bench.agent(token, version, **({"elicitation_callback": answer} if more.pop("able", True) else {})) as session:
            found = await session.call_tool("notes__ask", {})
            return str(found.content[0].text)  # type: ignore[union-attr]

    return anyio.run(go)


def test_a_provider_asks_the_agent_whose_call_it_is_and_only_what_that_offers(bench: Bench, wide: Wide) -> None:
    run, token = bench.run()
    assert elicit(bench, token, LEGACY).startswith("refused")
    offer(bench, "elicitation")
    assert elicit(bench, token, LEGACY) == "told: accept"
    assert elicit(bench, token, LEGACY, able=False).startswith("refused: the agent behind this request does not offer elicitation")
    asked = [(r["outcome"], r["reason"], r["invocation"] is not None) for r in bench.records(run) if r["event"] == "agent_asked"]
    assert asked == [("success", "elicitation/create", True)]


def round_one(bench: Bench, token: str) -> types.InputRequiredResult:
    found = modern(bench, token)
    assert isinstance(found, types.InputRequiredResult)
    return found


def modern(bench: Bench, token: str, tool_name: str = "notes__ask", arguments: Json | None = None, **more: Any) -> Any:
    async def unused(ctx: Any, params: Any) -> Any:
        raise AssertionError

    async def go() -> Any:
        async with bench.agent(token, MODERN, elicitation_callback=unused) as session:
            try:
                return await session.call_tool(tool_name, arguments or {}, allow_input_required=True, **more)
            except MCPError as error:
                return error

    return anyio.run(go)


def test_a_state_comes_back_only_from_whom_and_for_what_it_was_given_out(bench: Bench, wide: Wide) -> None:
    offer(bench, "elicitation")
    run, token = bench.run()
    _, other = bench.run()
    asked = round_one(bench, token)
    state = str(asked.request_state)
    assert "its own state" not in state
    answers = {"which": types.ElicitResult(action="accept", content={})}
    calls = len(wide.seen)
    other_mark = state[:-1] + ("1" if state[-1] == "0" else "0")
    for who, arguments, given in ((other, {}, state), (token, {"x": 1}, state), (token, {}, other_mark), (token, {}, "made up")):
        refused = modern(bench, who, arguments=arguments, input_responses=answers, request_state=given)
        assert (refused.error.code, refused.error.data["gateway/reason"]) == (-32602, "invalid_arguments")
    assert len([each for each in wide.seen[calls:] if each[0] == "able"]) == 0
    done = modern(bench, token, input_responses=answers, request_state=state)
    assert done.content[0].text == "its own state: ['which']"
    assert [r["reason"] for r in bench.records(run) if r["event"] == "call_completed"] == ["input_required", "tool_completed"]
    bench.advance(3601)


def test_capabilities_that_are_not_switched_on_are_kept_back(bench: Bench, wide: Wide) -> None:
    """So that a provider that heeds them asks for nothing that would be refused; one that does not is malformed."""
    offer(bench, "sampling")
    _, token = bench.run()
    refused = modern(bench, token)
    assert refused.is_error
    assert refused.meta["gateway/reason"] == "remote_mcp_malformed_response"
    assert wide.seen[-1] == ("able", [])


# news


def changes(bench: Bench) -> list[tuple[str, int]]:
    return [(r["reason"], r["details"]["announced"]) for r in bench.records() if r["event"] == "list_changed"]


def test_an_announced_change_is_looked_at_and_what_was_true_of_it_is_recorded(bench: Bench, wide: Wide) -> None:
    offer(bench, "subscriptions")
    _, token = bench.run()
    with listening(bench, token) as told:
        wide.names.append("later")
        wide.publish(ToolsListChanged())
        anyio.run(until, lambda: changes(bench) == [("list_changed", 1)])
        assert bench.call(token, "notes__later", {})["_meta"]["gateway/outcome"] == "success"
        wide.publish(ToolsListChanged())  # a lie: nothing changed
        anyio.run(until, lambda: changes(bench) == [("list_changed", 1), ("list_unchanged", 1)])
        anyio.run(until, lambda: methods(told) == ["tools/list_changed"] * 2)
    assert [r["actor"] for r in bench.records() if r["event"] == "list_changed"] == ["gateway"] * 2


def test_what_is_announced_is_held_back_where_the_connection_asks_for_it(bench: Bench, wide: Wide) -> None:
    bench.connect("careful", url=wide.url, auth={"scheme": "none"}, credentials={}, quarantine=True, offers=["subscriptions"])
    _, token = bench.run("careful")
    with listening(bench, token):
        wide.names.append("later")
        wide.publish(ToolsListChanged())
        anyio.run(until, lambda: changes(bench) == [("list_changed", 1)])
    assert bench.call(token, "careful__later", {})["_meta"]["gateway/reason"] == "tool_quarantined"


def test_a_flood_of_announcements_is_a_few_looks(bench: Bench, wide: Wide) -> None:
    offer(bench, "subscriptions")
    _, token = bench.run()
    with listening(bench, token):
        before = [method for method, _ in wide.seen].count("tools/list")
        for _ in range(60):
            wide.publish(ToolsListChanged())
        moved: set[int] = set()

        def settled() -> bool:
            """Every announcement is in the record. Time moves only once a burst of looks is over, never while one is under way."""
            looks = changes(bench)
            if looks and len(looks) % BURST == 0 and len(looks) not in moved:
                moved.add(len(looks))
                bench.advance(31)
            return sum(times for _, times in looks) == 60

        anyio.run(until, settled)
        looks = [method for method, _ in wide.seen].count("tools/list") - before
        assert 1 <= looks <= BURST * (len(moved) + 1)
        assert looks < 20


def test_updates_reach_those_who_asked_for_this_resource_of_this_connection(bench: Bench, wide: Wide) -> None:
    offer(bench, *ALL)
    _, token = bench.run()
    with listening(bench, token, "memo://1") as told:
        anyio.run(until, lambda: ("listen", ["memo://1"]) in wide.seen)
        for uri in ("memo://2", "memo://1"):
            wide.publish(ResourceUpdated(uri=uri))
        anyio.run(until, lambda: methods(told) == ["resources/updated"])
    assert told[1]["params"]["uri"] == "memo://1"


def test_without_subscriptions_nobody_listens_and_nothing_is_heard(bench: Bench, wide: Wide) -> None:
    _, token = bench.run()
    found = ask(bench, token, MODERN, ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))
    assert found[0]["error"]["code"] == -32601
    wide.publish(ToolsListChanged())
    assert not [method for method, _ in wide.seen if method == "listen"]


def test_all_agents_of_a_session_share_one_subscription_upstream(bench: Bench, wide: Wide) -> None:
    offer(bench, *ALL)
    _, token = bench.run()

    async def go() -> None:
        async with bench.agent(token, LEGACY) as one, bench.agent(token, LEGACY) as two:
            for session in (one, two):
                assert "error" not in await request(session, "resources/subscribe", uri="memo://1")
            for session in (one, two):
                assert "error" not in await request(session, "resources/unsubscribe", uri="memo://1")

    anyio.run(go)
    assert [method for method, _ in wide.seen if "subscribe" in method] == ["resources/subscribe", "resources/unsubscribe"]
