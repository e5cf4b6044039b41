"""Random schemas of every draft and keyword, random changes of them, and values; made apart from the product, which shares nothing with this."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

Schema = Any
URIS = {
    4: "http://json-schema.org/draft-04/schema#",
    6: "http://json-schema.org/draft-06/schema#",
    7: "http://json-schema.org/draft-07/schema#",
    2019: "https://json-schema.org/draft/2019-09/schema",
    2020: "https://json-schema.org/draft/2020-12/schema",
}
NAMES = ["a", "b", "c", "x-1", "kind"]
LITERALS = ["a", "b", "x", "", 1, 2, 2.5, 0, -1, True, False, None, [], [1], {}, {"k": 1}, 10**20, 2**53 + 1]
PATTERNS = ["^a", "^[a-z]+$", "^(ab|ac)$", "^a[bc]$", "b$", "^.{1,3}$", "^x-", "\\d", "^[^0-9]*$", "^(a|b)*$", "^$", "[aeiou]{2}", "^\\S+$"]
TEXTS = ["", "a", "b", "x", "ab", "ac", "abc", "aa", "A", "0", "12", "x-1", "é", "😀", "a b", "\n", "a\n", "zzzzzzz", "aeiou", "kind"]
NUMBERS = [0, 1, -1, 2, 3, 4, 5, 6, 9, 10, 11, 0.5, 0.25, 2.5, 5.5, 6.5, 0.1, 0.3, 1e3, 2**53, 2**53 + 1, 10**20, 1e21, -2, 1.5, 7, 15]
TYPES = ["string", "null", "integer", "boolean", "array", "object", "number"]
_ONE = ("items", "additionalProperties", "not", "contains", "if", "then", "else", "additionalItems", "propertyNames", "unevaluatedProperties")
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")


@dataclass(frozen=True, slots=True)
class Pair:
    old: Schema
    new: Schema
    draft: int

    def for_validators(self) -> tuple[Schema, Schema]:
        """Draft 4 in the words of draft 6, which says "exclusive" by a number."""
        return (self.old, self.new) if self.draft != 4 else (_numbers(self.old), _numbers(self.new))


def _numbers(node: Any) -> Any:
    if isinstance(node, list):
        return [_numbers(child) for child in node]
    if not isinstance(node, dict):
        return node
    out = {key: _numbers(value) for key, value in node.items() if not (key == "$schema" and value == URIS[4])}
    if isinstance(out.get("exclusiveMinimum"), bool) and out.pop("exclusiveMinimum"):
        out["exclusiveMinimum"] = out.pop("minimum", -(10**30))
    return out


def pairs(chance: Random) -> Iterator[Pair]:
    """Without end. A quarter are two schemas that have nothing to do with one another."""
    while True:
        draft = chance.choice([2020, 2020, 2020, 7, 7, 2019, 4, 6])
        old = Maker(chance, draft).tool()
        yield Pair(old, Maker(chance, draft).tool() if chance.random() < 0.25 else changed(chance, old, draft), draft)


class Maker:
    def __init__(self, chance: Random, draft: int) -> None:
        self.r, self.draft = chance, draft
        self.defs: dict[str, Schema] = {}
        self.word = "$defs" if draft >= 2019 else "definitions"

    def maybe(self, share: float) -> bool:
        return self.r.random() < share

    def tool(self) -> Schema:
        out = self.object(2)
        if self.maybe(0.15):
            out[self.r.choice(["anyOf", "oneOf", "allOf"])] = [
                {"required": [name]} if self.maybe(0.5) else {"properties": {name: self.leaf()}} for name in self.r.sample(NAMES[:3], 2)
            ]
        if self.defs:
            out[self.word] = self.defs
        return {**out, "$schema": URIS[self.draft]}

    def leaf(self) -> Schema:
        kind = self.r.randrange(11)
        if kind < 3:
            return {"type": "string", **self.some({"minLength": self.r.randrange(3), "maxLength": self.r.randrange(1, 6)}), **self.text()}
        if kind < 6:
            return self.number()
        if kind < 8:
            return {"enum": copy.deepcopy(self.r.sample(LITERALS, self.r.randrange(1, 4)))}
        if kind == 8 and self.draft >= 6:
            return {"const": copy.deepcopy(self.r.choice(LITERALS))}
        return {"type": self.r.sample(TYPES, self.r.randrange(1, 4))} if kind < 10 else {}

    def some(self, words: dict[str, Any], share: float = 0.3) -> dict[str, Any]:
        return {word: value for word, value in words.items() if self.maybe(share)}

    def text(self) -> dict[str, Any]:
        return self.some({"pattern": self.r.choice(PATTERNS), "format": self.r.choice(["email", "date", "uuid"])})

    def number(self) -> Schema:
        words: dict[str, Any] = {"minimum": self.r.choice([0, -2, 1, 0.5, 2**53 + 1]), "maximum": self.r.choice([10, 3, 5.5, 1e21])}
        words |= {"multipleOf": self.r.choice([1, 2, 5, 0.5, 0.25, 3, 0.1])}
        out = {"type": self.r.choice(["integer", "number"]), **self.some(words)}
        if self.draft == 4 and "minimum" in out:
            out |= self.some({"exclusiveMinimum": self.maybe(0.5)})
        return out | (self.some({"exclusiveMinimum": 0, "exclusiveMaximum": 6.5}, 0.15) if self.draft > 4 else {})

    def object(self, depth: int) -> Schema:
        names = self.r.sample(NAMES, self.r.randrange(1, 4))
        out: dict[str, Any] = {"type": "object", "properties": {name: self.any(depth - 1) for name in names}}
        words: dict[str, Any] = {"minProperties": self.r.randrange(3), "maxProperties": self.r.randrange(1, 4)}
        words["patternProperties"] = {self.r.choice(["^x-", "^a", "[0-9]"]): self.leaf()}
        if self.draft >= 6:
            words["propertyNames"] = self.r.choice([{"maxLength": 3}, {"pattern": "^[a-z]"}, {"enum": ["a", "b", "c"]}, {"minLength": 1}])
        words |= {"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"a": {"properties": {"b": self.leaf()}}}} if self.draft >= 2019 else {}
        words |= {"dependencies": {"a": ["c"], "b": {"properties": {"c": self.leaf()}}}} if self.draft < 2019 else {}
        out |= self.some(words, 0.1)
        out |= self.some({"required": self.r.sample(NAMES[:3], self.r.randrange(1, 3))}, 0.35)
        out |= self.some({"additionalProperties": self.r.choice([False, False, False, True, self.leaf()])}, 0.65)
        if self.draft >= 7 and self.maybe(0.1):
            out["if"] = {"properties": {"kind": {"const": self.r.choice(["a", "b"])}}, **self.some({"required": ["kind"]}, 0.5)}
            out["then"] = self.r.choice([{"required": ["b"]}, {"properties": {"a": self.leaf()}}])
            out |= self.some({"else": {"required": ["c"]}})
        if self.draft >= 2019 and "additionalProperties" not in out:
            out |= self.some({"unevaluatedProperties": False})
        return out

    def array(self, depth: int) -> Schema:
        out: dict[str, Any] = {"type": "array", **self.some({"minItems": self.r.randrange(3), "maxItems": self.r.randrange(1, 4)}, 0.25)}
        out |= self.some({"uniqueItems": True}, 0.15)
        first = [self.any(depth - 1) for _ in range(self.r.randrange(1, 3))]
        if self.maybe(0.6):
            out["items"] = self.any(depth - 1)
        elif self.draft >= 2020:
            out |= {"prefixItems": first, **self.some({"items": self.r.choice([False, self.leaf()])}, 0.6)}
        else:
            out |= {"items": first, **self.some({"additionalItems": self.r.choice([False, self.leaf()])}, 0.6)}
        if self.draft >= 6 and self.maybe(0.12):
            least = self.r.randrange(3)
            out |= {"contains": self.leaf(), **(self.some({"minContains": least, "maxContains": least + 1}) if self.draft >= 2019 else {})}
        return out

    def any(self, depth: int) -> Schema:
        kind = self.r.random()
        if depth <= 0 or kind < 0.45:
            return self.leaf()
        if kind < 0.6:
            return self.object(depth)
        if kind < 0.72:
            return self.array(depth)
        if kind < 0.76:
            return {"not": self.leaf(), **self.some({"type": self.r.choice(["string", "integer", "number"])}, 0.6)}
        if kind < 0.9:
            word = self.r.choice(["anyOf", "oneOf", "allOf"])
            return {word: [self.any(depth - 1) for _ in range(self.r.randrange(1, 4))]}
        return self.reference()

    def reference(self) -> Schema:
        name = self.r.choice(["D", "E"])
        link = {"$ref": f"#/{self.word}/{name}"}
        if name not in self.defs:
            node = {"type": "object", "properties": {"v": self.leaf(), "kids": {"type": "array", "items": link}}, "required": ["v"]}
            self.defs[name] = {**node, **self.some({"additionalProperties": False}, 0.5)} if self.maybe(0.5) else self.leaf()
        return link


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every schema inside a schema."""
    if not isinstance(node, dict):
        return
    yield path
    for word, value in node.items():
        if word in _NAMED and isinstance(value, dict):
            children: list[tuple[Any, Any]] = list(value.items())
        else:
            children = list(enumerate(value)) if word in (*_MANY, *_ONE) and isinstance(value, list) else []
        for key, child in children:
            yield from places(child, (*path, word, key))
        if word in _ONE and isinstance(value, dict):
            yield from places(value, (*path, word))


