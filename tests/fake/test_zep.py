"""The Zep stand-in, through real MCP clients over loopback."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from harness.fake.kit import Consent

if TYPE_CHECKING:
    from tests.fake.conftest import Bench, BenchOf, Wire

VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
FACT = "The cartographer keeps a golden astrolabe under a walnut desk."
QUESTION = "Where does the cartographer keep the golden astrolabe?"
NOWHERE = "00000000-0000-5000-8000-000000000000"
DELAY = 10
PAIRS = {
    "add_memory": "add_memory_to_graph",
    "search_graph": "search_graph_in",
    "list_episodes": "list_episodes_in",
    "get_node_neighbors": "get_node_neighbors_in",
    "get_subgraph": "get_subgraph_in",
}


@pytest.fixture(scope="module")
def bench(bench_of: BenchOf) -> Bench:
    return bench_of("zep")


@pytest.fixture
def wire(bench: Bench) -> Iterator[Wire]:
    with bench.open(index_delay_s=DELAY) as opened:
        yield opened


class Place:
    """The user's own graph, or a shared one: the same five questions in either spelling."""

    def __init__(self, wire: Wire, graph_id: str | None = None) -> None:
        self.wire = wire
        self._graph_id = graph_id

    def ask(self, tool: str, **arguments: Any) -> Any:
        if self._graph_id is None:
            return self.wire.ask(tool, **arguments)
        return self.wire.ask(PAIRS[tool], graph_id=self._graph_id, **arguments)

    def get(self, tool: str, **arguments: Any) -> Any:
        answer = self.ask(tool, **arguments)
        assert not answer.is_error, answer.text
        return answer.json

    def search(self, scope: str, query: str = QUESTION) -> list[dict[str, Any]]:
        hits = self.get("search_graph", query=query, scope=scope)
        assert list(hits) == [scope]
        found: list[dict[str, Any]] = hits[scope]
        return found

    def node(self, name: str) -> str:
        (hit,) = [node for node in self.search("nodes", name) if node["name"] == name]
        return str(hit["uuid"])


@pytest.fixture(params=[None, "shared-notes"], ids=["own", "shared"])
def place(wire: Wire, request: pytest.FixtureRequest) -> Place:
    return Place(wire, request.param)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_raw_episode_is_searchable_at_once_at_each_protocol_version(bench: Bench, version: str) -> None:
    with bench.open(version=version) as wire:
        added = wire.get("add_memory", data=FACT)
        (hit,) = wire.get("search_graph", query=QUESTION, scope="episodes")["episodes"]
        assert (hit["uuid"], hit["content"], hit["processed"]) == (added["uuid"], FACT, False)


def test_the_list_has_twelve_tools_over_pages(wire: Wire) -> None:
    pages = wire.pages()
    assert len({page.next_cursor for page in pages}) == len(pages) > 1
    assert {tool.name for tool in wire.tools()} == {*PAIRS, *PAIRS.values(), "list_graphs", "get_user_summary"}


def test_the_derived_graph_comes_only_after_the_delay(bench: Bench, place: Place) -> None:
    episode = place.get("add_memory", data=FACT, source_description="a notebook")
    assert (episode["source"], episode["source_description"], episode["processed"]) == ("text", "a notebook", False)
    bench.advance(DELAY - 1)
    assert (place.search("edges"), place.search("nodes")) == ([], [])
    bench.advance(1)
    assert {edge["fact"] for edge in place.search("edges")} == {FACT}
    assert all(edge["episodes"] == [episode["uuid"]] for edge in place.search("edges"))
    assert {"cartographer", "golden", "astrolabe"} <= {node["name"] for node in place.search("nodes")}
    (hit,) = place.search("episodes")
    assert hit["processed"] is True


def test_the_same_fact_twice_is_two_episodes_and_one_edge_each(bench: Bench, place: Place) -> None:
    first, second = (place.get("add_memory", data="Herons nest quietly.")["uuid"] for _ in range(2))
    bench.advance(DELAY)
    edges = place.search("edges", "herons nest")
    assert len(edges) == 2  # heron-nest and nest-quietly
    assert all(edge["episodes"] == [first, second] for edge in edges)


