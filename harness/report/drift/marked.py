"""JSON as lines, with those marked that a pointer leads to."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness.report.inert import DEEPEST, plain, to_json, visible

MOST_LINES = 2_000


def marked_lines(value: Any, pointers: Collection[str]) -> list[tuple[str, bool]]:
    """(line, marked) of `value`, indented by two; a pointer marks the value it leads to, or the nearest part that exists."""
    data = plain(value)
    found = {_nearest(data, pointer) for pointer in pointers}
    lines: list[tuple[str, bool]] = []
    for text, pointer in _lines(data, "", 0, "", ""):
        if len(lines) >= MOST_LINES:
            lines.append(("…", False))
            break
        lines.append((visible(text), any(pointer == mark or (mark and pointer.startswith(f"{mark}/")) for mark in found)))
    return lines


def _nearest(data: Any, pointer: str) -> str:
    reached = ""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(data, Mapping) and key in data:
            data = data[key]
        elif isinstance(data, list) and key.isdecimal() and int(key) < len(data):
            data = data[int(key)]
        else:
            break
        reached += f"/{token}"
    return reached


def _lines(value: Any, label: str, depth: int, pointer: str, end: str) -> Iterator[tuple[str, str]]:
    """(text, pointer) per line; the closing bracket belongs to its value."""
    pad = "  " * min(depth, DEEPEST)
    if isinstance(value, (dict, list)) and value:
        opened, closed = ("{", "}") if isinstance(value, dict) else ("[", "]")
        yield f"{pad}{label}{opened}", pointer
        entries = list(value.items()) if isinstance(value, dict) else [(str(index), item) for index, item in enumerate(value)]
        for position, (key, item) in enumerate(entries):
            name = f"{to_json(key)}: " if isinstance(value, dict) else ""
            step = key.replace("~", "~0").replace("/", "~1")
            yield from _lines(item, name, depth + 1, f"{pointer}/{step}", "," if position + 1 < len(entries) else "")
        yield f"{pad}{closed}{end}", pointer
    else:
        yield f"{pad}{label}{to_json(value)}{end}", pointer
