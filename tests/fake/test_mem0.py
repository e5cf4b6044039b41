"""The Mem0 stand-in, through real MCP clients over loopback."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from tests.fake.conftest import Bench, BenchOf, Wire

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
USER = {"user_id": "u1"}
FACT = "The navigator keeps a silver compass in a maple cabinet."
QUESTION = "What does the navigator keep in the maple cabinet?"
NOT_FOUND = {"error": "Memory not found!", "status": None, "payload": None}
NOWHERE = "00000000-0000-5000-8000-000000000000"


@pytest.fixture(scope="module")
def bench(bench_of: BenchOf) -> Bench:
    return bench_of("mem0")


@pytest.fixture
def wire(bench: Bench) -> Iterator[Wire]:
    with bench.open() as opened:
        yield opened


def remember(wire: Wire, text: str, **more: Any) -> str:
    """Store a text word for word; its id."""
    (added,) = wire.get("add_memory", text=text, infer=False, **(more or USER))["results"]
    assert (added["memory"], added["event"]) == (text, "ADD")
    return str(added["id"])


def listed(wire: Wire, **filters: Any) -> list[str]:
    return [m["memory"] for m in wire.get("get_memories", filters=filters or USER)["results"]]


def found(wire: Wire, query: str, **filters: Any) -> list[str]:
    return [m["memory"] for m in wire.get("search_memories", query=query, filters=filters or USER)["results"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_verbatim_memory_is_found_at_once_at_each_protocol_version(bench: Bench, version: str) -> None:
    with bench.open(version=version) as wire:
        memory_id = remember(wire, FACT)
        (hit,) = wire.get("search_memories", query=QUESTION, filters=USER)["results"]
        assert (hit["id"], hit["memory"], hit["user_id"], hit["agent_id"]) == (memory_id, FACT, "u1", None)
        assert 0 < hit["score"] <= 1


def test_the_list_has_eleven_tools_over_pages(wire: Wire) -> None:
    pages = wire.pages()
    assert len(pages) > 1
    assert len({page.next_cursor for page in pages}) == len(pages)
    assert sorted(tool.name for tool in wire.tools()) == [
        "add_memory",
        "delete_all_memories",
        "delete_entities",
        "delete_memory",
        "get_event_status",
        "get_memories",
        "get_memory",
        "list_entities",
        "list_events",
        "search_memories",
        "update_memory",
    ]


def test_an_inferred_memory_is_pending_until_the_delay_has_passed(bench: Bench) -> None:
    with bench.open(index_delay_s=30) as wire:
        accepted = wire.get("add_memory", text=FACT, **USER)
        assert accepted["status"] == "PENDING"
        event = accepted["event_id"]
        bench.advance(29)
        assert wire.get("get_event_status", event_id=event)["status"] == "PENDING"
        assert found(wire, QUESTION) == []
        bench.advance(1)
        settled = wire.get("get_event_status", event_id=event)
        assert settled["status"] == "SUCCEEDED"
        (result,) = settled["results"]
        assert wire.get("get_memory", memory_id=result["id"])["memory"] == FACT


def test_inferring_a_known_fact_adds_nothing(bench: Bench) -> None:
    with bench.open(index_delay_s=1) as wire:
        known = remember(wire, FACT)
        event = wire.get("add_memory", text=FACT, infer=True, **USER)["event_id"]
        bench.advance(1)
        assert wire.get("get_event_status", event_id=event)["results"] == [{"id": known, "memory": FACT, "event": "NONE"}]
        assert listed(wire) == [FACT]


def test_each_message_becomes_a_memory(wire: Wire) -> None:
    messages = [{"role": "user", "content": "I sail at dawn."}, {"role": "assistant", "content": "Noted: dawn."}]
    results = wire.get("add_memory", text="", messages=messages, infer=False, metadata={"k": 1}, **USER)["results"]
    assert [r["memory"] for r in results] == ["I sail at dawn.", "Noted: dawn."]
    assert wire.get("get_memory", memory_id=results[0]["id"])["metadata"] == {"k": 1}


def test_nothing_to_remember_is_refused_and_stores_nothing(wire: Wire) -> None:
    assert wire.get("add_memory", text="  ", infer=False, **USER)["error"] == "text_missing"
    assert listed(wire) == []


def test_updating_changes_what_is_found(wire: Wire) -> None:
    memory_id = remember(wire, FACT)
    updated = wire.get("update_memory", memory_id=memory_id, text="A brass sextant hangs above it.", metadata={"seen": True})
    assert (updated["id"], updated["metadata"]) == (memory_id, {"seen": True})
    assert (found(wire, "brass sextant"), found(wire, "silver compass")) == (["A brass sextant hangs above it."], [])


def test_an_update_that_says_nothing_is_refused(wire: Wire) -> None:
    memory_id = remember(wire, FACT)
    assert wire.get("update_memory", memory_id=memory_id)["error"] == "text_missing"
    assert listed(wire) == [FACT]


def test_deleting_one_memory_leaves_the_others(wire: Wire) -> None:
    first, second = remember(wire, "first fact"), remember(wire, "second fact")
    assert "error" not in wire.get("delete_memory", memory_id=first)
    assert wire.get("get_memory", memory_id=first) == NOT_FOUND
    assert wire.get("get_memory", memory_id=second)["memory"] == "second fact"


@pytest.mark.parametrize("tool", ["get_memory", "delete_memory", "update_memory"])
def test_an_unknown_memory_is_a_masked_not_found(wire: Wire, tool: str) -> None:
    remember(wire, FACT)
    extra = {"text": "x"} if tool == "update_memory" else {}
    assert wire.get(tool, memory_id=NOWHERE, **extra) == NOT_FOUND
    assert listed(wire) == [FACT]


def test_deleting_all_keeps_to_its_scope(wire: Wire) -> None:
    remember(wire, "mine", user_id="u1", app_id="a")
    remember(wire, "mine elsewhere", user_id="u1", app_id="b")
    remember(wire, "theirs", user_id="u2", app_id="a")
    assert wire.get("delete_all_memories", user_id="u1", app_id="a")["deleted"] == 1
    assert (listed(wire, user_id="u1"), listed(wire, user_id="u2")) == (["mine elsewhere"], ["theirs"])
    assert wire.get("delete_all_memories", user_id="nobody")["deleted"] == 0


def test_without_any_scope_everything_means_the_default_user(wire: Wire) -> None:
    remember(wire, "kept", user_id="u1")
    wire.get("add_memory", text="of the default user", infer=False)
    assert [m["memory"] for m in wire.get("get_memories")["results"]] == ["of the default user"]
    assert wire.get("delete_all_memories")["deleted"] == 1
    assert listed(wire) == ["kept"]


def test_entities_appear_are_counted_and_go_with_their_memories(wire: Wire) -> None:
    remember(wire, "one", user_id="u1", run_id="r")
    remember(wire, "two", user_id="u1")

    def entities() -> dict[tuple[str, str], int]:
        answer = wire.get("list_entities")
        assert answer["count"] == len(answer["results"])
        return {(e["type"], e["name"]): e["total_memories"] for e in answer["results"]}

    assert entities() == {("user", "u1"): 2, ("run", "r"): 1}
    assert wire.get("delete_entities", run_id="r")["deleted"] == 1
    assert entities() == {("user", "u1"): 1}
    assert listed(wire) == ["two"]


def test_deleting_entities_needs_a_known_one(wire: Wire) -> None:
    remember(wire, FACT)
    assert wire.get("delete_entities")["error"] == "scope_missing"
    assert wire.get("delete_entities", user_id="u1", app_id="none")["error"] == "Entity not found!"
    assert listed(wire) == [FACT]


def test_events_are_listed_newest_first_by_kind_and_page(wire: Wire) -> None:
    memory_id = remember(wire, FACT)
    wire.get("update_memory", memory_id=memory_id, text="changed")
    wire.get("delete_memory", memory_id=memory_id)
    assert [e["event_type"] for e in wire.get("list_events")["results"]] == ["DELETE", "UPDATE", "ADD"]
    only = wire.get("list_events", event_type="UPDATE")
    assert [e["results"][0]["memory"] for e in only["results"]] == ["changed"]
    second = wire.get("list_events", page=2, page_size=2)
    assert ([e["event_type"] for e in second["results"]], second["next"], second["count"]) == (["ADD"], None, 3)


def test_events_that_are_not_there(wire: Wire) -> None:
    assert wire.get("get_event_status", event_id=NOWHERE)["error"] == "Event not found!"
    assert wire.get("list_events", event_type="NONE SUCH")["results"] == []
    assert wire.get("list_events", page=0)["error"] == "Invalid page."


def test_entities_of_an_empty_store(wire: Wire) -> None:
    assert wire.get("list_entities") == {"count": 0, "results": []}


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"user_id": "u1"}, {"a", "b"}),
        ({"user_id": "u1", "app_id": "x"}, {"a"}),
        ({"AND": [{"user_id": "u1"}, {"app_id": "y"}]}, {"b"}),
        ({"AND": [{"OR": [{"app_id": "x"}, {"app_id": "y"}]}, {"NOT": [{"user_id": "u2"}]}]}, {"a", "b"}),
        ({"OR": [{"user_id": {"in": ["u2"]}}, {"app_id": {"eq": "y"}}]}, {"b", "c"}),
        ({"app_id": "*"}, {"a", "b", "c"}),
        ({"agent_id": "*"}, set()),
        ({"user_id": {"ne": "u1"}}, {"c"}),
        ({"user_id": {"icontains": "U"}}, {"a", "b", "c"}),
        ({"user_id": {"contains": "U"}}, set()),
        ({"metadata": {"n": 1}}, {"a"}),
        ({"created_at": {"gte": "2000-01-01"}}, {"a", "b", "c"}),
        ({"created_at": {"lt": "2000-01-01"}}, set()),
    ],
)
def test_filters_choose_what_is_listed_and_found(wire: Wire, filters: dict[str, Any], expected: set[str]) -> None:
    wire.get("add_memory", text="a1", infer=False, user_id="u1", app_id="x", metadata={"n": 1})
    wire.get("add_memory", text="b1", infer=False, user_id="u1", app_id="y", metadata={"n": 2})
    wire.get("add_memory", text="c1", infer=False, user_id="u2", app_id="x")
    expected = {f"{name}1" for name in expected}
    assert set(listed(wire, **filters)) == expected
    hits = wire.get("search_memories", query="a1 b1 c1", filters=filters)["results"]
    assert {hit["memory"] for hit in hits} == expected


@pytest.mark.parametrize("filters", [{"colour": "red"}, {"AND": {"user_id": "u"}}, {"user_id": {"near": 1}}, {"user_id": {"in": "u"}}, {"OR": [1]}])
def test_a_filter_that_is_none_is_refused_even_by_an_empty_store(wire: Wire, filters: dict[str, Any]) -> None:
    for call in ({"tool": "get_memories"}, {"tool": "search_memories", "query": "x"}):
        answer = wire.get(filters=filters, **call)
        assert answer["error"].startswith("Invalid filters")


def test_search_honours_top_k_threshold_and_rerank(bench: Bench, wire: Wire) -> None:
    remember(wire, "red boat")
    bench.advance(1)
    remember(wire, "red boat harbour")
    assert found(wire, "red boat") == ["red boat", "red boat harbour"]
    assert [m["memory"] for m in wire.get("search_memories", query="red boat", filters=USER, rerank=True, top_k=1)["results"]] == ["red boat harbour"]
    strict = wire.get("search_memories", query="red boat harbour", filters=USER, threshold=0.9)
    assert [m["memory"] for m in strict["results"]] == ["red boat harbour"]
    assert wire.get("search_memories", query="x", filters=USER, top_k=0)["error"] == "top_k must be at least 1"


def test_pages_cover_the_list_once(wire: Wire) -> None:
    texts = [f"fact {n}" for n in range(5)]
    for text in texts:
        remember(wire, text)
    seen: list[str] = []
    for number in (1, 2, 3):
        page = wire.get("get_memories", filters=USER, page=number, page_size=2)
        seen += [m["memory"] for m in page["results"]]
        assert (page["count"], page["next"] is None, page["previous"] is None) == (5, number == 3, number == 1)
    assert seen == texts
    assert wire.get("get_memories", filters=USER, page=1, page_size=0)["error"] == "Invalid page."


@pytest.mark.parametrize(
    ("tool", "arguments", "named"),
    [
        ("add_memory", {}, "text"),
        ("add_memory", {"text": 7}, "text"),
        ("add_memory", {"text": "x", "messages": [{"role": "user"}]}, "messages"),
        ("search_memories", {"query": "x", "top_k": "many"}, "top_k"),
        ("get_memory", {}, "memory_id"),
    ],
)
def test_wrong_arguments_are_an_error_result(wire: Wire, tool: str, arguments: dict[str, Any], named: str) -> None:
    answer = wire.ask(tool, **arguments)
    assert answer.is_error
    assert "validation error" in answer.text
    assert named in answer.text


def test_an_unknown_tool_is_an_error_result(wire: Wire) -> None:
    answer = wire.ask("drop_memories")
    assert (answer.is_error, answer.text) == (True, "Unknown tool: drop_memories")


def test_an_internal_error_keeps_the_shape(wire: Wire) -> None:
    wire.configure(fail={"add_memory": "upstream is down"})
    answer = wire.ask("add_memory", text=FACT)
    assert (answer.is_error, answer.text) == (True, "Error executing tool add_memory: upstream is down")
    assert wire.get("list_events")["count"] == 0


def test_two_keys_share_nothing(bench: Bench, wire: Wire) -> None:
    memory_id = remember(wire, FACT)
    with bench.open() as other:
        assert found(other, QUESTION) == []
        assert other.get("get_memory", memory_id=memory_id) == NOT_FOUND
        assert other.get("delete_memory", memory_id=memory_id) == NOT_FOUND
        assert remember(other, FACT) != memory_id
    assert listed(wire) == [FACT]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
def test_a_stranger_is_challenged(bench: Bench, path: str) -> None:
    for header in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic a"}):
        answer = bench.http("POST", path, json={}, headers=header)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith('Bearer realm="mem0"')
        assert ("invalid_token" in answer.headers["www-authenticate"]) == (header.get("Authorization") == "Bearer wrong")


def _word(alphabet: str) -> st.SearchStrategy[str]:
    return st.text(alphabet=alphabet, min_size=4, max_size=9)


@settings(max_examples=8, deadline=None)
@given(
    texts=st.lists(st.lists(_word(string.ascii_lowercase[:13]), min_size=1, max_size=4).map(" ".join), min_size=1, max_size=4, unique=True),
    unrelated=st.lists(_word(string.ascii_lowercase[14:]), min_size=1, max_size=4).map(" ".join),
    user=st.text(min_size=1, max_size=8),
    replacement=_word(string.digits),
)
def test_a_memory_lives_from_create_to_gone(bench: Bench, texts: list[str], unrelated: str, user: str, replacement: str) -> None:
    with bench.open() as wire:
        scope = {"user_id": user}
        ids = [remember(wire, text, **scope) for text in texts]
        assert len(set(ids)) == len(texts)
        assert [wire.get("get_memory", memory_id=i)["memory"] for i in ids] == texts
        assert listed(wire, **scope) == texts
        assert texts[0] in found(wire, texts[0], **scope)
        assert found(wire, unrelated, **scope) == []
        wire.get("update_memory", memory_id=ids[0], text=replacement)
        assert found(wire, replacement, **scope) == [replacement]
        assert listed(wire, **scope) == [replacement, *texts[1:]]
        for memory_id in ids:
            wire.get("delete_memory", memory_id=memory_id)
            assert wire.get("get_memory", memory_id=memory_id) == NOT_FOUND
        assert (listed(wire, **scope), found(wire, replacement, **scope)) == ([], [])
