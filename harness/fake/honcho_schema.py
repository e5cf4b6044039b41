"""Honcho's forty tools as data: name, one sentence in our own words, and the input schema.

The schemas are built from the verified shapes of the published inventory; Honcho itself is AGPL, so neither its
text nor its code is repeated here. Two tools have no verified shape: see `ASSUMED_SHAPES`.
"""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]

_DIALECT: Final = "http://json-schema.org/draft-07/schema#"
_LARGEST: Final = 2**53 - 1  # the largest integer that JavaScript counts exactly

TEXT: Final[Schema] = {"type": "string"}
NUMBER: Final[Schema] = {"type": "number"}
FLAG: Final[Schema] = {"type": "boolean"}
MAYBE: Final[Schema] = {"anyOf": [{"type": "boolean"}, {"type": "null"}]}
RECORD: Final[Schema] = {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {}}
PAGES: Final[dict[str, Schema]] = {
    "page": {"type": "integer", "minimum": 1, "maximum": _LARGEST},
    "size": {"type": "integer", "minimum": 1, "maximum": 100},
}
EFFORTS: Final = ("minimal", "low", "medium", "high", "max")


def _object(properties: dict[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    return {"type": "object", "properties": properties, **({"required": list(required)} if required else {})}


def _list_of(item: Schema, least: int = 0, most: int = 0) -> Schema:
    bounds = {"minItems": least, "maxItems": most} if most else {}
    return {**bounds, "type": "array", "items": item}


def _tool(required: str = "", /, **properties: Schema) -> Schema:
    """The schema of one tool: `workspace_id` (every tool takes it but the list of workspaces) and the given properties."""
    return {"$schema": _DIALECT, **_object({"workspace_id": TEXT, **properties}, tuple(required.split()))}


_TWO: Final[dict[str, Schema]] = {"peer_id": TEXT, "target_peer_id": TEXT}
_MESSAGE: Final = _object({"peer_id": TEXT, "content": TEXT, "metadata": RECORD}, ("peer_id", "content"))
_SEAT: Final = _object({"peer_id": TEXT, "observe_me": MAYBE, "observe_others": MAYBE}, ("peer_id",))
_IDS: Final = _list_of(TEXT, 1, 100)
_EFFORT: Final[Schema] = {"type": "string", "enum": list(EFFORTS)}

ASSUMED_SHAPES: Final = frozenset({"chat", "workspace_chat"})
"""Tools whose published shape is unknown: the parameters are the published ones, their types are our guess."""

TOOLS: Final[dict[str, tuple[str, Schema]]] = {
    "list_workspaces": ("Page through the workspaces of this account.", {"$schema": _DIALECT, **_object(PAGES)}),
    "create_workspace": ("Make sure that a workspace exists, and set its metadata if any is given.", _tool(metadata=RECORD)),
    "inspect_workspace": ("Describe one workspace: its metadata, peers, sessions and scopes.", _tool()),
    "get_metadata": ("Read the metadata of a workspace, or of one peer or session in it.", _tool(peer_id=TEXT, session_id=TEXT)),
    "set_metadata": (
        "Replace the metadata of a workspace, or of one peer or session in it.",
        _tool("metadata", metadata=RECORD, peer_id=TEXT, session_id=TEXT),
    ),
    "get_queue_status": ("Count the background work of a workspace: done, running and waiting.", _tool()),
    "create_peer": (
        "Make sure that a peer exists, and set its configuration if one is given.",
        _tool("peer_id", peer_id=TEXT, configuration=_object({"observeMe": MAYBE})),
    ),
    "list_peers": ("List the peers of a workspace.", _tool()),
    "get_peer_card": ("Read the short facts that one peer holds about itself or another.", _tool("peer_id", **_TWO)),
    "set_peer_card": (
        "Replace the short facts that one peer holds about itself or another.",
        _tool("peer_id peer_card", peer_id=TEXT, peer_card=_list_of(TEXT), target_peer_id=TEXT),
    ),
    "get_peer_context": (
        "Give one peer's card and representation of itself or another, ready to be put before a model.",
        _tool("peer_id", **_TWO, search_query=TEXT, max_conclusions=NUMBER),
    ),
    "get_representation": (
        "Render as text what one peer has concluded about itself or another.",
        _tool("peer_id", **_TWO, session_id=TEXT, search_query=TEXT, max_conclusions=NUMBER),
    ),
    "create_session": ("Make sure that a session exists.", _tool("session_id", session_id=TEXT)),
    "list_sessions": ("Page through the sessions of a workspace, oldest first unless reversed.", _tool(**PAGES, reverse=FLAG)),
    "inspect_session": ("Describe one session: its metadata, peers and number of messages.", _tool("session_id", session_id=TEXT)),
    "delete_session": ("Remove a session with its messages, for good.", _tool("session_id", session_id=TEXT)),
    "clone_session": (
        "Copy a session under a new id, whole or up to and with one message.",
        _tool("session_id", session_id=TEXT, message_id=TEXT),
    ),
    "add_peers_to_session": (
        "Seat peers in a session, each by its id or with what it observes.",
        _tool("session_id peers", session_id=TEXT, peers=_list_of({"anyOf": [TEXT, _SEAT]})),
    ),
    "get_session_peers": ("List the peers that sit in a session.", _tool("session_id", session_id=TEXT)),
    "remove_peers_from_session": (
        "Take peers out of a session; their messages stay.",
        _tool("session_id peer_ids", session_id=TEXT, peer_ids=_list_of(TEXT)),
    ),
    "add_messages_to_session": (
        "Append messages to a session, in order.",
        _tool("session_id messages", session_id=TEXT, messages=_list_of(_MESSAGE)),
    ),
    "get_session_messages": (
        "Page through the messages of a session, oldest first unless reversed.",
        _tool("session_id", session_id=TEXT, filters=RECORD, **PAGES, reverse=FLAG),
    ),
    "get_session_message": ("Read one message.", _tool("session_id message_id", session_id=TEXT, message_id=TEXT)),
    "get_session_context": (
        "Give the newest messages of a session that fit a token budget, with a summary if there is one.",
        _tool("session_id", session_id=TEXT, summary=FLAG, tokens=NUMBER),
    ),
    "search": (
        "Find messages and conclusions by their words, in a workspace, a session or of one peer.",
        _tool(
            "query",
            query=TEXT,
            peer_id=TEXT,
            session_id=TEXT,
            message_limit=NUMBER,
            message_filters=RECORD,
            conclusion_top_k=NUMBER,
            conclusion_filters=RECORD,
        ),
    ),
    "create_conclusions": (
        "Record what one peer concludes about another.",
        _tool("peer_id target_peer_id conclusions", **_TWO, conclusions=_list_of(TEXT), session_id=TEXT),
    ),
    "list_conclusions": (
        "Page through what one peer has concluded about itself or another.",
        _tool("peer_id", **_TWO, session_id=TEXT, filters=RECORD, **PAGES, reverse=FLAG),
    ),
    "query_conclusions": (
        "Find what one peer has concluded about itself or another, by its words.",
        _tool("peer_id query", peer_id=TEXT, query=TEXT, target_peer_id=TEXT, top_k=NUMBER, filters=RECORD),
    ),
    "get_conclusions": ("Read conclusions by their ids.", _tool("conclusion_ids", conclusion_ids=_IDS)),
    "get_derived_conclusions": (
        "Page through the conclusions that were drawn from a given one.",
        _tool("conclusion_id", conclusion_id=TEXT, **PAGES),
    ),
    "delete_conclusion": (
        "Remove one conclusion of one peer about another, for good.",
        _tool("peer_id target_peer_id conclusion_id", **_TWO, conclusion_id=TEXT),
    ),
    "schedule_dream": (
        "Queue a consolidation of what one peer has concluded about itself or another.",
        _tool("peer_id", **_TWO, session_id=TEXT),
    ),
    "create_scope": (
        "Make sure that a scope (a named set of sessions) exists, and set its metadata if any is given.",
        _tool("scope_id", scope_id=TEXT, metadata=RECORD),
    ),
    "list_scopes": ("Page through the scopes of a workspace.", _tool(**PAGES)),
    "get_scope_status": ("Tell how far the sessions of a scope have been worked through.", _tool("scope_id", scope_id=TEXT)),
    "get_scope_sessions": ("Page through the sessions of a scope.", _tool("scope_id", scope_id=TEXT, **PAGES)),
    "add_sessions_to_scope": ("Put sessions into a scope.", _tool("scope_id session_ids", scope_id=TEXT, session_ids=_IDS)),
    "remove_session_from_scope": (
        "Take one session out of a scope; the session stays.",
        _tool("scope_id session_id", scope_id=TEXT, session_id=TEXT),
    ),
    "chat": (
        "Answer a question about a peer from the messages that were stored.",
        _tool(
            "peer_id query",
            **_TWO,
            query=TEXT,
            session_id=TEXT,
            sessions=_list_of(TEXT),
            scope=TEXT,
            reasoning_level=_EFFORT,
            include_evidence=FLAG,
        ),
    ),
    "workspace_chat": (
        "Answer a question about a whole workspace from the messages that were stored.",
        _tool("query", query=TEXT, session_id=TEXT, scope=TEXT, reasoning_level=_EFFORT, include_evidence=FLAG),
    ),
}
