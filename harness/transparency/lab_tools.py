"""What the laboratory's provider lists and answers. Its words are its own; each tool is there for one thing that gateways change."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any

Wire = dict[str, Any]

WAITS = "wait_here"
MODES = ["exact", "semantic"]
WIDER = [*MODES, "hybrid"]
STEPS: tuple[Mapping[str, Any], ...] = (
    {"progress": 1, "total": 3, "message": "one"},
    {"progress": 2, "total": 3, "message": "two"},
    {"progress": 3, "total": 3, "message": "three"},
)
FAILS_HARD = {"code": -32050, "message": "quota is used up", "data": {"quota": 7, "retry": False}}
UNKNOWN = {"code": -32602, "message": "no such tool here", "data": {"from": "lab-provider"}}
LOCKED = "memory 7 is locked"
PIXEL = base64.b64encode(b"\x89PNG synthetic").decode()
SOUND = base64.b64encode(b"RIFF synthetic").decode()

CONTENTS: Mapping[str, Wire] = {
    "text": {
        "type": "text",
        "text": "plain \u2028 words \U0001f9ed",
        "annotations": {"audience": ["user"], "priority": 0.5},
        "_meta": {"lab/part": 1},
    },
    "image": {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    "audio": {"type": "audio", "data": SOUND, "mimeType": "audio/wav"},
    "resource_link": {"type": "resource_link", "uri": "lab://note/1", "name": "note", "title": "A note", "mimeType": "text/plain", "size": 12},
    "resource": {"type": "resource", "resource": {"uri": "lab://note/1", "mimeType": "text/plain", "text": "embedded"}},
}

MEMORY_OUT = {"type": "object", "properties": {"memory": {"type": "string"}}, "required": ["memory"]}


def lab_tools() -> list[Wire]:
    """Twelve tools, hence three pages."""
    return copy.deepcopy(_TOOLS)


def named(*names: str) -> list[Wire]:
    """Plain tools of these names: for what gateways do to names."""
    return [{"name": name, "inputSchema": {"type": "object"}} for name in names]


def with_modes(tools: list[Wire], modes: list[str]) -> list[Wire]:
    """The same tools; search_memories accepts these modes."""
    changed = copy.deepcopy(tools)
    for tool in changed:
        if tool["name"] == "search_memories":
            tool["inputSchema"]["properties"]["mode"]["enum"] = list(modes)
    return changed


def answer_of(tool: str, arguments: Mapping[str, Any]) -> Wire:
    """The result of a call; nothing that is asked for is refused."""
    if tool == "show":
        return _result([dict(CONTENTS.get(str(arguments.get("kind")), CONTENTS["text"]))])
    if tool == "read_note":
        return {**_result([_text('{"memory": "a compass", "score": 0.25}')], structured={"memory": "a compass", "score": 0.25})}
    if tool == "tagged":
        return {**_result([_text(tag_of(arguments))]), "_meta": {"lab/trace": "t-1"}}
    if tool == "fail_softly":
        return {**_result([_text("the disk is full"), _text("try again tomorrow")]), "isError": True}
    if tool == "locked_memory":
        return {**_result([_text(LOCKED)]), "isError": True}
    return _result([_text("done")])


def tag_of(arguments: Mapping[str, Any]) -> str:
    """What `tagged` answers: the call's own mark, where it has one. So an answer that is another call's shows."""
    mark = arguments.get("mark")
    return "tagged" if mark is None else f"tagged {mark}"


def _result(content: list[Wire], structured: Any = None) -> Wire:
    return {"content": content, **({"structuredContent": structured} if structured is not None else {}), "isError": False}


def _text(text: str) -> Wire:
    return {"type": "text", "text": text}


_OBJECT: Wire = {"type": "object", "properties": {}}
_TOOLS: list[Wire] = [
    {
        "name": "read_note",
        "title": "Read a note",
        "description": "Reads one note.",
        "inputSchema": {"type": "object", "properties": {"id": {"type": "string", "description": "Which one."}}, "additionalProperties": False},
        "outputSchema": {
            "type": "object",
            "properties": {"memory": {"type": "string"}, "score": {"type": "number"}},
            "required": ["memory"],
        },
        "annotations": {"title": "Read (annotated)", "readOnlyHint": True, "openWorldHint": False},
        "_meta": {"lab/kind": "reader"},
    },
    {
        "name": "add_memory",
        "description": "Stores what it is given.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "count": {"type": "integer", "minimum": 0},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
                "filters": {"type": "object", "additionalProperties": True},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
        "annotations": {"readOnlyHint": False, "destructiveHint": False, "idempotentHint": False},
    },
    {
        "name": "delete_everything",
        "description": "Deletes everything, and says that it only reads.",
        "inputSchema": _OBJECT,
        "annotations": {"readOnlyHint": True},
    },
    {"name": "show", "inputSchema": {"type": "object", "properties": {"kind": {"type": "string"}}}},
    {"name": "tagged", "title": "Tagged", "inputSchema": _OBJECT},
    {"name": "fail_softly", "inputSchema": _OBJECT},
    {"name": "fail_hard", "inputSchema": _OBJECT},
    {"name": "locked_memory", "inputSchema": {"type": "object"}, "outputSchema": MEMORY_OUT},
    {"name": "bare_memory", "inputSchema": {"type": "object"}, "outputSchema": MEMORY_OUT},
    {
        "name": "search_memories",
        "description": "Searches in one of its modes.",
        "inputSchema": {"type": "object", "properties": {"mode": {"enum": MODES}, "query": {"type": "string"}}},
        "annotations": {"title": "Search (annotated only)", "readOnlyHint": True, "destructiveHint": False},
    },
    {"name": "count_up", "inputSchema": _OBJECT},
    {"name": WAITS, "inputSchema": _OBJECT},
]
