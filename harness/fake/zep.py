"""A stand-in for Zep's hosted memory MCP server: twelve tools over one user's graph and the graphs shared with that seat.

No source of the hosted server is public, so this one is built from its tool names and from what was observed: a raw
episode is searchable at once and is not yet processed, the derived graph follows. Provider refusals are error results with
{"message": …}; wrong arguments and unknown tools are JSON-RPC errors. No tool deletes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mcp.shared.exceptions import MCPError

from harness.fake import zep_schema as schema
from harness.fake.kit import Account, Challenge, JsonObject, Settings
from harness.fake.kit_mcp import INVALID_PARAMS, Call, ErrorStyle, Handler, McpProvider, Problem, Refusal, Reply, Tool
from harness.fake.kit_store import Ids, numbered_page, open_cursor, ranked, seal_cursor
from harness.fake.zep_graph import Edge, Episode, Filter, Graph, Node

_MAX_EPISODE = 10_000


@dataclass(frozen=True, slots=True)
class ZepSettings(Settings):
    """`shared_graphs`: id → name of the graphs a project administrator shared with this seat."""

    shared_graphs: dict[str, str] = field(default_factory=lambda: {"shared-notes": "Shared notes", "shared-archive": "Shared archive"})


class ZepStore:
    """One seat: its own graph, and its own copy of each shared graph."""

    def __init__(self, account: Account) -> None:
        self._ids = Ids("zep", account.credential)
        self.own = Graph(self._ids)
        self._shared: dict[str, Graph] = {}

    def shared(self, graph_id: str) -> Graph:
        return self._shared.setdefault(graph_id, Graph(self._ids))


def _refused(status: int, message: str) -> Reply:
    return Reply({"message": message, "status": status}, is_error=True)


def _graph(call: Call[ZepStore], args: JsonObject) -> Graph:
    """The graph a call is about, as of now: the shared one it names, else the user's own."""
    graph_id = args.get("graph_id")
    if graph_id is not None and graph_id not in call.settings.shared_graphs:
        raise Refusal(_refused(404, f"graph {graph_id} not found"))
    graph = call.store.own if graph_id is None else call.store.shared(graph_id)
    graph.settle(call.now)
    return graph


def _add(call: Call[ZepStore], args: JsonObject) -> JsonObject:
    if call.account.consent.access == "read":
        raise Refusal(_refused(403, "this grant lacks the scope graph:write"))
    graph = _graph(call, args)
    data = args["data"]
    if len(data) > _MAX_EPISODE:
        raise Refusal(_refused(400, f"data is longer than {_MAX_EPISODE} characters"))
    if args["type"] == "json":
        try:
            json.loads(data)
        except ValueError as problem:
            raise Refusal(_refused(400, "data is not JSON")) from problem
    return graph.add(data, args["type"], args.get("source_description"), call.now, call.ready_at).shown()


def _search(call: Call[ZepStore], args: JsonObject) -> JsonObject:
    graph, query, limit = _graph(call, args), args["query"], args["limit"]
    scopes: dict[str, Iterable[Episode | Node | Edge]] = {
        "episodes": graph.episodes,
        "nodes": graph.nodes.values(),
        "edges": graph.edges.values(),
    }
    hits = ranked(query, scopes[args["scope"]], lambda item: item.text)
    return {args["scope"]: [item.shown() | {"score": round(score, 4)} for score, item in hits[:limit]]}


def _cursor_page(items: Sequence[Any], args: JsonObject, kind: str) -> tuple[list[Any], str | None]:
    start = open_cursor(kind, args["cursor"]) if "cursor" in args else 0
    if start is None:
        raise Refusal(_refused(400, "this cursor does not belong to this list"))
    end = start + args["limit"]
    return list(items[start:end]), seal_cursor(kind, end) if end < len(items) else None


def _list_episodes(call: Call[ZepStore], args: JsonObject) -> JsonObject:
    graph = _graph(call, args)
    wanted = set(args.get("mentioned_node_uuids", []))
    episodes = [episode for episode in graph.episodes if not wanted or wanted & set(episode.mentions)]
    # created_at is the order of arrival, which also tells apart what arrived in the same instant
    ordered = sorted(episodes, key=lambda episode: episode.uuid) if args["order_by"] == "uuid" else episodes
    if args["direction"] == "desc":
        ordered = ordered[::-1]
    kind = json.dumps([args.get("graph_id"), "episodes", args["order_by"], args["direction"], sorted(wanted)])
    shown, following = _cursor_page(ordered, args, kind)
    return {"episodes": [episode.shown() for episode in shown], "next_cursor": following}


def _filter(args: JsonObject) -> Filter:
    chosen = args.get("filters", {})
    labels, edges = chosen.get("node_labels"), chosen.get("edge_types")
    return Filter(None if labels is None else frozenset(labels), None if edges is None else frozenset(edges))


def _known(graph: Graph, uuids: Sequence[str]) -> None:
    for uuid in uuids:
        if uuid not in graph.nodes:
            raise Refusal(_refused(404, f"node {uuid} not found"))