def _at(node: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        node = node[step]
    return node


def changed(chance: Random, schema: Schema, draft: int) -> Schema:
    """One to three changes somewhere, of any direction or none."""
    out = json.loads(json.dumps(schema))
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        _change(chance, out, chance.choice(list(places(out))), Maker(chance, draft))
    return out


def _change(chance: Random, root: Any, path: tuple[Any, ...], make: Maker) -> None:
    node = _at(root, path)
    kind = chance.randrange(9)
    if kind == 0 and len(node.get("enum", [])) > 1:
        node["enum"].pop()
    elif kind == 1 and node.get("properties"):
        node["properties"].pop(chance.choice(list(node["properties"])))
    elif kind == 2 and "properties" in node:
        node["properties"][chance.choice([*NAMES, "new"])] = make.leaf()
    elif kind == 3 and node.get("type") == "object":
        node["additionalProperties"] = chance.random() < 0.5
    elif kind == 4 and path:
        _at(root, path[:-1])[path[-1]] = make.leaf()
    elif kind == 5 and path and "$ref" not in node:
        _at(root, path[:-1])[path[-1]] = {chance.choice(["anyOf", "allOf", "oneOf"]): [node, *([make.leaf()] if chance.random() < 0.5 else [])]}
    elif kind == 6:
        for word in ("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems"):
            if word in node:
                node[word] = max(0, node[word] + chance.choice([-1, 1]))
    elif kind == 7 and "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    elif len(node) > 1 and path:
        node.pop(chance.choice(list(node)))


def values(pair: Pair, chance: Random, count: int) -> Iterator[dict[str, Any]]:
    """Objects drawn along either schema, and now and then beside it."""
    named = [value for schema in (pair.old, pair.new) for value in _literals(schema)]
    for number in range(count):
        root = pair.old if number % 2 else pair.new
        found = _value(chance, root, root, named, 0)
        if isinstance(found, dict):
            yield found


def _literals(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield from node.get("enum", []) if isinstance(node.get("enum"), list) else []
        if "const" in node:
            yield node["const"]
        for value in node.values():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                yield from (value, value + 1, value - 1)
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        yield from _literals(child)


def _anything(chance: Random, named: list[Any]) -> Any:
    flat = [*TEXTS, *NUMBERS]
    kind = chance.random()
    if kind < 0.3 and named:
        return copy.deepcopy(chance.choice(named))
    if kind < 0.8:
        return chance.choice([*flat, True, False, None])
    if kind < 0.9:
        return [chance.choice(flat) for _ in range(chance.randrange(4))]
    return {chance.choice([*NAMES, "v", "kids", "zz"]): chance.choice(flat) for _ in range(chance.randrange(3))}


def _value(chance: Random, root: Any, node: Any, named: list[Any], depth: int) -> Any:
    if depth > 6 or not isinstance(node, dict) or chance.random() < 0.12:
        return _anything(chance, named)
    if "$ref" in node:
        return _value(chance, root, _at(root, tuple(node["$ref"].split("/")[1:])), named, depth + 1)
    if "const" in node or node.get("enum"):
        return copy.deepcopy(chance.choice(node.get("enum") or [node.get("const")]))
    branches = [branch for word in ("anyOf", "oneOf", "allOf") for branch in node.get(word, [])]
    if branches and "properties" not in node:
        return _value(chance, root, chance.choice(branches), named, depth + 1)
    kind = node.get("type")
    kind = chance.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        inside = {**node.get("properties", {}), **{name: {} for name in node.get("required", []) if name not in node.get("properties", {})}}
        if chance.random() < 0.2:
            inside[chance.choice([*NAMES, "zz", "x-9"])] = node.get("additionalProperties", {})
        kept = [name for name in inside if name in node.get("required", []) or chance.random() < 0.5]
        return {name: _value(chance, root, inside[name], named, depth + 1) for name in kept}
    if kind == "array":
        rest = node.get("items", {})
        first = node.get("prefixItems", rest if isinstance(rest, list) else [])
        rest = node.get("additionalItems", {}) if isinstance(rest, list) else rest
        return [_value(chance, root, first[n] if n < len(first) else rest, named, depth + 1) for n in range(chance.randrange(4))]
    numbers = [*NUMBERS, *(value for value in named if isinstance(value, (int, float)) and not isinstance(value, bool))]
    choices: dict[Any, list[Any]] = {"string": TEXTS, "integer": numbers, "number": numbers, "boolean": [True, False], "null": [None]}
    return chance.choice(choices[kind]) if kind in choices else _anything(chance, named)
