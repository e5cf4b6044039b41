"""Papr's seven reviewed tools. Their hashes are part of what was agreed, so a word more or less in a schema is a change of contract.

What Papr's document lets be null is left out instead: an agent that has nothing to say about a field says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MAX_CONTENT_BYTES = 15_000
MAX_BATCH = 50
LEAST_RESULTS, MOST_RESULTS = 10, 50
DEFAULT_MEMORIES, DEFAULT_NODES = 20, 15
DEFAULT_BATCH_SIZE = 10
TYPES = ("text", "code_snippet", "document")
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "user": ("preference", "task", "goal", "facts", "context"),
    "assistant": ("skills", "learning"),
}
"""Who said it → what kinds of memory that can be."""

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean", "default": False}
_OBJECT: Schema = {"type": "object"}
_TEXTS: Schema = {"type": "array", "items": _TEXT}
_TEXT_OR_TEXTS: Schema = {"anyOf": [_TEXT, _TEXTS]}


def _object(properties: Mapping[str, Any], required: tuple[str, ...] = (), *, more: bool = False) -> Schema:
    schema: Schema = {"type": "object", "properties": dict(properties)}
    if required:
        schema["required"] = list(required)
    return schema if more else {**schema, "additionalProperties": False}


def _array(items: Schema, **bounds: int) -> Schema:
    return {"type": "array", "items": items, **bounds}


def _number(least: int, most: int, default: int) -> Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "default": default}


# A character is at least one byte, so a text of more characters than this is too long whatever it says; the bytes are counted by the bridge.
_CONTENT: Schema = {"type": "string", "minLength": 1, "maxLength": MAX_CONTENT_BYTES}
_TYPE: Schema = {"type": "string", "enum": list(TYPES)}
_METADATA = _object(
    {
        "role": {"type": "string", "enum": list(CATEGORIES)},
        "category": {"type": "string", "enum": [name for names in CATEGORIES.values() for name in names]},
        **dict.fromkeys(("createdAt", "conversationId", "location", "sourceUrl", "user_id", "external_user_id"), _TEXT),
        **dict.fromkeys(("external_user_read_access", "external_user_write_access"), _TEXTS),
        **dict.fromkeys(("topics", "emoji_tags", "emotion_tags", "emoji tags", "emotion tags"), _TEXT_OR_TEXTS),
        "hierarchical_structures": {"anyOf": [_TEXT, {"type": "array"}]},
        "customMetadata": _OBJECT,
    },
    more=True,
)
_CONTEXT = _array(_object({"role": {"type": "string", "enum": list(CATEGORIES)}, "content": _TEXT}, ("role", "content")))
_RELATIONSHIPS = _array(
    _object(
        {
            **dict.fromkeys(("relation_type", "related_item_id", "related_item_type"), _TEXT),
            "relationship_type": {"type": "string", "enum": ["previous_memory_item_id", "all_previous_memory_items", "link_to_id"]},
            "metadata": _OBJECT,
        },
        ("relation_type",),
    )
)
_GRAPH = _object(
    {
        "mode": {"type": "string", "enum": ["auto", "manual"]},
        "auto": _object(
            {
                "schema_id": _TEXT,
                "property_overrides": _array(_object({"nodeLabel": _TEXT, "set": _OBJECT, "match": _OBJECT}, ("nodeLabel", "set"))),
            }
        ),
        "manual": _object(
            {
                "nodes": _array(_object({"id": _TEXT, "label": _TEXT, "properties": _OBJECT}, ("id", "label", "properties"))),
                "relationships": _array(
                    _object(
                        {**dict.fromkeys(("relationship_type", "source_node_id", "target_node_id"), _TEXT), "properties": _OBJECT},
                        ("relationship_type", "source_node_id", "target_node_id"),
                    )
                ),
            },
            ("nodes",),
        ),
    }
)
_OVERRIDE = _object(
    {
        "pattern": _object(
            dict.fromkeys(("source_label", "relationship_type", "target_label", "direction"), _TEXT),
            ("source_label", "relationship_type", "target_label"),
        ),
        "filters": _array(
            _object(
                {
                    **dict.fromkeys(("node_type", "property_name", "operator"), _TEXT),
                    "value": {"anyOf": [_TEXT, _TEXTS, {"type": "number"}, {"type": "boolean"}]},
                },
                ("node_type", "property_name", "operator", "value"),
            )
        ),
        "return_properties": _TEXTS,
    },
    ("pattern",),
)
_TENANCY = {"organization_id": _TEXT, "namespace_id": _TEXT}
_USER = {"user_id": _TEXT, "external_user_id": _TEXT}
_ITEM = {
    "content": _CONTENT,
    "type": {**_TYPE, "default": "text"},
    "metadata": _METADATA,
    "context": _CONTEXT,
    "relationships_json": _RELATIONSHIPS,
    "graph_generation": _GRAPH,
    **_TENANCY,
}


def _tool(name: str, description: str, schema: Schema) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema}


TOOLS: list[dict[str, Any]] = [
    _tool(
        "add_memory",
        f"Store one memory of at most {MAX_CONTENT_BYTES} bytes. Without a user it is the account's own.",
        _object({**_ITEM, **_USER, "skip_background_processing": _FLAG}, ("content",)),
    ),
    _tool(
        "update_memory",
        "Change a memory: its content, type, metadata, context or relationships.",
        _object(
            {
                "memory_id": _TEXT,
                "content": _CONTENT,
                "type": _TYPE,
                "metadata": _METADATA,
                "context": _CONTEXT,
                "relationships_json": _RELATIONSHIPS,
                **_TENANCY,
            },
            ("memory_id",),
        ),
    ),
    _tool("delete_memory", "Delete one memory for good.", _object({"memory_id": _TEXT, "skip_parse": _FLAG}, ("memory_id",))),
    _tool("get_memory", "Read one memory by its id.", _object({"memory_id": _TEXT}, ("memory_id",))),
    _tool(
        "add_memory_batch",
        f"Store 1 to {MAX_BATCH} memories of one user. An answer with status partial lists what failed under errors, by its index.",
        _object(
            {
                "memories": _array(_object(_ITEM, ("content",)), minItems=1, maxItems=MAX_BATCH),
                **_USER,
                **_TENANCY,
                "graph_generation": _GRAPH,
                "batch_size": _number(1, MAX_BATCH, DEFAULT_BATCH_SIZE),
                "webhook_url": _TEXT,
                "webhook_secret": _TEXT,
                "skip_background_processing": _FLAG,
            },
            ("memories",),
        ),
    ),
    _tool(
        "delete_all_memories",
        "Delete every memory of one user for good. The user must be named: user_id, or external_user_id.",
        _object({**_USER, "skip_parse": _FLAG}),
    ),
    _tool(
        "search_memory",
        "Search memories of a user (user_id wins over external_user_id), or, without one, the account's own.",
        _object(
            {
                "query": {"type": "string", "minLength": 1},
                "max_memories": _number(LEAST_RESULTS, MOST_RESULTS, DEFAULT_MEMORIES),
                "max_nodes": _number(LEAST_RESULTS, MOST_RESULTS, DEFAULT_NODES),
                "rank_results": _FLAG,
                "enable_agentic_graph": _FLAG,
                **_USER,
                **_TENANCY,
                "schema_id": _TEXT,
                "simple_schema_mode": _FLAG,
                "metadata": _METADATA,
                "search_override": _OVERRIDE,
            },
            ("query",),
        ),
    ),
]
