"""Who may do what: policies, a connection's agents, modes, tasks, operators' roles; and every route against every role and tenant."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_gateway.permission import WORDS
from reference_gateway.policy import strictest

from .conftest import OPERATOR_TOKEN, SECRET, SUCCESS, TLS, VERSIONS, Bench, Operator, Refused, denied, gateway_served
from .routes import OWNERS, OWNERS_OF_TENANTS, ROUTES, every_route

NOTE = {"text": "a silver compass"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Operator]:
    """One for this file: the owner's routes are about everything in a gateway, and what other files leave in a shared one makes them slow."""
    with gateway_served() as operator:
        yield operator


def policies(bench: Bench, *found: dict[str, Any]) -> None:
    bench.op("PUT", "/policies", {"policies": [{"id": f"p{number}", **policy} for number, policy in enumerate(found)]})


def outcome(bench: Bench, token: str, name: str = "notes__add_note") -> str:
    """What became of a call: its outcome, or why it was refused."""
    meta = bench.call(token, name, NOTE if "add_note" in name else {})["_meta"]
    return str(meta["gateway/reason"] if meta["gateway/outcome"] == "denied" else meta["gateway/outcome"])


def listed(bench: Bench, token: str) -> set[str]:
    async def names() -> set[str]:
        async with bench.agent(token) as session:
            return {each.name for each in (await session.list_tools()).tools}

    return anyio.run(names)


# policies


@pytest.mark.parametrize(
    ("selector", "hits", "spares"),
    [
        ({"tools": ["add_note"]}, "notes__add_note", "notes__get_echo"),
        ({"risks": ["write"]}, "notes__add_note", "notes__get_echo"),
        ({"risks": ["destructive"]}, "notes__delete_note", "notes__add_note"),
        ({"agents": ["agent-1"], "tools": ["get_echo"]}, "notes__get_echo", "notes__add_note"),
        ({"connections": ["notes"], "tools": ["get_echo"]}, "notes__get_echo", "notes__add_note"),
    ],
)
@pytest.mark.parametrize(("word", "found"), [("off", "policy_block"), ("ask_first", "pending")])
def test_a_policy_holds_from_the_next_call_on_for_what_it_selects(
    bench: Bench, selector: dict[str, Any], hits: str, spares: str, word: str, found: str
) -> None:
    run, token = bench.run()
    policies(bench, {"permission": word, **selector})
    assert outcome(bench, token, hits) == found
    assert outcome(bench, token, spares) == "success"
    assert (hits in listed(bench, token)) is (word == "ask_first")
    if word == "off":
        assert bench.trail(run)[:2] == denied("policy_block")
    policies(bench)
    assert outcome(bench, token, hits) == "success"


def test_the_strictest_word_holds_and_allowed_never_loosens(bench: Bench) -> None:
    bench.permit(delete_note="off", add_note="ask_first")
    _, token = bench.run()
    policies(bench, {"permission": "allowed"})
    assert (outcome(bench, token), outcome(bench, token, "notes__delete_note")) == ("pending", "tool_off")
    policies(bench, {"permission": "off", "risks": ["write"]}, {"permission": "ask_first", "tools": ["add_note"]}, {"permission": "allowed"})
    assert outcome(bench, token) == "policy_block"


def test_an_empty_list_of_agents_means_no_agent(bench: Bench) -> None:
    _, token = bench.run()
    policies(bench, {"permission": "off", "agents": []})
    assert outcome(bench, token) == "success"
    bench.op("PUT", "/connections/notes/agents", {"agents": []})
    assert outcome(bench, token) == "not_granted"
    assert listed(bench, token) == set()
    bench.op("PUT", "/connections/notes/agents", {"agents": None})
    assert outcome(bench, token) == "success"


