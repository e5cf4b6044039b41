"""Honcho's tools for sessions and messages, through the wire: what each does, and what each refuses without effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from harness.fake import honcho_sessions
from tests.fake.test_honcho import FACT, QUESTION, Account, account_of

if TYPE_CHECKING:
    from tests.fake.conftest import BenchOf


@pytest.fixture
def a(bench_of: BenchOf) -> Iterator[Account]:
    with account_of(bench_of) as opened:
        yield opened


def test_no_tool_is_without_its_two_tests() -> None:
    wanted = {f"test_{tool}{end}" for tool in honcho_sessions.HANDLERS for end in ("", "_refuses")}
    assert wanted <= set(globals())


def test_create_session(a: Account) -> None:
    a.get("create_session", session_id="s")
    a.get("create_session", session_id="s")
    assert a.ids("list_sessions") == ["s"]


def test_create_session_refuses(a: Account) -> None:
    a.refused("create_session", "Invalid session id", session_id="s s")
    a.refused("create_session", "Invalid session id", session_id="x" * 513)
    assert a.ids("list_sessions") == []


def test_list_sessions(a: Account) -> None:
    for name in ("s1", "s2", "s3"):
        a.get("create_session", session_id=name)
    assert a.ids("list_sessions", size=2) == ["s1", "s2"]
    assert a.ids("list_sessions", size=2, page=2) == ["s3"]
    assert a.ids("list_sessions", size=2, reverse=True) == ["s3", "s2"]


def test_list_sessions_refuses(a: Account) -> None:
    a.refused("list_sessions", "-32602", size=0)
    a.refused("list_sessions", "-32602", reverse="yes")


def test_inspect_session(a: Account) -> None:
    a.say()
    a.get("set_metadata", session_id="s", metadata={"k": 1})
    seen = a.get("inspect_session", session_id="s")
    assert (seen["message_count"], seen["metadata"], seen["peers"][0]["peer_id"]) == (1, {"k": 1}, "ann")


def test_inspect_session_refuses(a: Account) -> None:
    a.refused("inspect_session", "Invalid session id", session_id="")
    a.get("create_session", session_id="s")
    a.get("delete_session", session_id="s")
    a.refused("inspect_session", "Session s not found", session_id="s")


def test_delete_session(a: Account) -> None:
    a.say()
    a.say("Something else.", session="other")
    a.get("create_scope", scope_id="trip")
    a.get("add_sessions_to_scope", scope_id="trip", session_ids=["s", "other"])
    a.get("delete_session", session_id="s")
    assert a.ids("list_sessions") == ["other"]
    assert a.ids("get_scope_sessions", scope_id="trip") == ["other"]
    assert a.get("search", query=QUESTION)["messages"] == []
    assert a.get("get_queue_status")["totalWorkUnits"] == 1
    a.refused("get_session_messages", "Session s not found", session_id="s")
    a.refused("create_session", "Session s not found", session_id="s")


def test_delete_session_refuses(a: Account) -> None:
    a.say()
    a.refused("delete_session", "Session gone not found", session_id="gone")
    assert a.ids("list_sessions") == ["s"]


def test_clone_session(a: Account) -> None:
    first = a.say("One.")
    a.say("Two.", peer="bob")
    whole = a.get("clone_session", session_id="s")
    part = a.get("clone_session", session_id="s", message_id=first)
    assert (whole["message_count"], part["message_count"]) == (2, 1)
    assert a.ids("list_sessions") == ["s", whole["id"], part["id"]]
    assert a.seats(whole["id"]) == ["ann", "bob"]
    (copied,) = a.get("get_session_messages", session_id=part["id"])["messages"]
    assert copied["content"] == "One."
    assert copied["id"] != first
    a.say("Three.", session=whole["id"])
    assert a.get("inspect_session", session_id="s")["message_count"] == 2  # the original is left alone


def test_clone_session_refuses(a: Account) -> None:
    a.say()
    a.refused("clone_session", "Message nothing not found", session_id="s", message_id="nothing")
    assert a.ids("list_sessions") == ["s"]


def test_add_peers_to_session(a: Account) -> None:
    a.get("add_peers_to_session", session_id="s", peers=["ann", {"peer_id": "bob", "observe_me": False, "observe_others": True}])
    assert a.get("get_session_peers", session_id="s")["peers"] == [
        {"peer_id": "ann", "observe_me": None, "observe_others": None},
        {"peer_id": "bob", "observe_me": False, "observe_others": True},
    ]
    assert a.ids("list_peers") == ["ann", "bob"]
    a.say(peer="bob")
    assert a.get("get_queue_status")["totalWorkUnits"] == 0  # bob is not observed here


def test_add_peers_to_session_refuses(a: Account) -> None:
    a.refused("add_peers_to_session", "Invalid peer id", session_id="s", peers=["ann", "b b"])
    a.refused("add_peers_to_session", "-32602", session_id="s", peers=[{"observe_me": True}])
    assert a.ids("list_peers") == []


def test_get_session_peers(a: Account) -> None:
    assert a.seats() == []
    a.get("add_peers_to_session", session_id="s", peers=["ann"])
    a.say(peer="bob")  # who speaks, sits
    assert a.seats() == ["ann", "bob"]


def test_get_session_peers_refuses(a: Account) -> None:
    a.refused("get_session_peers", "Invalid session id", session_id="s.s")


def test_remove_peers_from_session(a: Account) -> None:
    said = a.say()
    a.get("add_peers_to_session", session_id="s", peers=["bob", "cat"])
    a.get("remove_peers_from_session", session_id="s", peer_ids=["ann", "cat", "cat"])
    assert a.seats() == ["bob"]
    assert a.ids("get_session_messages", session_id="s") == [said]


def test_remove_peers_from_session_refuses(a: Account) -> None:
    a.get("add_peers_to_session", session_id="s", peers=["ann"])
    a.refused("remove_peers_from_session", "Peer bob is not in session s", session_id="s", peer_ids=["ann", "bob"])
    assert a.seats() == ["ann"]


def test_add_messages_to_session(a: Account) -> None:
    messages = [{"peer_id": "ann", "content": FACT, "metadata": {"n": 1}}, {"peer_id": "bob", "content": "Good."}]
    said = a.get("add_messages_to_session", session_id="s", messages=messages)["messages"]
    read = a.get("get_session_messages", session_id="s")["messages"]
    assert read == said
    assert [(one["peer_id"], one["content"], one["metadata"]) for one in read] == [("ann", FACT, {"n": 1}), ("bob", "Good.", {})]
    assert len({one["id"] for one in read}) == 2


def test_add_messages_to_session_refuses(a: Account) -> None:
    good = {"peer_id": "ann", "content": "x"}
    a.refused("add_messages_to_session", "Invalid peer id", session_id="s", messages=[good, {"peer_id": "", "content": "x"}])
    a.refused("add_messages_to_session", "1 to 100", session_id="s", messages=[])
    a.refused("add_messages_to_session", "1 to 100", session_id="s", messages=[good] * 101)
    assert a.ids("get_session_messages", session_id="s") == []


def test_get_session_messages(a: Account) -> None:
    ids = [a.say(f"Text {n}.", peer=peer, metadata={"n": n}) for n, peer in enumerate(("ann", "bob", "ann"))]
    assert a.ids("get_session_messages", session_id="s", size=2, page=2) == ids[2:]
    assert a.ids("get_session_messages", session_id="s", reverse=True) == ids[::-1]
    assert a.ids("get_session_messages", session_id="s", filters={"peer_id": "ann"}) == [ids[0], ids[2]]
    assert a.ids("get_session_messages", session_id="s", filters={"metadata": {"n": {"gte": 1}}}) == ids[1:]
    either = {"OR": [{"metadata": {"n": 0}}, {"content": {"icontains": "TEXT 2"}}]}
    assert a.ids("get_session_messages", session_id="s", filters=either) == [ids[0], ids[2]]
    assert a.ids("get_session_messages", session_id="s", filters={"NOT": [either], "peer_id": "*"}) == [ids[1]]


def test_get_session_messages_refuses(a: Account) -> None:
    unknown: list[dict[str, Any]] = [{"colour": "red"}, {"peer_id": {"like": "a"}}, {"OR": {}}, {"metadata": 5}]
    for bad in unknown:
        a.refused("get_session_messages", "Invalid filter", session_id="s", filters=bad)
    a.say()
    a.refused("get_session_messages", "Invalid filter", session_id="s", filters={"peer_id": "nobody", "colour": "red"})


def test_get_session_message(a: Account) -> None:
    a.say("Another.")
    said = a.say()
    read = a.get("get_session_message", session_id="s", message_id=said)
    assert (read["id"], read["content"], read["session_id"]) == (said, FACT, "s")


def test_get_session_message_refuses(a: Account) -> None:
    said = a.say()
    a.refused("get_session_message", "Message nothing not found", session_id="s", message_id="nothing")
    a.refused("get_session_message", "not found in session other", session_id="other", message_id=said)


def test_get_session_context(a: Account) -> None:
    a.wire.configure(index_delay_s=30)
    a.say("x" * 400)
    newest = [a.say("y" * 40), a.say("z" * 40)]
    seen = a.get("get_session_context", session_id="s", tokens=25)
    assert ([one["id"] for one in seen["messages"]], seen["summary"]) == (newest, None)
    assert len(a.get("get_session_context", session_id="s")["messages"]) == 3
    a.bench.advance(30)
    assert a.get("get_session_context", session_id="s")["summary"] == "3 messages by ann"
    assert a.get("get_session_context", session_id="s", summary=False)["summary"] is None


def test_get_session_context_refuses(a: Account) -> None:
    a.refused("get_session_context", "tokens must be", session_id="s", tokens=0)
    a.refused("get_session_context", "-32602", session_id="s", summary="long")
