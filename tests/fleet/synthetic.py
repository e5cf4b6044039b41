"""A synthetic fleet with a stated mix: 60 % unchanged, 20 % cosmetic, 15 % breaking, 5 % recursive. The seed decides which is which."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

TREE = {"type": "object", "properties": {"value": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}


def tools(number: int, per_server: int) -> list[dict[str, Any]]:
    properties = {"q": {"type": "string", "maxLength": 100 + number % 7}, "mode": {"enum": ["a", "b", "c"]}, "n": {"type": "integer", "minimum": 0}}
    return [
        {"name": f"tool_{index}", "description": f"Tool {index}.", "inputSchema": {"type": "object", "properties": properties, "required": ["q"]}}
        for index in range(per_server)
    ]


def changed(kind: str, tool: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(old, new) of a tool that changed in this way."""
    schema = tool["inputSchema"]
    if kind == "cosmetic":
        return tool, {**tool, "inputSchema": {"required": ["q"], **dict(reversed(schema.items()))}}
    if kind == "breaking":
        return tool, {**tool, "inputSchema": {**schema, "properties": {**schema["properties"], "mode": {"enum": ["a", "b"]}}}}
    old = {"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": TREE}}
    renamed = json.loads(json.dumps(TREE).replace("node", "tree"))
    new = {"type": "object", "properties": {"root": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": renamed}}
    return {**tool, "inputSchema": old}, {**tool, "inputSchema": new}


def kinds(count: int, seed: int) -> Iterator[str]:
    chance = random.Random(seed)
    for _ in range(count):
        yield chance.choices(("same", "cosmetic", "breaking", "recursive"), (60, 20, 15, 5))[0]


def write_fleet(folder: Path, count: int, *, per_server: int = 20, seed: int = 7) -> Path:
    """`count` servers, each with one changed tool of the kind that chance chose; answers servers.jsonl."""
    lines = []
    for number, kind in enumerate(kinds(count, seed)):
        before = tools(number, per_server)
        after = list(before)
        if kind != "same":
            before[0], after[0] = changed(kind, before[0])
        for side, listed in (("old", before), ("new", after)):
            (folder / f"{side}-{number}.json").write_text(json.dumps({"tools": listed}), encoding="utf-8")
        lines.append(json.dumps({"id": f"server-{number}", "old": f"old-{number}.json", "new": f"new-{number}.json"}) + "\n")
    path = folder / "servers.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    return path
