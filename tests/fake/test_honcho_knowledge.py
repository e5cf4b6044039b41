"""Honcho's tools for representations, search, conclusions, dreams and chat, through the wire: effects and refusals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from harness.fake import honcho_knowledge
from tests.fake.test_honcho import FACT, QUESTION, UNRELATED, Account, account_of

if TYPE_CHECKING:
    from tests.fake.conftest import BenchOf


@pytest.fixture
def a(bench_of: BenchOf) -> Iterator[Account]:
    with account_of(bench_of) as opened:
        yield opened


def test_no_tool_is_without_its_two_tests() -> None:
    wanted = {f"test_{tool}{end}" for tool in honcho_knowledge.HANDLERS for end in ("", "_refuses")}
    assert wanted <= set(globals())


def test_get_peer_context(a: Account) -> None:
    a.get("set_peer_card", peer_id="ann", target_peer_id="bob", peer_card=["Sails."])
    a.conclude("Bob owns a red boat.", "Bob bakes bread.")
    seen = a.get("get_peer_context", peer_id="ann", target_peer_id="bob", search_query="boat")
    assert (seen["peer_card"], seen["representation"]) == (["Sails."], "- Bob owns a red boat.")


def test_get_peer_context_refuses(a: Account) -> None:
    for bad in (0, 1.5, -1, 101):
        a.refused("get_peer_context", "max_conclusions must be", peer_id="ann", max_conclusions=bad)


def test_get_representation(a: Account) -> None:
    assert a.get("get_representation", peer_id="ann") == "(nothing concluded yet)"
    a.conclude("Bob owns a red boat.", session_id="s")
    a.conclude("Bob bakes bread.", "Bob reads.")
    about = {"peer_id": "ann", "target_peer_id": "bob"}
    assert a.get("get_representation", **about, max_conclusions=2) == "- Bob bakes bread.\n- Bob reads."
    assert a.get("get_representation", **about, session_id="s") == "- Bob owns a red boat."
    assert a.get("get_representation", **about, search_query="bread") == "- Bob bakes bread."
    assert a.get("get_representation", **about, search_query=UNRELATED) == "(nothing concluded yet)"


def test_get_representation_refuses(a: Account) -> None:
    a.refused("get_representation", "max_conclusions must be", peer_id="ann", max_conclusions=0)
    a.refused("get_representation", "-32602", peer_id="ann", search_query=5)


def test_search(a: Account) -> None:
    said = a.say()
    a.say("The harbour opens at dawn.", session="other", peer="bob")
    (held,) = a.conclude("Ann keeps her compass in a cabinet.", about="ann")
    found = a.get("search", query=QUESTION)
    assert [one["id"] for one in found["messages"]] == [said]
    assert [one["id"] for one in found["conclusions"]] == [held]
    assert a.get("search", query=QUESTION, session_id="other")["messages"] == []
    assert a.get("search", query=QUESTION, peer_id="bob")["messages"] == []
    assert a.get("search", query=QUESTION, message_filters={"peer_id": "bob"})["messages"] == []
    assert a.get("search", query=QUESTION, conclusion_filters={"level": "deductive"})["conclusions"] == []
    a.say()
    assert len(a.get("search", query=QUESTION, message_limit=1)["messages"]) == 1
    assert a.get("search", query=UNRELATED) == {"messages": [], "conclusions": []}


def test_search_refuses(a: Account) -> None:
    a.say()
    a.refused("search", "-32602")
    a.refused("search", "message_limit must be", query="x", message_limit=0)
    a.refused("search", "conclusion_top_k must be", query="x", conclusion_top_k=0.5)
    a.refused("search", "Invalid filter", query="x", conclusion_filters={"metadata": {}})
    assert a.get("search", query="")["messages"] == []


def test_create_conclusions(a: Account) -> None:
    ids = a.conclude("Bob sails.", "Bob bakes.", session_id="s")
    listed = a.get("list_conclusions", peer_id="ann", target_peer_id="bob")["items"]
    assert [one["id"] for one in listed] == ids
    assert {(one["peer_id"], one["target_peer_id"], one["session_id"], one["level"]) for one in listed} == {("ann", "bob", "s", "explicit")}


def test_create_conclusions_refuses(a: Account) -> None:
    for bad in ([], ["Bob sails.", "  "]):
        a.refused("create_conclusions", "at least one conclusion", peer_id="ann", target_peer_id="bob", conclusions=bad)
    assert a.get("list_conclusions", peer_id="ann", target_peer_id="bob")["total"] == 0


def test_list_conclusions(a: Account) -> None:
    ids = a.conclude("Bob sails.", "Bob bakes.")
    there = a.conclude("Bob reads.", session_id="s")
    a.conclude("Ann sings.", about="ann")
    about = {"peer_id": "ann", "target_peer_id": "bob"}
    assert a.ids("list_conclusions", **about) == ids + there
    assert a.ids("list_conclusions", **about, size=1, page=2) == ids[1:]
    assert a.ids("list_conclusions", **about, reverse=True) == there + ids[::-1]
    assert a.ids("list_conclusions", **about, session_id="s") == there
    assert a.ids("list_conclusions", **about, filters={"content": {"contains": "bakes"}}) == ids[1:]
    assert a.get("list_conclusions", peer_id="ann")["items"][0]["content"] == "Ann sings."


def test_list_conclusions_refuses(a: Account) -> None:
    a.refused("list_conclusions", "Invalid filter", peer_id="ann", filters={"mood": "good"})
    a.refused("list_conclusions", "Invalid peer id", peer_id="a n n")


def test_query_conclusions(a: Account) -> None:
    ids = a.conclude("Bob owns a red boat.", "Bob bakes bread.", "Bob paints his boat.")
    about = {"peer_id": "ann", "target_peer_id": "bob"}

    def found(query: str, **more: Any) -> list[str]:
        return [one["id"] for one in a.get("query_conclusions", **about, query=query, **more)["conclusions"]]

    assert found("red boat") == [ids[0], ids[2]]
    assert found("red boat", top_k=1) == ids[:1]
    assert found("red boat", filters={"content": {"contains": "paints"}}) == ids[2:]
    assert found(UNRELATED) == []


def test_query_conclusions_refuses(a: Account) -> None:
    a.refused("query_conclusions", "top_k must be", peer_id="ann", query="x", top_k=0)
    a.refused("query_conclusions", "Invalid filter", peer_id="ann", query="x", filters={"x": 1})


def test_get_conclusions(a: Account) -> None:
    ids = a.conclude("Bob sails.", "Bob bakes.")
    read = a.get("get_conclusions", conclusion_ids=ids[::-1])["conclusions"]
    assert [(one["id"], one["content"]) for one in read] == [(ids[1], "Bob bakes."), (ids[0], "Bob sails.")]


def test_get_conclusions_refuses(a: Account) -> None:
    ids = a.conclude("Bob sails.")
    a.refused("get_conclusions", "Conclusion nothing not found", conclusion_ids=[*ids, "nothing"])
    a.refused("get_conclusions", "-32602", conclusion_ids=ids * 101)


def test_get_derived_conclusions(a: Account) -> None:
    a.wire.configure(index_delay_s=30)
    ids = a.conclude("Bob sails.", "Bob bakes.")
    a.get("schedule_dream", peer_id="ann", target_peer_id="bob")
    assert a.get("get_derived_conclusions", conclusion_id=ids[0])["items"] == []
    a.bench.advance(30)
    (derived,) = a.get("get_derived_conclusions", conclusion_id=ids[0])["items"]
    assert (derived["level"], derived["premises"]) == ("deductive", ids)
    assert a.ids("get_derived_conclusions", conclusion_id=ids[1]) == [derived["id"]]
    assert a.ids("get_derived_conclusions", conclusion_id=derived["id"]) == []


def test_get_derived_conclusions_refuses(a: Account) -> None:
    a.refused("get_derived_conclusions", "Conclusion nothing not found", conclusion_id="nothing")


def test_delete_conclusion(a: Account) -> None:
    ids = a.conclude("Bob sails.", "Bob bakes.")
    a.get("delete_conclusion", peer_id="ann", target_peer_id="bob", conclusion_id=ids[0])
    assert a.ids("list_conclusions", peer_id="ann", target_peer_id="bob") == ids[1:]
    a.refused("get_conclusions", "not found", conclusion_ids=ids[:1])
    a.refused("delete_conclusion", "not found", peer_id="ann", target_peer_id="bob", conclusion_id=ids[0])


def test_delete_conclusion_refuses(a: Account) -> None:
    ids = a.conclude("Bob sails.")
    a.refused("delete_conclusion", "not found for", peer_id="bob", target_peer_id="ann", conclusion_id=ids[0])
    assert a.ids("list_conclusions", peer_id="ann", target_peer_id="bob") == ids


def test_schedule_dream(a: Account) -> None:
    a.wire.configure(index_delay_s=30)
    a.conclude("Bob sails.", session_id="s")
    a.conclude("Bob bakes.")
    a.get("schedule_dream", peer_id="ann", target_peer_id="bob", session_id="s")
    assert a.get("get_queue_status")["pendingWorkUnits"] == 1
    a.bench.advance(30)
    assert a.get("get_queue_status")["pendingWorkUnits"] == 0
    (dreamt,) = a.get("list_conclusions", peer_id="ann", target_peer_id="bob", filters={"level": "deductive"})["items"]
    assert (dreamt["content"], dreamt["session_id"]) == ("Bob sails.", "s")  # of that session alone


def test_schedule_dream_refuses(a: Account) -> None:
    a.refused("schedule_dream", "Invalid peer id", peer_id="ann", target_peer_id="b b")
    assert a.get("get_queue_status")["totalWorkUnits"] == 0


def test_chat(a: Account) -> None:
    said = a.say()
    a.say("The navigator keeps nothing in the maple cabinet.", peer="bob", session="other")
    asked = {"query": QUESTION, "reasoning_level": "low", "include_evidence": True}
    own = a.get("chat", peer_id="ann", **asked)
    assert own["answer"] == f"ann said: {FACT}"
    assert [one["id"] for one in own["evidence"]] == [said]
    assert a.get("chat", peer_id="ann", target_peer_id="bob", **asked)["answer"].startswith("bob said: The navigator keeps nothing")
    assert a.get("chat", peer_id="ann", sessions=["other"], **asked)["evidence"] == []
    assert "evidence" not in a.get("chat", peer_id="ann", query=QUESTION)
    assert a.get("chat", peer_id="ann", query=UNRELATED)["answer"] == "Nothing that was stored answers this."


def test_chat_refuses(a: Account) -> None:
    a.say()
    a.refused("chat", "query must not be blank", peer_id="ann", query=" ")
    a.refused("chat", "Session gone not found", peer_id="ann", query="x", session_id="gone")
    a.refused("chat", "Scope gone not found", peer_id="ann", query="x", scope="gone")
    assert a.ids("list_sessions") == ["s"]


def test_workspace_chat(a: Account) -> None:
    a.say("The ferry leaves at noon.", session="s1")
    a.say("The ferry is painted green.", session="s2", peer="bob")
    a.get("create_scope", scope_id="trip")
    a.get("add_sessions_to_scope", scope_id="trip", session_ids=["s2"])
    assert a.get("workspace_chat", query="When does the ferry leave at noon?")["answer"] == "ann said: The ferry leaves at noon."
    assert a.get("workspace_chat", query="ferry", scope="trip")["answer"] == "bob said: The ferry is painted green."
    both = a.get("workspace_chat", query="ferry", include_evidence=True)["evidence"]
    assert {one["session_id"] for one in both} == {"s1", "s2"}
    assert a.get("workspace_chat", query=UNRELATED)["answer"] == "Nothing that was stored answers this."


def test_workspace_chat_refuses(a: Account) -> None:
    a.refused("workspace_chat", "query must not be blank", query="")
    a.refused("workspace_chat", "Scope trip not found", query="x", scope="trip")
    assert a.ids("list_scopes") == []
