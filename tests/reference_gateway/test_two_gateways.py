"""One tenant, two gateways on one store: what an operator does at one holds at the other from the next call on, and neither undoes the other's.

`postgres_tests` runs the same tests on PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from reference_gateway.app import opened_store
from reference_gateway.audit import verify
from tests.reference_gateway.conftest import (
    SECRET,
    SUCCESS,
    Bench,
    Provider,
    Refused,
    denied,
    gateway_served,
    provider_served,
    tool,
)

VAULT_KEY = "5b" * 32


@dataclass
class Pair:
    """The same tenant, seen through either gateway."""

    a: Bench
    b: Bench


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Of the store."""
    return str(tmp_path / "gateway.db")


@pytest.fixture
def pair(place: str, provider: Provider) -> Iterator[Pair]:
    with ExitStack() as stack:
        first, second = (stack.enter_context(gateway_served(store=place, vault_key=VAULT_KEY)) for _ in range(2))
        tenant = first("POST", "/tenants", {})["tenant"]
        made = Pair(Bench(first, provider, tenant), Bench(second, provider, tenant))
        made.a.connect(permissions={"delete_note": "ask_first"})
        yield made


def outcome(result: dict[str, Any]) -> str:
    meta = result["_meta"]
    return str(meta.get("gateway/reason") or meta["gateway/outcome"])


def held(bench: Bench, token: str, number: int = 1) -> str:
    return str(bench.call(token, "delete_note", {"id": f"n{number}"})["_meta"]["gateway/approval"]["id"])


def test_a_connection_made_at_one_is_there_at_the_other(pair: Pair) -> None:
    assert [each["name"] for each in pair.b.op("GET", "/connections")["connections"]] == ["notes"]
    run, token = pair.b.run()
    assert outcome(pair.b.call(token, "add_note", {"text": "x"})) == "success"
    assert outcome(pair.a.call(token, "add_note", {"text": "y"})) == "success"
    assert pair.a.trail(run) == pair.b.trail(run) == SUCCESS + SUCCESS
    with pytest.raises(Refused) as refused:
        pair.b.connect()
    assert refused.value.code == "connection_exists"


def test_a_permission_taken_at_one_is_gone_at_the_other(pair: Pair, provider: Provider) -> None:
    run, token = pair.b.run()
    assert outcome(pair.b.call(token, "add_note", {"text": "x"})) == "success"
    pair.a.permit(add_note="off")
    assert outcome(pair.b.call(token, "add_note", {"text": "y"})) == "tool_off"
    assert len(provider.calls) == 1
    assert pair.b.trail(run) == SUCCESS + denied("tool_off")


def test_neither_undoes_what_the_other_changed(pair: Pair, provider: Provider) -> None:
    _, token = pair.b.run()
    pair.a.permit(add_note="off")
    pair.a.op("PUT", "/connections/notes/agents", {"agents": ["agent-1"]})
    pair.b.permit(get_echo="ask_first")
    pair.b.op("PUT", "/connections/notes/managed", {"managed": {}})
    pair.a.op("POST", "/connections/notes/revoke")
    with pytest.raises(Refused) as refused:
        pair.b.op("POST", "/connections/notes/rotate", {"values": {"credentials.authorization": SECRET}})
    assert refused.value.code == "grant_revoked"
    for bench in (pair.a, pair.b):
        words = bench.op("GET", "/connections/notes/permissions")["permissions"]
        assert (words["add_note"], words["get_echo"], words["delete_note"]) == ("off", "ask_first", "ask_first")
        shown = bench.op("GET", "/connections/notes")
        assert shown["agents"] == ["agent-1"]
        assert outcome(bench.call(token, "get_slow")) == "grant_revoked"
    assert provider.calls == []


def test_an_approval_of_what_was_switched_off_elsewhere_is_not_executed(pair: Pair, provider: Provider) -> None:
    _, token = pair.b.run()
    waiting = held(pair.b, token)
    pair.a.permit(delete_note="off")
    decided = pair.b.op("POST", f"/approvals/{waiting}/approve", {"by": "ann"})
    assert (decided["approval"]["state"], decided["approval"]["reason"]) == ("cancelled", "approved_tool_target_changed")
    assert provider.calls == []