def _get_node_neighbors(call: Call[ZepStore], args: JsonObject) -> JsonObject:
    graph, node_uuid = _graph(call, args), args["node_uuid"]
    _known(graph, [node_uuid])
    steps = graph.steps(node_uuid, args["direction"], _filter(args))
    if args["order_by"] == "name":
        steps = sorted(steps, key=lambda step: graph.nodes[step[1]].name)
    if args["direction_sort"] == "desc":
        steps = steps[::-1]
    kind = json.dumps(["neighbors", {name: value for name, value in args.items() if name not in ("cursor", "limit")}], sort_keys=True)
    shown, following = _cursor_page(steps, args, kind)
    neighbors = [
        {"node": graph.nodes[other].shown(), "edge": edge.shown(), "direction": "out" if edge.source == node_uuid else "in"} for edge, other in shown
    ]
    return {"neighbors": neighbors, "next_cursor": following}


def _get_subgraph(call: Call[ZepStore], args: JsonObject) -> JsonObject:
    graph = _graph(call, args)
    _known(graph, args["seed_node_uuids"])
    most = (args["max_nodes"], args["max_edges"])
    nodes, edges, cut = graph.around(args["seed_node_uuids"], args["depth"], args["direction"], _filter(args), most)
    return {"nodes": [node.shown() for node in nodes], "edges": [edge.shown() for edge in edges], "truncated": cut}


def _list_graphs(call: Call[ZepStore], args: JsonObject) -> JsonObject:
    sought = args.get("search", "").casefold()
    shared = call.settings.shared_graphs.items()
    graphs = [{"graph_id": key, "name": name} for key, name in shared if sought in f"{key}\n{name}".casefold()]
    page = numbered_page(graphs, args["page"], args["limit"])
    return {"graphs": list(page.items), "page": page.number, "row_count": len(page.items), "total_count": page.total}


def _get_user_summary(call: Call[ZepStore], args: JsonObject) -> JsonObject:
    graph = _graph(call, args)
    facts = dict.fromkeys(edge.fact for edge in graph.edges.values())
    return {"user_id": call.account.name, "summary": " ".join(facts), "episodes_pending": sum(not e.processed for e in graph.episodes)}


_READ = {"readOnlyHint": True}
_WRITE = {"readOnlyHint": False, "destructiveHint": False}
_HERE = "your own graph"
_THERE = "a graph shared with you"


def _pair(name: str, twin: str, description: str, takes: JsonObject, handler: Handler[ZepStore], hints: dict[str, bool]) -> list[Tool[ZepStore]]:
    """A tool on the user's own graph, and its twin that names a shared one."""
    return [
        Tool(name, description.format(graph=_HERE), takes, handler, hints),
        Tool(twin, description.format(graph=_THERE), schema.in_graph(takes), handler, hints),
    ]


_TOOLS: tuple[Tool[ZepStore], ...] = (
    *_pair("add_memory", "add_memory_to_graph", "Store an episode in {graph}; facts are derived from it later.", schema.ADD, _add, _WRITE),
    *_pair("search_graph", "search_graph_in", "Search facts, entities or raw episodes of {graph}.", schema.SEARCH, _search, _READ),
    *_pair(
        "list_episodes",
        "list_episodes_in",
        "List the episodes of {graph}, newest first unless told otherwise.",
        schema.EPISODES,
        _list_episodes,
        _READ,
    ),
    *_pair(
        "get_node_neighbors",
        "get_node_neighbors_in",
        "List what one entity of {graph} is tied to.",
        schema.NEIGHBORS,
        _get_node_neighbors,
        _READ,
    ),
    *_pair("get_subgraph", "get_subgraph_in", "Walk {graph} outwards from some entities.", schema.SUBGRAPH, _get_subgraph, _READ),
    Tool("list_graphs", "List the graphs that were shared with you.", schema.GRAPHS, _list_graphs, _READ),
    Tool("get_user_summary", "Summarize what is known about you so far.", schema.NOTHING, _get_user_summary, _READ),
)


def _bad_arguments(tool: str, problems: Sequence[Problem]) -> Reply:
    listed = "; ".join(f"{p.at or '/'}: {p.message}" for p in problems)
    raise MCPError(INVALID_PARAMS, f'invalid params: validating arguments of "{tool}": {listed}')


def _unknown_tool(name: str) -> Reply:
    raise MCPError(INVALID_PARAMS, f'unknown tool "{name}"')


FAKE: McpProvider[ZepStore] = McpProvider(
    id="zep",
    server_name="zep-memory",
    version="stand-in",
    path="/mcp",
    instructions="A stand-in for Zep. Search before you answer, and store what is worth keeping. Your sign-in decides whose graph it is.",
    tools=_TOOLS,
    new_store=ZepStore,
    challenge=Challenge(
        "zep", {"message": "unauthorized"}, {"message": "invalid token"}, scopes=("graph:read", "graph:write"), issuer_path="/v1/oauth"
    ),
    errors=ErrorStyle(bad_arguments=_bad_arguments, unknown_tool=_unknown_tool, internal=lambda _tool, message: _refused(500, message)),
    settings=ZepSettings(index_delay_s=10.0),
    assumed_shapes=frozenset(tool.name for tool in _TOOLS) - {"get_user_summary"},
    page_size=5,
)
