"""Replacing single values in a JSON text, byte for byte the same elsewhere: nothing is spelt anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

_DECODE = json.JSONDecoder()


def spelt(value: Any) -> str:
    """The key of a value in the tables of `replaced`."""
    return json.dumps(value)


def spans(text: str, start: int = 0) -> dict[str, tuple[int, int]] | None:
    """Key → where its value stands, of the object that begins at `start`; None when there is none. The last of two equal keys counts."""
    found: dict[str, tuple[int, int]] = {}
    at = _blank(text, start)
    if text[at : at + 1] != "{":
        return None
    at = _blank(text, at + 1)
    try:
        while text[at : at + 1] == '"':
            key, at = _DECODE.raw_decode(text, at)
            at = _blank(text, at)
            begin = _blank(text, at + 1)
            _, end = _DECODE.raw_decode(text, begin)
            found[key] = (begin, end)
            at = _blank(text, end)
            at = _blank(text, at + 1) if text[at : at + 1] == "," else at
    except (ValueError, RecursionError):
        return None
    return found


def replaced(text: str, found: Mapping[str, tuple[int, int]], path: Iterable[str], table: Mapping[str, Any]) -> str:
    """`text` with the value at `path` replaced, if `table` has another for it. `found`: the spans of the outermost object."""
    here: Mapping[str, tuple[int, int]] | None = found
    span: tuple[int, int] | None = None
    for key in path:
        if here is None or key not in here:
            return text
        span = here[key]
        here = spans(text, span[0]) if text[span[0]] == "{" else None
    if span is None:
        return text
    recorded = spelt(_DECODE.raw_decode(text, span[0])[0])
    return text[: span[0]] + json.dumps(table[recorded]) + text[span[1] :] if recorded in table else text


def _blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at