def test_ask_first_never_grants(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    bench.op("PUT", "/connections/notes/agents", {"agents": ["somebody-else"]})
    _, token = bench.run()
    assert outcome(bench, token) == "not_granted"
    assert bench.op("GET", "/approvals")["approvals"] == []
    bench.op("PUT", "/connections/notes/agents", {"agents": ["agent-1"]})
    assert outcome(bench, token) == "pending"


def test_a_call_that_succeeded_before_its_tool_was_set_to_off_is_refused_and_not_replayed(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run()
    held = bench.call(token, "notes__add_note", NOTE)["_meta"]["gateway/approval"]["id"]
    bench.op("POST", f"/approvals/{held}/approve", {"by": "ann"})
    assert outcome(bench, token) == "replayed"
    bench.permit(add_note="off")
    assert outcome(bench, token) == "tool_off"
    assert bench.trail(run)[-2:] == denied("tool_off")


@pytest.mark.parametrize(
    ("code", "policy"),
    [
        ("invalid_field", {"permission": "sometimes"}),
        ("invalid_field", {"permission": "off", "tools": []}),
        ("invalid_field", {"permission": "off", "risks": ["harmless"]}),
        ("unknown_field", {"permission": "off", "tool": "add_note"}),
        ("tool_unknown", {"permission": "off", "tools": ["add_notes"]}),
        ("connection_unknown", {"permission": "off", "connections": ["nowhere"]}),
    ],
)
def test_a_policy_that_protects_nothing_is_refused_and_changes_nothing(bench: Bench, code: str, policy: dict[str, Any]) -> None:
    policies(bench, {"permission": "off", "tools": ["get_echo"]})
    with pytest.raises(Refused) as refused:
        policies(bench, policy)
    assert refused.value.code == code
    assert [each["tools"] for each in bench.op("GET", "/policies")["policies"]] == [["get_echo"]]


@given(st.lists(st.sampled_from([None, *WORDS])))
def test_the_strictest_of_words_does_not_depend_on_their_order(words: list[Any]) -> None:
    said = [word for word in words if word is not None]
    expected = next((word for word in ("off", "ask_first", "allowed") if word in said), None)
    assert strictest(*words) == strictest(*reversed(words)) == expected


# modes and tasks


@pytest.mark.parametrize("mode", ["planning", "ask"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_mode_that_only_reads_hides_and_refuses_the_rest_and_is_live(bench: Bench, mode: str, version: str) -> None:
    run, token = bench.run()

    async def go() -> list[Any]:
        async with bench.agent(token, version) as session:
            seen: list[Any] = []
            for word in ("execute", mode, "execute"):
                await anyio.to_thread.run_sync(lambda word=word: bench.op("POST", f"/runs/{run}/mode", {"mode": word}))  # type: ignore[misc]
                names = {each.name for each in (await session.list_tools()).tools}
                results = [await session.call_tool(name, NOTE if "add" in name else {}) for name in ("notes__add_note", "notes__get_echo")]
                seen.append(("notes__add_note" in names, "notes__get_echo" in names, [(each.meta or {}).get("gateway/reason") for each in results]))
            return seen

    assert anyio.run(go) == [(True, True, [None, None]), (False, True, ["mode_denied", None]), (True, True, [None, None])]
    assert len(bench.provider.calls) == 5
    assert bench.op("GET", f"/runs/{run}")["mode"] == "execute"


def test_a_waiting_call_is_not_executed_in_a_mode_that_only_reads(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run()
    held = bench.call(token, "notes__add_note", NOTE)["_meta"]["gateway/approval"]["id"]
    bench.op("POST", f"/runs/{run}/mode", {"mode": "planning"})
    assert bench.op("POST", f"/approvals/{held}/approve", {"by": "ann"})["approval"]["state"] == "cancelled"
    assert bench.provider.calls == []


def test_an_ended_run_changes_its_mode_no_more(bench: Bench) -> None:
    run, _ = bench.run()
    bench.op("POST", f"/runs/{run}/end")
    with pytest.raises(Refused) as refused:
        bench.op("POST", f"/runs/{run}/mode", {"mode": "planning"})
    assert (refused.value.status, refused.value.code) == (409, "run_ended")


def test_a_run_whose_task_another_one_took_calls_nothing_more(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    first, old = bench.run()
    held = bench.call(old, "notes__add_note", NOTE)["_meta"]["gateway/approval"]["id"]
    _, other = bench.run(task="another")
    _, new = bench.run(takes_task=True)
    assert outcome(bench, old, "notes__get_echo") == "task_not_owned"
    assert bench.trail(first)[-2:] == denied("task_not_owned")
    assert listed(bench, old) == set()
    assert bench.op("POST", f"/approvals/{held}/approve", {"by": "ann"})["approval"]["state"] == "cancelled"
    assert {outcome(bench, new, "notes__get_echo"), outcome(bench, other, "notes__get_echo")} == {"success"}
    assert bench.trail(first)[-1] != SUCCESS[-1]


# operators


@contextlib.contextmanager
def as_operator(bench: Bench, name: str) -> Iterator[Operator]:
    made = bench.op("POST", "/operators", {"operator": name, "role": "operator"})
    operator = Operator(bench.operator.mcp.removesuffix("/mcp"), made["token"])
    try:
        yield operator
    finally:
        operator.http.close()


def test_an_operator_decides_under_their_own_name_only(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run()
    held = bench.call(token, "notes__add_note", NOTE)["_meta"]["gateway/approval"]["id"]
    path = f"/tenants/{bench.tenant}/approvals/{held}/approve"
    with as_operator(bench, "ann") as ann:
        with pytest.raises(Refused) as refused:
            ann("POST", path, {"by": "bob"})
        assert (refused.value.status, refused.value.code) == (403, "operator_mismatch")
        assert ann("POST", path, {})["approval"]["decided_by"] == "ann"
        ann("POST", f"/tenants/{bench.tenant}/runs/{run}/end")
    assert [r["actor"] for r in bench.records(run) if r["event"] in ("approval_resolved", "run_ended")] == ["operator:ann", "operator:ann"]


def test_a_removed_operator_opens_nothing_and_no_token_is_shown_again(bench: Bench) -> None:
    with as_operator(bench, "ann") as ann:
        assert bench.op("GET", "/operators") == {"operators": [{"operator": "ann", "role": "operator"}]}
        with pytest.raises(Refused) as refused:
            bench.op("POST", "/operators", {"operator": "ann", "role": "viewer"})
        assert refused.value.code == "operator_exists"
        bench.op("DELETE", "/operators/ann")
        with pytest.raises(Refused) as refused:
            ann("GET", f"/tenants/{bench.tenant}/policies")
        assert refused.value.code == "operator_unauthorized"


# every route


def test_every_route_has_a_case() -> None:
    assert every_route() == OWNERS | {(method, "/tenants/{tenant}" + path) for method, path in ROUTES}


@pytest.fixture
def doors(bench: Bench) -> dict[str, Any]:
    """Role → token: of the owner, of this tenant's people, of another tenant's, of agents, and of nobody."""
    bench.permit(add_note="ask_first")
    run, token = bench.run()
    held = bench.call(token, "notes__add_note", NOTE)["_meta"]["gateway/approval"]["id"]
    stranger = Bench(bench.operator, bench.provider, bench.operator("POST", "/tenants", {})["tenant"])
    stranger.connect()
    made = {
        f"{whose} {role}": each.op("POST", "/operators", {"operator": f"{role}-1", "role": role})["token"]
        for (whose, each), role in itertools.product((("own", bench), ("foreign", stranger)), ("operator", "viewer"))
    }
    tokens = {"owner": OPERATOR_TOKEN, **made, "own agent": token, "foreign agent": stranger.run()[1], "provider": SECRET, "nobody": "nothing"}
    return {"tokens": tokens, "run": run, "approval": held}


def expected(role: str, method: str, path: str) -> set[int]:
    """Statuses that may be answered; what is behind the door may still say no in its own words."""
    behind = {200, 201, 204, 404, 409, 422}
    if role not in ("owner", "own operator", "own viewer", "foreign operator", "foreign viewer"):
        return {401}
    if role == "owner":
        return behind
    if (method, path) in OWNERS:
        return {403}
    if role.startswith("foreign"):
        return {404}
    if (method, path) in OWNERS_OF_TENANTS or (role == "own viewer" and method != "GET"):
        return {403}
    return behind


def test_every_route_opens_to_whom_it_should_and_to_nobody_else(bench: Bench, doors: dict[str, Any]) -> None:
    base = f"{bench.operator.mcp.removesuffix('/mcp')}/operator/v1"
    with httpx2.Client(verify=TLS, trust_env=False, timeout=30) as http:
        for (method, path), role in itertools.product([*ROUTES, *sorted(OWNERS - {("POST", "/shutdown")})], doors["tokens"]):
            place, body = ROUTES.get((method, path), (path, {"seconds": 0} if "clock" in path else None))
            filled = place.format(**{k: v for k, v in doors.items() if isinstance(v, str)})
            whole = base + (f"/tenants/{bench.tenant}{filled}" if (method, path) in ROUTES else filled)
            answer = http.request(method, whole, json=body, headers={"authorization": f"Bearer {doors['tokens'][role]}"})
            assert answer.status_code in expected(role, method, path), (method, path, role, answer.text)
            if answer.status_code == 404 and role.startswith("foreign"):
                assert answer.json()["error"]["code"] == "tenant_unknown"
    assert bench.op("GET", doors_path(doors))["state"] in ("executed", "rejected")


def doors_path(doors: dict[str, Any]) -> str:
    return f"/approvals/{doors['approval']}"


def test_a_foreign_tenant_and_one_that_does_not_exist_look_the_same(bench: Bench, doors: dict[str, Any]) -> None:
    base = f"{bench.operator.mcp.removesuffix('/mcp')}/operator/v1"
    headers = {"authorization": f"Bearer {doors['tokens']['foreign operator']}"}
    answers = [httpx2.get(f"{base}/tenants/{tenant}/audit", headers=headers, verify=TLS).json() for tenant in (bench.tenant, "nowhere")]
    foreign, unknown = ({**each["error"], "where": ""} for each in answers)
    assert foreign["code"] == unknown["code"] == "tenant_unknown"
    assert foreign == unknown


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_the_agents_door_opens_to_agents_only(bench: Bench, doors: dict[str, Any], method: str) -> None:
    for role, token in doors["tokens"].items():
        answer = httpx2.request(method, bench.operator.mcp, headers={"authorization": f"Bearer {token}"}, content=b"", verify=TLS)
        assert (answer.status_code == 401) is ("agent" not in role), (role, answer.status_code)


def test_an_agent_sees_and_calls_its_own_tenants_connections_only(bench: Bench, doors: dict[str, Any]) -> None:
    policies(bench, {"permission": "off"})
    assert outcome(bench, doors["tokens"]["own agent"], "notes__get_echo") == "policy_block"
    assert outcome(bench, doors["tokens"]["foreign agent"], "notes__get_echo") == "success"
