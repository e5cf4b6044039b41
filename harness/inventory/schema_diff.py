"""Neutral facts about how two JSON Schemas differ, by JSON pointer. Says what changed, never whether that is bad."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from harness.inventory.canonical import NotCanonical, exact_bytes, json_equal
from harness.inventory.rename import renamed_parameters
from harness.inventory.shape import has_sealed_default, seal_defaults
from harness.inventory.walk import escape

Kind = Literal[
    "property-added",
    "property-removed",
    "property-renamed",
    "required-added",
    "required-removed",
    "types-changed",
    "enum-changed",
    "bound-changed",
    "pattern-changed",
    "format-changed",
    "default-changed",
    "additional-changed",
    "composition-changed",
    "spelling-changed",
    "reference-changed",
    "definition-changed",
    "keyword-changed",
    "order-changed",
]

LOWER_BOUNDS = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"})
UPPER_BOUNDS = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"})
BOUNDS = LOWER_BOUNDS | UPPER_BOUNDS | {"multipleOf"}
TYPES = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
_BRANCHES = ("allOf", "anyOf", "oneOf", "prefixItems")
_NESTED = (
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "additionalItems",
)
_DEFINITIONS = ("$defs", "definitions")
_SIMPLE: Mapping[str, Kind] = {"pattern": "pattern-changed", "format": "format-changed", "$ref": "reference-changed"}
_HANDLED = frozenset(
    {"properties", "required", "type", "enum", "default", "additionalProperties", *BOUNDS, *_BRANCHES, *_NESTED, *_DEFINITIONS, *_SIMPLE}
)


@dataclass(frozen=True, slots=True)
class SchemaFact:
    """`old` and `new` are the JSON values at `pointer`, None when absent. `detail` holds what the kind adds (`required`, `closed`, …)."""

    kind: Kind
    pointer: str
    old: Any = None
    new: Any = None
    detail: Mapping[str, Any] = field(default_factory=dict)


def schema_facts(old: Any, new: Any) -> tuple[SchemaFact, ...]:
    """Every difference between two shapes. Where one side's defaults are sealed (an inventory's), both are compared sealed."""
    if has_sealed_default(old) or has_sealed_default(new):
        old, new = seal_defaults(old), seal_defaults(new)
    return tuple(_Comparison().node(old, new, ""))


class _Comparison:
    """One walk over two schemas in step."""

    def node(self, old: Any, new: Any, at: str) -> Iterator[SchemaFact]:
        if json_equal(old, new):
            return
        if not isinstance(old, Mapping) or not isinstance(new, Mapping):
            yield SchemaFact("composition-changed", at, old, new)  # true, false or absent against a schema
            return
        found = False
        for part in (self.types, self.properties, self.enum, self.values, self.nested):
            for fact in part(old, new, at):
                found = True
                yield fact
        if not found:  # never silent: `properties: {}` against none is spelling, anything else is for the reader
            changed = [word for word in sorted(old.keys() | new.keys()) if not json_equal(_only(old, word), _only(new, word))]
            empty = not any(old.get(word) or new.get(word) for word in changed)
            yield SchemaFact("spelling-changed" if empty else "keyword-changed", f"{at}/{escape(changed[0])}", old, new)

    def types(self, old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> Iterator[SchemaFact]:
        before, after = type_set(old), type_set(new)
        if before != after:
            yield SchemaFact("types-changed", at, sorted(before), sorted(after))
        elif not json_equal(old.get("type"), new.get("type")):
            kind: Kind = "order-changed" if isinstance(old.get("type"), list) and isinstance(new.get("type"), list) else "spelling-changed"
            yield SchemaFact(kind, f"{at}/type", old.get("type"), new.get("type"))

    def properties(self, old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> Iterator[SchemaFact]:
        before, after = _members(old, "properties"), _members(new, "properties")
        needed_before, needed_after = _required(old), _required(new)
        for name, value in before.items():
            place = f"{at}/properties/{escape(name)}"
            if name in after:
                yield from self.node(value, after[name], place)
            else:
                yield SchemaFact("property-removed", place, value, None, {"required": name in needed_before, "closed": _closed(new)})
        for name, value in after.items():
            if name not in before:
                place = f"{at}/properties/{escape(name)}"
                yield SchemaFact("property-added", place, None, value, {"required": name in needed_after, "closed": _closed(old)})
        appeared, vanished = set(after) - set(before), set(before) - set(after)
        gone, come = {name: before[name] for name in sorted(vanished)}, {name: after[name] for name in sorted(appeared)}
        for pair in renamed_parameters(gone, come, type_set):
            yield SchemaFact("property-renamed", f"{at}/properties", pair.old, pair.new, {"why": pair.why, "score": pair.score})
        for name in needed_after:
            if name not in needed_before and name not in appeared:
                yield SchemaFact("required-added", f"{at}/required", False, True, {"name": name, "declared": name in after})
        for name in needed_before:
            if name not in needed_after and name not in vanished:
                yield SchemaFact("required-removed", f"{at}/required", True, False, {"name": name, "declared": name in after})
        if set(needed_before) == set(needed_after) and not json_equal(old.get("required"), new.get("required")):
            yield SchemaFact("order-changed", f"{at}/required", old.get("required"), new.get("required"))

    def enum(self, old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> Iterator[SchemaFact]:
        before, after = old.get("enum"), new.get("enum")
        if json_equal(before, after) and ("enum" in old) == ("enum" in new):
            return
        if isinstance(before, list) and isinstance(after, list):
            keys_before, keys_after = _keys(before), _keys(after)
            gone = [value for value in before if _key(value) not in keys_after]
            come = [value for value in after if _key(value) not in keys_before]
            kind: Kind = "enum-changed" if gone or come else "order-changed"
            yield SchemaFact(kind, f"{at}/enum", before, after, {"removed": gone, "added": come})
        else:
            detail = {
                "removed": [] if isinstance(before, list) else ["anything else"],
                "added": [] if isinstance(after, list) else ["anything else"],
            }
            yield SchemaFact("enum-changed", f"{at}/enum", before, after, detail)

    def values(self, old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> Iterator[SchemaFact]:
        if not json_equal(_only(old, "default"), _only(new, "default")):
            yield SchemaFact("default-changed", f"{at}/default", old.get("default"), new.get("default"))
        for keyword in sorted(old.keys() | new.keys()):
            if keyword in _HANDLED and keyword not in _SIMPLE and keyword not in BOUNDS:
                continue
            if not json_equal(_only(old, keyword), _only(new, keyword)):
                kind: Kind = _SIMPLE.get(keyword, "bound-changed" if keyword in BOUNDS else "keyword-changed")
                yield SchemaFact(kind, f"{at}/{escape(keyword)}", old.get(keyword), new.get(keyword), {"keyword": keyword})

    def nested(self, old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> Iterator[SchemaFact]:
        yield from self.additional(old, new, at)
        respelled = pure_types(old) is not None and pure_types(new) is not None
        for keyword in _BRANCHES:
            yield from self.branches(old.get(keyword), new.get(keyword), f"{at}/{keyword}", respelled)
        for keyword in _NESTED:
            if (keyword in old) != (keyword in new):
                yield SchemaFact("composition-changed", f"{at}/{keyword}", old.get(keyword), new.get(keyword))
            elif keyword in old:
                yield from self.node(old[keyword], new[keyword], f"{at}/{keyword}")
        for keyword in _DEFINITIONS:
            before, after = _members(old, keyword), _members(new, keyword)
            for name in sorted(before.keys() | after.keys()):
                place = f"{at}/{escape(keyword)}/{escape(name)}"
                if name in before and name in after:
                    yield from self.node(before[name], after[name], place)
                else:
                    yield SchemaFact("definition-changed", place, before.get(name), after.get(name))

    def additional(self, old: Mapping[str, Any], new: Mapping[str, Any], at: str) -> Iterator[SchemaFact]:
        keyword = "additionalProperties"
        before, after = old.get(keyword, True), new.get(keyword, True)
        place = f"{at}/{keyword}"
        if isinstance(before, Mapping) and isinstance(after, Mapping) and before and after:
            yield from self.node(before, after, place)
        elif not json_equal(_open_is_true(before), _open_is_true(after)):
            yield SchemaFact("additional-changed", place, before, after)
        elif not json_equal(_only(old, keyword), _only(new, keyword)):
            yield SchemaFact("spelling-changed", place, old.get(keyword), new.get(keyword))

    def branches(self, old: Any, new: Any, at: str, respelled: bool) -> Iterator[SchemaFact]:
        if json_equal(old, new):
            return
        if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            if not at.endswith("/prefixItems") and _keys(old) == _keys(new):
                yield SchemaFact("order-changed", at, old, new)
                return
            for index, (before, after) in enumerate(zip(old, new, strict=True)):
                yield from self.node(before, after, f"{at}/{index}")
        else:
            yield SchemaFact("spelling-changed" if respelled else "composition-changed", at, old, new)


def type_set(schema: Any) -> frozenset[str]:
    """The JSON types that a schema's `type`, or a union of plainly typed branches, admits; all of them when it does not say."""
    if not isinstance(schema, Mapping):
        return TYPES
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list):
        return frozenset(word for word in declared if isinstance(word, str))
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list) and branches:
            return frozenset().union(*(type_set(branch) for branch in branches))
    return TYPES