def test_json_must_be_json(place: Place) -> None:
    place.get("add_memory", data='{"keeper": "cartographer"}', type="json")
    refused = place.ask("add_memory", data="{not json", type="json")
    assert refused.is_error
    assert refused.json == {"message": "data is not JSON", "status": 400}
    assert [e["content"] for e in place.get("list_episodes")["episodes"]] == ['{"keeper": "cartographer"}']


def test_an_episode_that_is_too_long_is_refused(place: Place) -> None:
    assert place.ask("add_memory", data="x" * 10_001).json["status"] == 400
    assert place.get("list_episodes")["episodes"] == []


def test_graphs_are_told_apart(wire: Wire) -> None:
    wire.get("add_memory", data="mine alone")
    wire.get("add_memory_to_graph", graph_id="shared-notes", data="ours together")
    assert [e["content"] for e in wire.get("list_episodes")["episodes"]] == ["mine alone"]
    assert [e["content"] for e in wire.get("list_episodes_in", graph_id="shared-notes")["episodes"]] == ["ours together"]
    assert wire.get("list_episodes_in", graph_id="shared-archive")["episodes"] == []
    assert wire.get("search_graph", query="ours together", scope="episodes")["episodes"] == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add_memory_to_graph", {"data": "x"}),
        ("search_graph_in", {"query": "x"}),
        ("list_episodes_in", {}),
        ("get_node_neighbors_in", {"node_uuid": NOWHERE}),
        ("get_subgraph_in", {"seed_node_uuids": [NOWHERE]}),
    ],
)
def test_a_graph_that_was_not_shared_is_not_found(wire: Wire, tool: str, arguments: dict[str, Any]) -> None:
    refused = wire.ask(tool, graph_id="secret", **arguments)
    assert (refused.is_error, refused.json) == (True, {"message": "graph secret not found", "status": 404})


def test_episode_pages_cover_the_list_once_in_either_order(place: Place) -> None:
    texts = [f"log entry {n}" for n in range(5)]
    for text in texts:
        place.get("add_memory", data=text)
    for direction, expected in (("asc", texts), ("desc", texts[::-1])):
        seen: list[str] = []
        more: dict[str, str] = {}
        cursors = []
        while True:
            page = place.get("list_episodes", limit=2, direction=direction, **more)
            seen += [e["content"] for e in page["episodes"]]
            if page["next_cursor"] is None:
                break
            cursors.append(page["next_cursor"])
            more = {"cursor": page["next_cursor"]}
        assert seen == expected
        assert len(set(cursors)) == len(cursors) == 2
    uuids = [e["uuid"] for e in place.get("list_episodes", order_by="uuid", direction="asc")["episodes"]]
    assert uuids == sorted(uuids)


def test_a_cursor_of_another_list_is_refused(place: Place) -> None:
    for n in range(3):
        place.get("add_memory", data=f"entry {n}")
    cursor = place.get("list_episodes", limit=1, direction="asc")["next_cursor"]
    for arguments in ({"direction": "desc", "cursor": cursor}, {"cursor": "garbage"}, {"cursor": ""}):
        refused = place.ask("list_episodes", limit=1, **arguments)
        assert refused.is_error
        assert refused.json["status"] == 400


def test_episodes_can_be_chosen_by_what_they_mention(bench: Bench, place: Place) -> None:
    place.get("add_memory", data="Herons fish.")
    place.get("add_memory", data="Badgers dig.")
    bench.advance(DELAY)
    chosen = place.get("list_episodes", mentioned_node_uuids=[place.node("heron")])
    assert [e["content"] for e in chosen["episodes"]] == ["Herons fish."]
    assert place.get("list_episodes", mentioned_node_uuids=[NOWHERE])["episodes"] == []


