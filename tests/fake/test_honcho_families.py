"""The life of each of Honcho's families, for any ids and texts: create, get, list, search, update, delete, gone, as far as tools go.

Workspaces, peers and scopes cannot be deleted through the tools; of those, the life ends with the update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fake.test_honcho import UNRELATED, account_of

if TYPE_CHECKING:
    from tests.fake.conftest import BenchOf

IDS = st.text("abcXYZ019_-", min_size=1, max_size=30)
SEVERAL = st.lists(IDS, min_size=1, max_size=5, unique=True)
VALUES = st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=20)
METADATA = st.dictionaries(st.text(min_size=1, max_size=8), VALUES | st.lists(VALUES, max_size=3), max_size=4)
# Invented words, each with a "z", so that none is in the unrelated question; quotes and line ends must survive the wire.
WORD = st.text("bdfgklmnoprtuz", min_size=3, max_size=8).map("z{}q".format)
GAPS = st.sampled_from([" ", ", ", "\n", ' "', "; "])
TEXTS = st.builds(str.join, GAPS, st.lists(WORD, min_size=1, max_size=6, unique=True))
SOME = settings(max_examples=8, deadline=None)


@SOME
@given(names=SEVERAL, first=METADATA, second=METADATA)
def test_workspaces(bench_of: BenchOf, names: list[str], first: dict[str, object], second: dict[str, object]) -> None:
    with account_of(bench_of) as a:
        for name in names:
            assert a.get("create_workspace", workspace_id=name, metadata=first)["metadata"] == first
        assert a.ids("list_workspaces") == names
        assert a.get("get_metadata", workspace_id=names[0])["metadata"] == first
        a.get("set_metadata", workspace_id=names[0], metadata=second)
        assert a.get("inspect_workspace", workspace_id=names[0])["metadata"] == second
        assert all(a.get("inspect_workspace", workspace_id=name)["metadata"] == first for name in names[1:])
        assert a.get("search", workspace_id=names[0], query=UNRELATED) == {"messages": [], "conclusions": []}


@SOME
@given(names=SEVERAL, metadata=METADATA, card=st.lists(TEXTS, max_size=3))
def test_peers(bench_of: BenchOf, names: list[str], metadata: dict[str, object], card: list[str]) -> None:
    with account_of(bench_of) as a:
        for name in names:
            assert a.get("create_peer", peer_id=name)["id"] == name
        a.get("set_metadata", peer_id=names[-1], metadata=metadata)
        a.get("set_peer_card", peer_id=names[-1], target_peer_id=names[0], peer_card=card)
        assert a.ids("list_peers") == names
        assert a.get("list_peers")["items"][-1]["metadata"] == metadata
        assert a.get("get_peer_card", peer_id=names[-1], target_peer_id=names[0])["peer_card"] == card
        assert a.get("get_peer_context", peer_id=names[-1], search_query=UNRELATED)["representation"] == "(nothing concluded yet)"


@SOME
@given(names=SEVERAL, peers=SEVERAL, metadata=METADATA)
def test_sessions(bench_of: BenchOf, names: list[str], peers: list[str], metadata: dict[str, object]) -> None:
    with account_of(bench_of) as a:
        for name in names:
            a.get("create_session", session_id=name)
        assert a.ids("list_sessions") == names
        a.get("add_peers_to_session", session_id=names[0], peers=peers)
        assert a.seats(names[0]) == peers
        a.get("remove_peers_from_session", session_id=names[0], peer_ids=peers[:1])
        assert a.seats(names[0]) == peers[1:]
        a.get("set_metadata", session_id=names[0], metadata=metadata)
        assert a.get("inspect_session", session_id=names[0])["metadata"] == metadata
        a.get("delete_session", session_id=names[0])
        assert a.ids("list_sessions") == names[1:]
        a.refused("inspect_session", "not found", session_id=names[0])
        a.refused("delete_session", "not found", session_id=names[0])


@SOME
@given(texts=st.lists(TEXTS, min_size=1, max_size=6, unique=True), size=st.integers(1, 4))
def test_messages(bench_of: BenchOf, texts: list[str], size: int) -> None:
    with account_of(bench_of) as a:
        ids = [a.say(text) for text in texts]
        assert len(set(ids)) == len(texts)
        paged = [
            one for page in range(1, len(texts) + 1) for one in a.get("get_session_messages", session_id="s", page=page, size=size)["messages"]
        ]
        assert [(one["id"], one["content"]) for one in paged] == list(zip(ids, texts, strict=True))
        assert a.get("get_session_message", session_id="s", message_id=ids[-1])["content"] == texts[-1]
        found = a.get("search", query=texts[0], session_id="s")["messages"]
        assert ids[0] in [one["id"] for one in found]
        assert a.get("search", query=UNRELATED)["messages"] == []
        a.get("delete_session", session_id="s")
        assert a.get("search", query=texts[0])["messages"] == []
        a.refused("get_session_message", "not found", session_id="s", message_id=ids[0])


@SOME
@given(texts=st.lists(TEXTS, min_size=1, max_size=5, unique=True), observer=IDS, observed=IDS)
def test_conclusions(bench_of: BenchOf, texts: list[str], observer: str, observed: str) -> None:
    with account_of(bench_of) as a:
        pair = {"peer_id": observer, "target_peer_id": observed}
        ids = [one["id"] for one in a.get("create_conclusions", **pair, conclusions=texts)["conclusions"]]
        assert [one["content"] for one in a.get("get_conclusions", conclusion_ids=ids)["conclusions"]] == texts
        assert a.ids("list_conclusions", **pair) == ids
        assert ids[0] in [one["id"] for one in a.get("query_conclusions", **pair, query=texts[0])["conclusions"]]
        assert a.get("query_conclusions", **pair, query=UNRELATED)["conclusions"] == []
        a.get("delete_conclusion", **pair, conclusion_id=ids[0])
        assert a.ids("list_conclusions", **pair) == ids[1:]
        a.refused("get_conclusions", "not found", conclusion_ids=ids)
        left = [one["id"] for one in a.get("query_conclusions", **pair, query=texts[0])["conclusions"]]
        assert ids[0] not in left


@SOME
@given(names=SEVERAL, sessions=SEVERAL, metadata=METADATA, text=TEXTS)
def test_scopes(bench_of: BenchOf, names: list[str], sessions: list[str], metadata: dict[str, object], text: str) -> None:
    with account_of(bench_of) as a:
        for name in names:
            a.get("create_scope", scope_id=name)
        assert a.ids("list_scopes") == names
        for session in sessions:
            a.say(text, session=session)
        a.get("add_sessions_to_scope", scope_id=names[0], session_ids=sessions)
        assert a.ids("get_scope_sessions", scope_id=names[0]) == sessions
        found = a.get("workspace_chat", query=text, scope=names[0], include_evidence=True)
        assert found["evidence"][0]["content"] == text
        assert a.get("workspace_chat", query=UNRELATED, scope=names[0], include_evidence=True)["evidence"] == []
        a.get("create_scope", scope_id=names[0], metadata=metadata)
        assert a.get("get_scope_status", scope_id=names[0])["metadata"] == metadata
        for session in sessions:
            a.get("remove_session_from_scope", scope_id=names[0], session_id=session)
        assert a.ids("get_scope_sessions", scope_id=names[0]) == []
        assert a.get("workspace_chat", query=text, scope=names[0], include_evidence=True)["evidence"] == []