def pure_types(schema: Any) -> frozenset[str] | None:
    """The type set of a schema that says nothing but types (and a default); None when it says more."""
    if not isinstance(schema, Mapping) or set(schema) - {"type", "anyOf", "default"}:
        return None
    if "anyOf" in schema and ("type" in schema or not isinstance(schema["anyOf"], list) or None in map(pure_types, schema["anyOf"])):
        return None
    return type_set(schema)


def _members(schema: Mapping[str, Any], keyword: str) -> Mapping[str, Any]:
    found = schema.get(keyword)
    return found if isinstance(found, Mapping) else {}


def _required(schema: Mapping[str, Any]) -> list[str]:
    found = schema.get("required")
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _closed(schema: Mapping[str, Any]) -> bool:
    """Whether an undeclared property is refused outright."""
    return schema.get("additionalProperties") is False or schema.get("unevaluatedProperties") is False


def _only(schema: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    return {keyword: schema[keyword]} if keyword in schema else {}


def _open_is_true(value: Any) -> Any:
    return True if value == {} else value


def _key(value: Any) -> bytes:
    try:
        return exact_bytes(value)
    except NotCanonical:
        return repr(value).encode("utf-8", "surrogatepass")


def _keys(values: list[Any]) -> set[bytes]:
    return {_key(value) for value in values}