def test_neighbours_by_direction_order_filter_and_page(bench: Bench, place: Place) -> None:
    place.get("add_memory", data="zebra meets heron. heron meets badger.")
    bench.advance(DELAY)
    node = place.node("meet")

    def names(**arguments: Any) -> list[tuple[str, str]]:
        answer = place.get("get_node_neighbors", node_uuid=node, **arguments)
        return [(n["node"]["name"], n["direction"]) for n in answer["neighbors"]]

    assert names(direction_sort="asc") == [("zebra", "in"), ("heron", "out"), ("heron", "in"), ("badger", "out")]
    assert names(direction="out", direction_sort="desc") == [("badger", "out"), ("heron", "out")]
    assert names(direction="in", order_by="name", direction_sort="asc") == [("heron", "in"), ("zebra", "in")]
    assert names(filters={"edge_types": ["OTHER"]}) == names(filters={"node_labels": []}) == []
    assert len(names(filters={"node_labels": ["Entity"], "edge_types": ["RELATES_TO"]})) == 4
    first = place.get("get_node_neighbors", node_uuid=node, limit=3)
    rest = place.get("get_node_neighbors", node_uuid=node, limit=3, cursor=first["next_cursor"])
    assert ([len(p["neighbors"]) for p in (first, rest)], rest["next_cursor"]) == ([3, 1], None)


def test_a_subgraph_grows_with_depth_and_says_when_it_was_cut(bench: Bench, place: Place) -> None:
    place.get("add_memory", data="alder birch cedar dogwood elm")
    bench.advance(DELAY)
    seed = [place.node("alder")]

    def reach(**arguments: Any) -> tuple[list[str], int, bool]:
        answer = place.get("get_subgraph", seed_node_uuids=seed, **arguments)
        return [node["name"] for node in answer["nodes"]], len(answer["edges"]), answer["truncated"]

    assert reach() == (["alder", "birch"], 1, False)
    assert reach(depth=4) == (["alder", "birch", "cedar", "dogwood", "elm"], 4, False)
    assert reach(depth=4, max_nodes=3) == (["alder", "birch", "cedar"], 2, True)
    assert reach(depth=4, max_edges=1)[1:] == (1, True)
    assert reach(depth=4, direction="in") == (["alder"], 0, False)
    assert reach(depth=4, filters={"edge_types": []}) == (["alder"], 0, False)


@pytest.mark.parametrize("tool", ["get_node_neighbors", "get_subgraph"])
def test_an_unknown_node_is_not_found(place: Place, tool: str) -> None:
    arguments: dict[str, Any] = {"node_uuid": NOWHERE} if tool == "get_node_neighbors" else {"seed_node_uuids": [NOWHERE]}
    refused = place.ask(tool, **arguments)
    assert (refused.is_error, refused.json) == (True, {"message": f"node {NOWHERE} not found", "status": 404})


def test_shared_graphs_are_listed_searched_and_paged(wire: Wire) -> None:
    everything = wire.get("list_graphs")
    assert [g["graph_id"] for g in everything["graphs"]] == ["shared-notes", "shared-archive"]
    assert [g["graph_id"] for g in wire.get("list_graphs", search="ARCHIVE")["graphs"]] == ["shared-archive"]
    assert wire.get("list_graphs", search="nothing like it")["graphs"] == []
    second = wire.get("list_graphs", limit=1, page=2)
    assert ([g["graph_id"] for g in second["graphs"]], second["total_count"]) == (["shared-archive"], 2)
    wire.configure(shared_graphs={"atlas": "Atlas"})
    assert [g["graph_id"] for g in wire.get("list_graphs")["graphs"]] == ["atlas"]


def test_the_summary_follows_what_has_been_processed(bench: Bench, wire: Wire) -> None:
    assert wire.get("get_user_summary")["summary"] == ""
    wire.get("add_memory", data=FACT)
    assert wire.get("get_user_summary") == {"user_id": f"name of {wire.credential}", "summary": "", "episodes_pending": 1}
    bench.advance(DELAY)
    assert (wire.get("get_user_summary")["summary"], wire.get("get_user_summary")["episodes_pending"]) == (FACT, 0)


