"""Honcho's tools for workspaces, peers, metadata and the queue, through the wire: what each does, and what each refuses without effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from harness.fake import honcho_places
from tests.fake.test_honcho import Account, account_of

if TYPE_CHECKING:
    from tests.fake.conftest import BenchOf


@pytest.fixture
def a(bench_of: BenchOf) -> Iterator[Account]:
    with account_of(bench_of) as opened:
        yield opened


def test_no_tool_is_without_its_two_tests() -> None:
    wanted = {f"test_{tool}{end}" for tool in honcho_places.HANDLERS for end in ("", "_refuses")}
    assert wanted <= set(globals())


def test_list_workspaces(a: Account) -> None:
    for name in ("one", "two", "three"):
        a.get("create_workspace", workspace_id=name)
    listed = a.wire.ask("list_workspaces", page=2, size=2).json
    assert [one["id"] for one in listed["items"]] == ["three"]
    assert (listed["total"], listed["pages"], listed["page"]) == (3, 2, 2)


def test_list_workspaces_refuses(a: Account) -> None:
    a.get("create_workspace")
    a.refused("list_workspaces", "-32602", page=0)
    assert a.wire.ask("list_workspaces", page=9).json["items"] == []


def test_create_workspace(a: Account) -> None:
    a.get("create_workspace", metadata={"team": "red"})
    a.get("create_workspace")  # once more: the same one, its metadata kept
    assert a.ids("list_workspaces") == ["ws"]
    assert a.get("get_metadata")["metadata"] == {"team": "red"}
    a.get("create_workspace", metadata={"team": "blue"})
    assert a.get("get_metadata")["metadata"] == {"team": "blue"}


def test_create_workspace_refuses(a: Account) -> None:
    a.refused("create_workspace", "Invalid workspace id", workspace_id="two words")
    missing = a.wire.ask("create_workspace")
    assert missing.is_error
    assert "workspace_id is needed" in missing.text
    assert a.wire.ask("list_workspaces").json["total"] == 0


def test_inspect_workspace(a: Account) -> None:
    a.say()
    a.get("create_scope", scope_id="trip")
    a.conclude("Bob sails.")
    seen = a.get("inspect_workspace")
    assert (seen["peers"], seen["sessions"], seen["scopes"]) == (["ann", "bob"], ["s"], ["trip"])
    assert (seen["message_count"], seen["conclusion_count"]) == (1, 1)


def test_inspect_workspace_refuses(a: Account) -> None:
    a.refused("inspect_workspace", "Invalid workspace id", workspace_id="")
    assert a.wire.ask("list_workspaces").json["total"] == 0


def test_get_metadata(a: Account) -> None:
    a.get("set_metadata", metadata={"at": "workspace"})
    a.get("set_metadata", peer_id="ann", metadata={"at": "peer"})
    a.get("set_metadata", session_id="s", metadata={"at": "session"})
    assert a.get("get_metadata") == {"of": "workspace", "id": "ws", "metadata": {"at": "workspace"}}
    assert a.get("get_metadata", peer_id="ann") == {"of": "peer", "id": "ann", "metadata": {"at": "peer"}}
    assert a.get("get_metadata", session_id="s") == {"of": "session", "id": "s", "metadata": {"at": "session"}}


def test_get_metadata_refuses(a: Account) -> None:
    a.refused("get_metadata", "not both", peer_id="ann", session_id="s")
    assert a.get("inspect_workspace")["peers"] == []


def test_set_metadata(a: Account) -> None:
    a.get("set_metadata", session_id="s", metadata={"old": 1, "kept": 2})
    a.get("set_metadata", session_id="s", metadata={"new": 3})  # replaces, does not merge
    assert a.get("inspect_session", session_id="s")["metadata"] == {"new": 3}


def test_set_metadata_refuses(a: Account) -> None:
    a.get("set_metadata", metadata={"a": 1})
    a.refused("set_metadata", "-32602", metadata="text")
    a.refused("set_metadata", "not both", metadata={}, peer_id="ann", session_id="s")
    assert a.get("get_metadata")["metadata"] == {"a": 1}


def test_get_queue_status(a: Account) -> None:
    a.wire.configure(index_delay_s=30)
    a.say()
    a.bench.advance(20)
    a.say("A second text.")
    assert a.get("get_queue_status") == {"totalWorkUnits": 2, "completedWorkUnits": 0, "inProgressWorkUnits": 0, "pendingWorkUnits": 2}
    a.bench.advance(10)
    status = a.get("get_queue_status")
    assert (status["completedWorkUnits"], status["pendingWorkUnits"]) == (1, 1)


def test_get_queue_status_refuses(a: Account) -> None:
    a.refused("get_queue_status", "Invalid workspace id", workspace_id="a/b")
    a.get("create_peer", peer_id="shy", configuration={"observeMe": False})
    a.say(peer="shy")
    assert a.get("get_queue_status")["totalWorkUnits"] == 0  # nothing is derived from who is not observed


def test_create_peer(a: Account) -> None:
    a.get("create_peer", peer_id="ann", configuration={"observeMe": False})
    a.get("create_peer", peer_id="ann")
    (peer,) = a.get("list_peers")["items"]
    assert (peer["id"], peer["configuration"]) == ("ann", {"observeMe": False})
    a.get("create_peer", peer_id="ann", configuration={"observeMe": None})
    assert a.get("list_peers")["items"][0]["configuration"] == {"observeMe": None}


def test_create_peer_refuses(a: Account) -> None:
    a.refused("create_peer", "Invalid peer id", peer_id="ann@home")
    a.refused("create_peer", "-32602", peer_id="ann", configuration={"observeMe": "yes"})
    assert a.get("list_peers")["total"] == 0


def test_list_peers(a: Account) -> None:
    a.say(peer="cat")
    a.get("create_peer", peer_id="dan")
    assert a.ids("list_peers") == ["cat", "dan"]
    assert a.get("list_peers", workspace_id="other")["items"] == []


def test_list_peers_refuses(a: Account) -> None:
    a.refused("list_peers", "Invalid workspace id", workspace_id="?")
    assert a.wire.ask("list_workspaces").json["total"] == 0


def test_get_peer_card(a: Account) -> None:
    assert a.get("get_peer_card", peer_id="ann")["peer_card"] is None
    a.get("set_peer_card", peer_id="ann", target_peer_id="bob", peer_card=["Sails."])
    assert a.get("get_peer_card", peer_id="ann", target_peer_id="bob")["peer_card"] == ["Sails."]
    assert a.get("get_peer_card", peer_id="ann")["peer_card"] is None
    assert a.get("get_peer_card", peer_id="bob")["peer_card"] is None


def test_get_peer_card_refuses(a: Account) -> None:
    a.refused("get_peer_card", "Invalid peer id", peer_id="")
    a.refused("get_peer_card", "Invalid peer id", peer_id="ann", target_peer_id="b b")


def test_set_peer_card(a: Account) -> None:
    a.get("set_peer_card", peer_id="ann", peer_card=["Old."])
    a.get("set_peer_card", peer_id="ann", peer_card=["Keeps a compass.", "Sails."])
    assert a.get("get_peer_card", peer_id="ann")["peer_card"] == ["Keeps a compass.", "Sails."]


def test_set_peer_card_refuses(a: Account) -> None:
    a.get("set_peer_card", peer_id="ann", peer_card=["Kept."])
    a.refused("set_peer_card", "-32602", peer_id="ann", peer_card=[1])
    assert a.get("get_peer_card", peer_id="ann")["peer_card"] == ["Kept."]
