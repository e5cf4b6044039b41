"""What is known of a value that satisfies several schemas at once: its types, bounds, length, parts. Never too little, maybe too much.

A conjunction is a tuple of flat schemas (no `$ref`, no `allOf`). Everything said here over-approximates what the conjunction
accepts, so that a proof resting on it stays sound.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from harness.drift.document import Schema
from harness.drift.language import Automaton, Window, automaton
from harness.drift.regex import NotRegular

Conjunction = tuple[dict[str, Any], ...]
TYPES = frozenset({"null", "boolean", "integer", "fraction", "string", "array", "object"})
"""JSON Schema's types with `number` split in two, so that sets of types have no overlap."""
LENGTH_LIMIT = 2000


def type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "integer" if isinstance(value, int) or (math.isfinite(value) and value.is_integer()) else "fraction"
    return "string" if isinstance(value, str) else "array" if isinstance(value, list) else "object"


def declared_types(found: Any) -> frozenset[str]:
    """The split types of a `type` keyword."""
    words = [found] if isinstance(found, str) else found if isinstance(found, list) else []
    return frozenset(word for word in words if word in TYPES) | (frozenset({"integer", "fraction"}) if "number" in words else frozenset())


def types(parts: Iterable[Schema]) -> frozenset[str]:
    """Types that a value of the conjunction may have."""
    out = TYPES
    for node in parts:
        if isinstance(node, bool):
            out &= TYPES if node else frozenset()
            continue
        if "type" in node:
            out &= declared_types(node["type"])
        if "const" in node:
            out &= {type_of(node["const"])}
        if isinstance(node.get("enum"), list):
            out &= {type_of(value) for value in node["enum"]}
        for word in ("anyOf", "oneOf"):
            if word in node:
                out &= frozenset().union(*(types([branch]) for branch in node[word]))
        if "allOf" in node:
            out &= types(node["allOf"])
        if isinstance(node.get("not"), dict) and set(node["not"]) == {"type"}:
            out -= declared_types(node["not"]["type"])
    return out


def numbers(parts: Conjunction, keyword: str) -> Iterator[Fraction]:
    """The values of a numeric keyword wherever it stands."""
    for node in parts:
        found = node.get(keyword)
        if isinstance(found, (int, float)) and not isinstance(found, bool) and math.isfinite(found):
            yield Fraction(str(found))


def least(parts: Conjunction, keyword: str) -> int:
    """The strongest lower count (`minLength`, `minItems`, …)."""
    return max((math.ceil(found) for found in numbers(parts, keyword)), default=0)


def most(parts: Conjunction, keyword: str) -> int | None:
    """The strongest upper count; None without one."""
    return min((math.floor(found) for found in numbers(parts, keyword)), default=None)


def lower(parts: Conjunction) -> tuple[Fraction, bool] | None:
    """The strongest lower bound and whether it is itself excluded."""
    closed = [(found, False) for found in numbers(parts, "minimum")]
    return max([*closed, *((found, True) for found in numbers(parts, "exclusiveMinimum"))], default=None)


def upper(parts: Conjunction) -> tuple[Fraction, bool] | None:
    closed = [(found, False) for found in numbers(parts, "maximum")]
    return min([*closed, *((found, True) for found in numbers(parts, "exclusiveMaximum"))], key=lambda pair: (pair[0], not pair[1]), default=None)


def language(parts: Conjunction) -> list[Automaton]:
    """Automata that every text of the conjunction passes. Patterns that are not regular are left out, which only admits more."""
    out: list[Automaton] = []
    for node in parts:
        if isinstance(node.get("pattern"), str):
            try:
                out.append(automaton(node["pattern"]))
            except NotRegular:
                continue
    shortest, longest = least(parts, "minLength"), most(parts, "maxLength")
    if shortest or longest is not None:
        out.append(Window(min(shortest, LENGTH_LIMIT), longest if longest is not None and longest <= LENGTH_LIMIT else None))
    return out


def required(parts: Conjunction) -> frozenset[str]:
    """Names that must be present, those that others demand included."""
    out: set[str] = set()
    for node in parts:
        out |= {name for name in node.get("required", ()) if isinstance(name, str)}
    while True:
        more = {
            name for node in parts for key, names in (node.get("dependentRequired") or {}).items() if key in out for name in names if name not in out
        }
        if not more:
            return frozenset(out)
        out |= more


def matches(pattern: str, name: str) -> bool | None:
    """Whether a property name matches a pattern; None when that is not known."""
    try:
        found = automaton(pattern)
    except NotRegular:
        return None
    state = found.start()
    for char in name:
        state = found.step(state, ord(char))
    return found.accepts(state)


def property_parts(parts: Sequence[Mapping[str, Any]], name: str) -> tuple[Schema, ...]:
    """What the value of property `name` must satisfy."""
    out: list[Schema] = []
    for node in parts:
        out += node_property(node, name)
    return tuple(out)


def node_property(node: Mapping[str, Any], name: str) -> list[Schema]:
    """As `property_parts` for one schema: exact, unless a pattern is not known to match or not; then nothing is said by it."""
    declared = node.get("properties", {})
    found: list[Schema] = [declared[name]] if name in declared else []
    told = [(matches(pattern, name), schema) for pattern, schema in node.get("patternProperties", {}).items()]
    found += [schema for hit, schema in told if hit]
    if not found and all(hit is False for hit, _ in told) and "additionalProperties" in node:
        found.append(node["additionalProperties"])
    return found


def finite_names(parts: Conjunction) -> frozenset[str] | None:
    """All names that may be present, where these can be listed; None when they are without end or not known."""
    out: frozenset[str] | None = None
    for node in parts:
        found: set[str] | None = None
        names = node.get("propertyNames")
        if isinstance(names, dict) and ("enum" in names or "const" in names):
            found = {name for name in (names["enum"] if "enum" in names else [names["const"]]) if isinstance(name, str)}
        elif node.get("additionalProperties") is False and not node.get("patternProperties"):
            found = set(node.get("properties", {}))
        if found is not None:
            out = frozenset(found) if out is None else out & found
    return out


def item_parts(parts: Conjunction, index: int) -> tuple[Schema, ...]:
    """What the item at `index` must satisfy."""
    out: list[Schema] = []
    for node in parts:
        prefix = node.get("prefixItems", [])
        if index < len(prefix):
            out.append(prefix[index])
        elif "items" in node:
            out.append(node["items"])
    return tuple(out)


def contained(node: Mapping[str, Any]) -> int:
    """How many items a schema's `contains` asks for at least; 0 without one."""
    if "contains" not in node:
        return 0
    return least((dict(node),), "minContains") if "minContains" in node else 1


def fewest_items(parts: Conjunction) -> int:
    """How many items there are at least, by `minItems` and `contains`."""
    return max([least(parts, "minItems"), *(contained(node) for node in parts)])


def longest_prefix(parts: Conjunction) -> int:
    return max((len(node.get("prefixItems", [])) for node in parts), default=0)
