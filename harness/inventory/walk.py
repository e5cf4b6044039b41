"""Where a JSON Schema holds schemas, and where it holds data. Only schema positions are ever stripped or compared as schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SINGLE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
LISTED = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
NAMED = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})
ANNOTATIONS = frozenset({"$comment", "$schema", "deprecated", "description", "examples", "title"})


def escape(token: str) -> str:
    """One reference token of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


def children(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(relative pointer, subschema) for each object in a schema position directly below `schema`."""
    for keyword, value in schema.items():
        if keyword in SINGLE and isinstance(value, Mapping):
            yield f"/{escape(keyword)}", value
        elif keyword in LISTED and isinstance(value, list):
            for index, child in enumerate(value):
                if isinstance(child, Mapping):
                    yield f"/{escape(keyword)}/{index}", child
        elif keyword in NAMED and isinstance(value, Mapping):
            for name, child in value.items():
                if isinstance(child, Mapping):
                    yield f"/{escape(keyword)}/{escape(name)}", child


def schemas(root: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """(pointer, schema) for `root` and everything below it in schema position, parents first."""
    stack: list[tuple[str, Mapping[str, Any]]] = [("", root)] if isinstance(root, Mapping) else []
    while stack:
        pointer, node = stack.pop()
        yield pointer, node
        stack.extend(reversed([(pointer + step, child) for step, child in children(node)]))
