"""The prose-free shape of a schema: what decides which calls are accepted, without any text a vendor or tenant wrote."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from harness.inventory.walk import ANNOTATIONS, LISTED, NAMED, SINGLE, escape, schemas

_SEALED = re.compile(r"sha256:[0-9a-f]{64}\Z")


def shape(schema: Any) -> dict[str, Any]:
    """`schema` without annotation keywords in schema position; `{}` when it is no object.

    A property that is *named* `title` stays, and so does everything inside `default`, `const` and `enum`.
    """
    return _rebuild(schema, _without_annotations) if isinstance(schema, Mapping) else {}


def seal_defaults(shaped: Any, reviewed: frozenset[str] = frozenset()) -> dict[str, Any]:
    """A shape fit for an inventory: each text inside a `default` becomes `sha256:<hex>`, unless its pointer is in `reviewed`.

    Defaults can carry tenant names. Sealing twice changes nothing.
    """
    if not isinstance(shaped, Mapping):
        return {}
    return _rebuild(shaped, lambda node, pointer: _seal_node(node, pointer, reviewed))


def open_defaults(shaped: Any) -> tuple[str, ...]:
    """Pointers of `default`s that still hold text in clear."""
    return tuple(f"{pointer}/default" for pointer, node in schemas(shaped) if "default" in node and seal_texts(node["default"]) != node["default"])


def has_sealed_default(shaped: Any) -> bool:
    """Whether some default is sealed, so that `shape_hash` cannot be recomputed from this shape."""
    return any("default" in node and _holds_seal(node["default"]) for _, node in schemas(shaped))


def prose_parts(schema: Any) -> Iterator[tuple[str, Any]]:
    """(pointer, value) of each annotation keyword that `shape` removes."""
    for pointer, node in schemas(schema):
        for keyword in node:
            if keyword in ANNOTATIONS:
                yield f"{pointer}/{escape(keyword)}", node[keyword]


def _rebuild(node: Mapping[str, Any], change: Callable[[Mapping[str, Any], str], dict[str, Any]], pointer: str = "") -> dict[str, Any]:
    """`node` with `change` applied at every schema position, top down. Depth is bounded by the parser."""

    def below(value: Any, step: str) -> Any:
        return _rebuild(value, change, pointer + step) if isinstance(value, Mapping) else value

    out = change(node, pointer)
    for keyword, value in out.items():
        at = f"/{escape(keyword)}"
        if keyword in NAMED and isinstance(value, Mapping):
            out[keyword] = {name: below(child, f"{at}/{escape(name)}") for name, child in value.items()}
        elif keyword in LISTED and isinstance(value, list):
            out[keyword] = [below(child, f"{at}/{index}") for index, child in enumerate(value)]
        elif keyword in SINGLE:
            out[keyword] = below(value, at)
    return out


def _without_annotations(node: Mapping[str, Any], _pointer: str) -> dict[str, Any]:
    return {keyword: value for keyword, value in node.items() if keyword not in ANNOTATIONS}


def _seal_node(node: Mapping[str, Any], pointer: str, reviewed: frozenset[str]) -> dict[str, Any]:
    out = dict(node)
    if "default" in out and f"{pointer}/default" not in reviewed:
        out["default"] = seal_texts(out["default"])
    return out


def seal_texts(value: Any) -> Any:
    """Any JSON with each text in it replaced by `sha256:<hex>`. Keys stay."""
    if isinstance(value, str):
        return value if _SEALED.match(value) else "sha256:" + hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()
    if isinstance(value, Mapping):
        return {key: seal_texts(child) for key, child in value.items()}
    if isinstance(value, list):
        return [seal_texts(child) for child in value]
    return value


def sealed(text: Any) -> str | None:
    """The hash that stands in place of a text; None for anything else."""
    return text.removeprefix("sha256:") if isinstance(text, str) and _SEALED.match(text) else None


def _holds_seal(value: Any) -> bool:
    if isinstance(value, str):
        return _SEALED.match(value) is not None
    if isinstance(value, Mapping):
        return any(_holds_seal(child) for child in value.values())
    return isinstance(value, list) and any(_holds_seal(child) for child in value)