def test_a_read_only_grant_cannot_write(bench: Bench) -> None:
    with bench.open(consent=Consent(access="read")) as wire:
        for graph in (Place(wire), Place(wire, "shared-notes")):
            refused = graph.ask("add_memory", data=FACT)
            assert (refused.is_error, refused.json["status"]) == (True, 403)
            assert graph.search("episodes") == []


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("add_memory", {}),
        ("add_memory", {"data": ""}),
        ("add_memory", {"data": "x", "type": "csv"}),
        ("add_memory", {"data": "x", "extra": 1}),
        ("add_memory_to_graph", {"data": "x"}),
        ("search_graph", {"query": "x", "scope": "all"}),
        ("list_episodes", {"limit": 0}),
        ("get_subgraph", {"seed_node_uuids": []}),
        ("get_subgraph", {"seed_node_uuids": ["n"], "depth": "2"}),
        ("get_node_neighbors", {"node_uuid": "n", "filters": {"color": "red"}}),
        ("get_user_summary", {"user_id": "x"}),
        ("list_graphs", {"page": 0}),
        ("no_such_tool", {}),
    ],
)
def test_wrong_arguments_and_unknown_tools_are_protocol_errors(wire: Wire, tool: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(MCPError) as caught:
        wire.ask(tool, **arguments)
    assert caught.value.code == -32602
    assert tool in caught.value.message
    assert wire.get("list_episodes")["episodes"] == []


def test_an_internal_error_keeps_the_shape(wire: Wire) -> None:
    wire.configure(fail={"*": "down for repairs"})
    answer = wire.ask("get_user_summary")
    assert (answer.is_error, answer.json) == (True, {"message": "down for repairs", "status": 500})


def test_two_seats_share_nothing(bench: Bench, wire: Wire) -> None:
    wire.get("add_memory_to_graph", graph_id="shared-notes", data=FACT)
    with bench.open() as other:
        assert other.get("list_episodes_in", graph_id="shared-notes")["episodes"] == []


def test_a_stranger_is_pointed_at_the_resource_metadata(bench: Bench) -> None:
    answer = bench.http("POST", "/mcp", json={})
    assert answer.status_code == 401
    challenge = answer.headers["www-authenticate"]
    place = challenge.partition('resource_metadata="')[2].rstrip('"')
    metadata = bench.http("GET", place.removeprefix(bench.fake.base_url)).json()
    assert (metadata["resource"], metadata["scopes_supported"]) == (bench.fake.mcp_url, ["graph:read", "graph:write"])
    assert 'error="invalid_token"' in bench.http("POST", "/mcp", json={}, headers={"Authorization": "Bearer no"}).headers["www-authenticate"]


def _sentence(letters: str) -> st.SearchStrategy[str]:
    return st.lists(st.text(alphabet=letters, min_size=4, max_size=9), min_size=1, max_size=5).map(" ".join)


@settings(max_examples=10, deadline=None)
@given(
    texts=st.lists(_sentence(string.ascii_lowercase[:13]), min_size=1, max_size=4, unique=True),
    unrelated=_sentence(string.ascii_lowercase[14:]),
    shared=st.sampled_from([None, "shared-notes"]),
)
def test_episodes_are_created_listed_searched_and_derived(bench: Bench, texts: list[str], unrelated: str, shared: str | None) -> None:
    with bench.open(index_delay_s=DELAY) as wire:
        place = Place(wire, shared)
        added = [place.get("add_memory", data=text) for text in texts]
        assert len({episode["uuid"] for episode in added}) == len(texts)
        assert place.get("list_episodes", direction="asc")["episodes"] == added
        assert texts[0] in [hit["content"] for hit in place.search("episodes", texts[0])]
        assert place.search("nodes", texts[0]) == []
        bench.advance(DELAY)
        assert all(episode["processed"] for episode in place.get("list_episodes")["episodes"])
        assert place.search("nodes", texts[0]) != []
        for scope in ("episodes", "nodes", "edges"):
            assert place.search(scope, unrelated) == []
