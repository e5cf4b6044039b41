"""What the Zep stand-in's tools accept. One shape of twelve is known from outside; the others hold the listed names only."""

from __future__ import annotations

from harness.fake.kit import JsonObject

_TEXT: JsonObject = {"type": "string", "minLength": 1}
_QUERY: JsonObject = {"type": "string", "minLength": 1, "maxLength": 400}
_CURSOR: JsonObject = {"type": "string"}
_UUIDS: JsonObject = {"type": "array", "items": _TEXT}
_FILTERS: JsonObject = {
    "type": "object",
    "properties": {
        "node_labels": {"type": "array", "items": {"type": "string"}},
        "edge_types": {"type": "array", "items": {"type": "string"}},
    },
    "additionalProperties": False,
}


def _one_of(*words: str) -> JsonObject:
    return {"type": "string", "enum": list(words), "default": words[0]}


def _number(least: int, most: int, default: int) -> JsonObject:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


def _closed(*required: str, **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def in_graph(schema: JsonObject) -> JsonObject:
    """The same with a required graph_id: the schema of a tool's _in or _to_graph twin."""
    return schema | {"properties": {"graph_id": _TEXT, **schema["properties"]}, "required": ["graph_id", *schema["required"]]}


NOTHING: JsonObject = {"type": "object", "additionalProperties": False}
ADD = _closed("data", data=_TEXT, type=_one_of("text", "json", "message"), source_description={"type": "string"})
SEARCH = _closed("query", query=_QUERY, scope=_one_of("edges", "nodes", "episodes"), limit=_number(1, 50, 10))
GRAPHS = _closed(page=_number(1, 10_000, 1), limit=_number(1, 100, 20), search={"type": "string"})
EPISODES = _closed(
    limit=_number(1, 100, 20),
    cursor=_CURSOR,
    order_by=_one_of("created_at", "uuid"),
    direction=_one_of("desc", "asc"),
    mentioned_node_uuids=_UUIDS,
)
NEIGHBORS = _closed(
    "node_uuid",
    node_uuid=_TEXT,
    direction=_one_of("both", "in", "out"),
    order_by=_one_of("created_at", "name"),
    direction_sort=_one_of("desc", "asc"),
    filters=_FILTERS,
    limit=_number(1, 100, 20),
    cursor=_CURSOR,
)
SUBGRAPH = _closed(
    "seed_node_uuids",
    seed_node_uuids=_UUIDS | {"minItems": 1, "maxItems": 20},
    depth=_number(1, 4, 1),
    direction=_one_of("both", "in", "out"),
    filters=_FILTERS,
    max_nodes=_number(1, 500, 50),
    max_edges=_number(1, 1000, 100),
)
