"""Small valid values of a schema, built from what it says, varied one part at a time. Every value given was checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from harness.drift.conjunction import declared_types, language, least, most, node_property
from harness.drift.document import Document, Schema
from harness.drift.pool import FORMATS, MAX_COUNT, Pool, distinct, some_texts
from harness.drift.validators import first_opinion

_DEEP = 20
_UNFOLDED = 5
_WORDS = ("null", "boolean", "integer", "number", "string", "array", "object")


class _Depth(NamedTuple):
    """How far down in the value, and how many definitions were gone through on the way: a tree that branches must not grow without end."""

    levels: int = 0
    refs: int = 0

    def below(self) -> _Depth:
        return _Depth(self.levels + 1, self.refs)

    def unfolding(self, node: Schema) -> _Depth:
        branches = [node, *(branch for word in ("allOf", "anyOf", "oneOf") for branch in node.get(word, []))] if isinstance(node, dict) else []
        return _Depth(self.levels, self.refs + any(isinstance(branch, dict) and "$ref" in branch for branch in branches))


_TOP = _Depth()


class Sampler:
    """Values of one document. `fuel` bounds the candidates that are looked at."""

    def __init__(self, document: Document, pool: Pool, fuel: int = 30_000, limit: int = 24) -> None:
        self.document, self.pool = document, pool
        self.fuel, self.limit = fuel, limit
        self._known: dict[tuple[int, _Depth], tuple[Schema, list[Any]]] = {}

    def values(self, node: Schema, at: _Depth = _TOP) -> list[Any]:
        """Up to `limit` valid values, simple ones first; fewer as the value gets deeper."""
        key = (id(node), at)
        known = self._known.get(key)
        if known is None:
            self._known[key] = (node, [])  # recursion through a definition finds nothing on its way down
            known = self._known[key] = (node, self._made(node, at))
        return known[1]

    def _made(self, node: Schema, at: _Depth) -> list[Any]:
        at = at.unfolding(node)
        if node is False or at.levels > _DEEP or at.refs > _UNFOLDED:
            return []
        accepts = first_opinion(self.document.under(node))
        limit = max(3, self.limit >> at.levels // 2)
        return distinct((value for value in self._tried(node, at) if accepts(value)), limit)

    def _tried(self, node: Schema, at: _Depth) -> Iterator[Any]:
        for value in self._candidates(node, at):
            self.fuel -= 1
            if self.fuel < 0:
                return
            yield value

    def _candidates(self, node: Schema, at: _Depth) -> Iterator[Any]:
        if isinstance(node, bool):
            yield from ("a", 0, True, None, [], {})
            return
        if "const" in node:
            yield node["const"]
            return
        if isinstance(node.get("enum"), list):
            yield from node["enum"]
            return
        for plain in self._plain(node, 0):
            yield from self._of_types(plain, at)

    def _plain(self, node: Mapping[str, Any], unfolded: int) -> Iterator[dict[str, Any]]:
        """The node with references and unions worked in: one schema for each way to satisfy it. Approximate; all is checked after."""
        target = self.document.target(node)
        rest = {word: value for word, value in node.items() if word not in ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "not")}
        if unfolded > 6:
            yield rest
            return
        merged = [part for part in (target, *node.get("allOf", [])) if isinstance(part, dict)]
        ways: list[dict[str, Any]] = [rest]
        for part in merged:
            ways = [_merge(way, more) for way in ways for more in self._plain(part, unfolded + 1)][:12]
        for word in ("anyOf", "oneOf"):
            branches = [branch for branch in node.get(word, []) if isinstance(branch, dict)]
            if branches:
                ways = [_merge(way, more) for branch in branches for way in ways for more in self._plain(branch, unfolded + 1)][:24]
        if isinstance(node.get("if"), dict):
            then, other = node.get("then", True), node.get("else", True)
            met = [_merge(way, node["if"]) for way in ways]
            ways = [_merge(way, then) if isinstance(then, dict) else way for way in met] + [
                _merge(way, other) if isinstance(other, dict) else way for way in ways
            ]
        for name, schema in (node.get("dependentSchemas") or {}).items():
            if isinstance(schema, dict):
                ways += [_merge(_merge(way, schema), {"required": [name]}) for way in ways[:4]]
        yield from ways

    def _of_types(self, node: Mapping[str, Any], at: _Depth) -> Iterator[Any]:
        if "const" in node or isinstance(node.get("enum"), list):
            yield from [node["const"]] if "const" in node else node["enum"]
            return
        types = declared_types(node["type"]) if "type" in node else declared_types(list(_WORDS))
        if "type" not in node and ({"properties", "required", "patternProperties"} & set(node)):
            types = frozenset({"object"})
        if "object" in types:
            yield from self._objects(node, at)
        if "string" in types:
            yield from self._strings(node)
        if types & {"integer", "fraction"}:
            yield from self.pool.by_type["number"]
        if "boolean" in types:
            yield from (True, False)
        if "array" in types:
            yield from self._arrays(node, at)
        if "null" in types:
            yield None

    def _strings(self, node: Mapping[str, Any]) -> Iterator[Any]:
        yield from FORMATS.get(str(node.get("format")), [])
        parts = language((dict(node),))
        if parts:
            yield from some_texts(parts, len(self.pool.literals))
        yield from self.pool.by_type["string"]

    def _arrays(self, node: Mapping[str, Any], at: _Depth) -> Iterator[Any]:
        below = at.below()
        prefix = [self.values(part, below) for part in node.get("prefixItems", [])]
        more = self.values(node.get("items", True), below)
        wanted = self.values(node["contains"], below) if "contains" in node else []
        floor = least((dict(node),), "minItems")
        ceiling = most((dict(node),), "maxItems")
        counts = [floor, *(count for count in self.pool.counts if count >= floor and (ceiling is None or count <= ceiling))]
        for count in dict.fromkeys(count for count in counts if count <= MAX_COUNT):
            yield from self._fillings(prefix, more, wanted, count)
        for index, choices in enumerate([*prefix, more]):
            base = [options[0] for options in prefix[:index] if options]
            if len(base) == index and index >= floor - 1:
                yield from ([*base, choice] for choice in choices)

    def _fillings(self, prefix: list[list[Any]], more: list[Any], wanted: list[Any], count: int) -> Iterator[list[Any]]:
        for options in ([*wanted, *more], [*more, *self.pool.scalars], more[:1], wanted[:1]):
            items: list[Any] = []
            for index in range(count):
                choices = prefix[index] if index < len(prefix) else options
                if not choices:
                    break
                items.append(choices[(index - len(prefix)) % len(choices)] if index >= len(prefix) else choices[0])
            if len(items) == count:
                yield items

    def _objects(self, node: Mapping[str, Any], at: _Depth) -> Iterator[Any]:
        needed = [name for name in node.get("required", []) if isinstance(name, str)]
        for name in needed:
            needed += [other for other in (node.get("dependentRequired") or {}).get(name, []) if other not in needed]
        choices = {name: self._property(node, name, at) for name in dict.fromkeys([*needed, *node.get("properties", {})])}
        base = {name: choices[name][0] for name in needed if choices[name]}
        full = {**base, **{name: values[0] for name, values in choices.items() if values}}
        yield base
        yield full
        strange = {
            name: [*self._property(node, name, at)[:3], *self.pool.mixed] for name in self.pool.names if name not in choices
        }  # by pattern, or what the rest may hold
        for rank in range(max(map(len, [*choices.values(), *strange.values()]), default=0)):  # every name has its turn before any has its next
            for start in (base, full):
                yield from ({**start, name: values[rank]} for name, values in choices.items() if rank < len(values))
            if rank % 3 == 0:  # an open object takes any name: those must not crowd out the declared ones
                yield from ({**base, name: values[rank // 3]} for name, values in strange.items() if rank // 3 < len(values))
        yield from self._pairs(base, {**{name: values for name, values in choices.items() if name not in base}, **strange})
        for count in self.pool.counts:
            yield {**base, **dict.fromkeys([f"k{index}" for index in range(max(0, count - len(base)))], "a")}

    def _pairs(self, base: dict[str, Any], choices: Mapping[str, list[Any]]) -> Iterator[dict[str, Any]]:
        """Two more names at once."""
        names = [name for name, values in choices.items() if values][:8]
        for position, one in enumerate(names):
            for other in names[position + 1 :]:
                yield {**base, one: choices[one][0], other: choices[other][0]}

    def _property(self, node: Mapping[str, Any], name: str, at: _Depth) -> list[Any]:
        parts = node_property(node, name)
        if not parts:
            return ["a", 0, True, None, [], {}]
        return self.values(parts[0] if len(parts) == 1 else self._joined(parts), at.below())

    def _joined(self, parts: list[Schema]) -> Schema:
        return False if False in parts else {"allOf": parts}


def _merge(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both schemas as one flat schema, near enough to build values from."""
    out = dict(one)
    for word, value in other.items():
        if word not in out:
            out[word] = value
        elif word == "required":
            out[word] = list(dict.fromkeys([*out[word], *value]))
        elif word in ("properties", "patternProperties"):
            mine = out[word]
            out[word] = {
                **mine,
                **{name: {"allOf": [mine[name], schema]} if name in mine and mine[name] != schema else schema for name, schema in value.items()},
            }
        elif word in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
            out[word] = max(out[word], value)
        elif word in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
            out[word] = min(out[word], value)
        elif word == "type":
            both = declared_types(out[word]) & declared_types(value)
            out[word] = sorted({"number" if found == "fraction" else found for found in both})
        elif word in ("$ref", "allOf", "anyOf", "oneOf", "if", "then", "else", "not"):
            continue
        else:
            out[word] = value
    return out