def test_an_approval_asked_for_at_one_is_executed_once_at_the_other(pair: Pair, provider: Provider) -> None:
    run, token = pair.a.run()
    waiting = held(pair.a, token)
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda bench: _approved(bench, waiting), [pair.a, pair.b] * 2))
    assert sorted(answers) == ["approval_not_pending"] * 3 + ["executed"]
    assert [call["name"] for call in provider.calls] == ["delete_note"]
    assert outcome(pair.a.call(token, "delete_note", {"id": "n1"})) == outcome(pair.b.call(token, "delete_note", {"id": "n1"}))
    assert [event for event, *_ in pair.b.trail(run)][-2:] == ["call_replayed"] * 2


def _approved(bench: Bench, approval: str) -> str:
    try:
        return str(bench.op("POST", f"/approvals/{approval}/approve", {"by": "ann"})["approval"]["state"])
    except Refused as refused:
        return str(refused.code)


@pytest.mark.parametrize(("word", "ends"), [("approve", "success"), ("reject", "action_declined")])
def test_a_call_held_at_one_is_answered_when_somebody_decides_at_the_other(pair: Pair, word: str, ends: str) -> None:
    _, token = pair.a.run(waiting="hold")
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pair.a.call, token, "delete_note", {"id": "n1"})
        while not (asked := pair.b.op("GET", "/approvals", state="pending")["approvals"]):
            assert not waiting.done()
        pair.b.op("POST", f"/approvals/{asked[0]['id']}/{word}", {"by": "ann"})
        assert outcome(waiting.result(10)) == ends


def test_a_new_credential_is_used_by_both(pair: Pair, provider: Provider) -> None:
    _, token = pair.b.run()
    assert outcome(pair.b.call(token, "get_echo")) == "success"
    provider.secret = "another-secret-77"
    pair.a.op("POST", "/connections/notes/rotate", {"values": {"credentials.authorization": "another-secret-77"}})
    assert outcome(pair.b.call(token, "get_echo")) == "success"


def test_a_tool_that_one_held_back_is_held_back_by_the_other_and_reviewed_once(pair: Pair, provider: Provider) -> None:
    pair.a.connect("watched", quarantine=True)
    _, token = pair.b.run("watched")
    assert outcome(pair.b.call(token, "get_echo")) == "success"
    provider.tools = [tool("get_echo", {"type": "object", "properties": {"new": {"type": "string"}}}), *provider.tools[2:]]
    pair.a.op("POST", "/connections/watched/refresh")
    assert outcome(pair.b.call(token, "get_echo")) == "tool_quarantined"
    review = next(each for each in pair.b.op("GET", "/connections/watched/reviews")["reviews"] if each["tool"] == "get_echo")
    pair.b.op("POST", f"/connections/watched/reviews/{review['id']}", {"decision": "allow", "by": "ann"})
    with pytest.raises(Refused) as refused:
        pair.a.op("POST", f"/connections/watched/reviews/{review['id']}", {"decision": "allow", "by": "bob"})
    assert refused.value.status == 409
    assert outcome(pair.a.call(token, "get_echo")) == "success"


def test_what_one_deleted_is_gone_and_its_name_is_free_for_another(pair: Pair, provider: Provider) -> None:
    _, token = pair.b.run()
    waiting = held(pair.b, token)
    pair.a.op("DELETE", "/connections/notes")
    with pytest.raises(MCPError, match="no such tool"):
        pair.b.call(token, "get_echo")
    with provider_served(Provider()) as other:
        pair.b.connect(url=other.url, permissions={"delete_note": "ask_first"})
        decided = pair.a.op("POST", f"/approvals/{waiting}/approve", {"by": "ann"})
        assert (decided["approval"]["state"], decided["approval"]["reason"]) == ("cancelled", "approved_tool_target_changed")
        assert outcome(pair.a.call(token, "get_echo")) == outcome(pair.b.call(token, "get_echo")) == "success"
        assert [call["name"] for call in other.calls] == ["get_echo"] * 2
    assert provider.calls == []


