"""Schema bombs: what is too deep, too large, circular or too expensive to match is refused before anything else reads it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.drift.document import IN_PLACE, LISTS, MAPS, SINGLES, Document, Schema, normalise
from harness.drift.linear import matcher
from harness.drift.refused import Refused
from harness.drift.regex import NotRegular
from harness.inventory.walk import NAMED, escape

MAX_DEPTH = 32  # schemas below schemas
MAX_JSON_DEPTH = 128  # the same, counted in JSON levels; also what `default` and `enum` may hold
MAX_NODES = 5_000  # JSON objects and arrays
MAX_BYTES = 256 * 1024

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_NODES", "admitted", "check_pattern", "check_size"]


def admitted(schema: Any, draft: int | None = None) -> Document:
    """The normalised schema. Raises Refused when it must not be read further, saying where and why."""
    check_size(schema)
    document = normalise(schema, draft)
    _check_progress(document)
    for pattern in _patterns(document):
        check_pattern(pattern)
    return document


def check_size(schema: Any) -> None:
    """Depth, nodes and bytes, without recursion, so that the check itself cannot be made to fail. Raises Refused."""
    nodes = size = 0
    stack: list[tuple[Any, int, int, str, str]] = [(schema, 1, 0, "", "schema")]
    while stack:
        value, level, depth, pointer, kind = stack.pop()
        if isinstance(value, str):
            size += len(value.encode("utf-8", "surrogatepass")) + 2
        elif isinstance(value, (Mapping, list, tuple)):
            nodes += 1
            depth += kind == "schema" and isinstance(value, Mapping)
            if depth > MAX_DEPTH or level > MAX_JSON_DEPTH:
                raise Refused("too-deep", pointer[:200], f"more than {MAX_DEPTH} schemas or {MAX_JSON_DEPTH} levels deep")
            if nodes > MAX_NODES:
                raise Refused("too-many-nodes", pointer[:200], f"more than {MAX_NODES} objects and lists")
            size += 2
            for key, child, below in _children(value, kind):
                size += len(key) + 4
                stack.append((child, level + 1, depth, f"{pointer}/{escape(key)}", below))
        elif isinstance(value, (int, float)):
            size += 1 + (len(repr(value)) if isinstance(value, float) else value.bit_length() // 3)
        else:
            size += 5
        if size > MAX_BYTES:
            raise Refused("too-large", pointer[:200], f"more than {MAX_BYTES} bytes")


def _children(value: Any, kind: str) -> Iterator[tuple[str, Any, str]]:
    """(key, child, kind of child): a "schema", a "map" from names to schemas, or "data", such as what stands in `default`."""
    if not isinstance(value, Mapping):
        yield from ((str(index), child, kind) for index, child in enumerate(value))
        return
    for key, child in value.items():
        if kind == "data" or (kind == "schema" and key in ("default", "const", "enum", "examples")):
            yield str(key), child, "data"
        else:
            yield str(key), child, "map" if kind == "schema" and key in NAMED else "schema"


def check_pattern(pattern: Any) -> None:
    """Raises Refused for a pattern that cannot be matched in linear time and bounded memory."""
    if not isinstance(pattern, str):
        raise Refused("broken-pattern", "", "a pattern must be text")
    try:
        matcher(pattern)
    except NotRegular as error:
        raise Refused("catastrophic-pattern", "", f"pattern {pattern[:80]!r} cannot be matched in linear time: {error}") from error


def _patterns(document: Document) -> set[str]:
    out: set[str] = set()
    stack: list[Any] = [document.root, *document.defs.values()]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if "pattern" in node:
                out.add(node["pattern"])
            out.update(node.get("patternProperties", {}))
            stack += [child for _, child in below(node)]
    return out


def below(node: Mapping[str, Any]) -> Iterator[tuple[str, Schema]]:
    """(keyword, subschema) of everything directly inside a normalised schema."""
    for keyword, value in node.items():
        if keyword in SINGLES:
            yield keyword, value
        elif keyword in LISTS:
            for child in value:
                yield keyword, child
        elif keyword in MAPS:
            for child in value.values():
                yield keyword, child


def _check_progress(document: Document) -> None:
    """A reference that comes back to itself at the same value never ends."""

    def in_place(node: Schema) -> Iterator[str]:
        stack = [node]
        while stack:
            here = stack.pop()
            if isinstance(here, bool):
                continue
            if "$ref" in here:
                yield here["$ref"].rpartition("/")[2]
            stack += [child for keyword, child in below(here) if keyword in IN_PLACE or keyword == "dependentSchemas"]

    for name in document.defs:
        seen: set[str] = set()
        stack = list(in_place(document.defs[name]))
        while stack:
            here = stack.pop()
            if here == name:
                raise Refused("reference-loop", "", "a $ref leads back to itself without going into the value")
            if here not in seen:
                seen.add(here)
                stack += in_place(document.defs[here])