def test_a_connection_that_one_paused_is_paused_at_the_other(pair: Pair) -> None:
    _, token = pair.b.run()
    pair.a.op("POST", "/connections/notes/state", {"state": "paused"})
    assert outcome(pair.b.call(token, "get_echo")) == "connection_inactive"
    pair.b.op("POST", "/connections/notes/state", {"state": "active"})
    assert outcome(pair.a.call(token, "get_echo")) == "success"


def test_a_draft_begun_at_one_is_finished_at_the_other(pair: Pair, provider: Provider) -> None:
    """Whose a personal connection is may be unknown yet; that keeps no gateway from starting, or from going on."""
    pair.a.op("POST", "/setups", {"connector": "mem0", "name": "draft", "grant": {"kind": "personal"}})
    assert pair.b.op("GET", "/setups/draft")["step"] == "identity"
    _, token = pair.b.run()
    assert outcome(pair.b.call(token, "get_echo")) == "success"
    pair.b.op("POST", "/setups/draft/identity", {"subject": "person-1"})
    assert pair.a.op("GET", "/setups/draft")["step"] == "credentials"


def test_a_call_whose_grant_is_revoked_elsewhere_meanwhile_says_so_on_record(pair: Pair, provider: Provider) -> None:
    run, token = pair.a.run()
    provider.hang = True
    with ThreadPoolExecutor(1) as pool:
        plain = pool.submit(pair.a.call, token, "get_echo", {"n": 1})
        while not provider.calls:
            assert not plain.done()
        pair.b.op("POST", "/connections/notes/revoke")
        provider.release.set()
        assert outcome(plain.result()) == "success"
    assert pair.a.records(run)[-1]["details"]["grant_revoked"] is True


@pytest.mark.parametrize("doc", [{"name": "odd"}, {"grant": 5}, {"grant": {"kind": "queue"}, "catalog": [], "credential_paths": None}])
def test_one_that_cannot_be_read_keeps_no_other_from_its_work(pair: Pair, place: str, doc: dict[str, Any]) -> None:
    _, token = pair.b.run()
    with opened_store(place) as store:
        store.connection_put(pair.a.tenant, "odd", doc)
    assert outcome(pair.b.call(token, "get_echo")) == "success"
    assert [each["name"] for each in pair.a.op("GET", "/connections")["connections"]] == ["notes"]


def test_both_at_once_lose_nothing(pair: Pair) -> None:
    """Ten operators at each, every one with a tool of their own: all their words stand, and the log is one exact chain."""
    names = sorted(pair.a.op("GET", "/connections/notes/permissions")["permissions"])

    def permit(number: int) -> None:
        bench = pair.a if number % 2 else pair.b
        bench.permit(**{names[number]: "off" if number % 3 else "ask_first"})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(permit, range(len(names))))
    wanted = {name: "off" if number % 3 else "ask_first" for number, name in enumerate(names)}
    assert pair.a.op("GET", "/connections/notes/permissions")["permissions"] == wanted
    assert pair.b.op("GET", "/connections/notes/permissions")["permissions"] == wanted
    records = pair.a.records()
    assert verify(records, whole=False) == []
    assert sum(record["event"] == "permission_changed" for record in records) == len(names)


def test_one_that_starts_leaves_the_calls_of_one_that_lives_alone(pair: Pair, provider: Provider, place: str) -> None:
    run, token = pair.a.run()
    waiting = held(pair.a, token)
    provider.hang = True
    with ThreadPoolExecutor(2) as pool:
        plain = pool.submit(pair.a.call, token, "get_echo", {"n": 1})
        approved = pool.submit(pair.a.op, "POST", f"/approvals/{waiting}/approve", {"by": "ann"})
        while len(provider.calls) < 2:
            assert not plain.done()
            assert not approved.done()
        with gateway_served(store=place, vault_key=VAULT_KEY) as third:
            newcomer = Bench(third, provider, pair.a.tenant)
            assert newcomer.op("GET", f"/approvals/{waiting}")["state"] == "executing"
        provider.release.set()
        assert outcome(plain.result()) == "success"
        assert approved.result()["approval"]["state"] == "executed"
    ends = [(event, result) for event, result, *_ in pair.a.trail(run) if event in ("call_completed", "call_failed")]
    assert ends == [("call_completed", "success")] * 2
