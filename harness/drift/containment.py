"""Whether every value of one schema is a value of another, shown rule by rule. `True` is a proof; `False` only means "not shown".

The canonical form decides most pairs without references. This takes the rest apart: recursion (a pair that is met again further
down in the value is taken as shown, which is sound since values are finite and every loop of references goes into the value),
patterns, unions, and schemas too large for the library. Every step costs fuel, so that it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.drift import conjunction as con
from harness.drift.canonical_form import canonical, covers, disjoint, impossible
from harness.drift.conjunction import Conjunction, types
from harness.drift.document import Document, Schema
from harness.drift.facets import array_holds, number_holds, string_holds
from harness.drift.language import finite_texts
from harness.drift.object_facets import object_holds
from harness.drift.validators import first_opinion
from harness.inventory.canonical import exact_bytes, json_equal

FUEL = 4_000
_FINITE = 256
_ENUM_SPLIT = 16
_Key = tuple[frozenset[bytes], bytes]


class OutOfFuel(Exception):
    """The proof was given up."""


class Prover:
    """Proofs that `left` is contained in `right`."""

    def __init__(self, left: Document, right: Document, fuel: int = FUEL) -> None:
        self.left, self.right = left, right
        self.fuel = fuel
        self._assumed: dict[_Key, int] = {}
        self._trail: list[_Key] = []
        self._same_defs = json_equal(dict(left.defs), dict(right.defs))
        self._texts: dict[int, tuple[Any, bytes]] = {}

    def contained(self) -> bool:
        """Whether containment was shown. Raises OutOfFuel."""
        return self.proves((self.left.root,), self.right.root, 0)

    def burn(self, amount: int = 1) -> None:
        self.fuel -= amount
        if self.fuel < 0:
            raise OutOfFuel

    def text(self, node: Schema) -> bytes:
        known = self._texts.get(id(node))
        if known is None:
            known = self._texts[id(node)] = (node, exact_bytes(node))
        return known[1]

    def refers(self, node: Schema) -> bool:
        return b'"$ref"' in self.text(node)

    def flat(self, parts: tuple[Schema, ...]) -> Conjunction | None:
        """Without references and `allOf`; None when one part is `false`."""
        out: list[dict[str, Any]] = []
        stack: list[Schema] = list(reversed(parts))
        seen: set[bytes] = set()
        while stack:
            node = stack.pop()
            if node is False:
                return None
            if node is True or self.text(node) in seen:
                continue
            assert isinstance(node, dict)
            seen.add(self.text(node))
            target = self.left.target(node)
            rest = _without(node, "$ref", "allOf") if target is not None or "allOf" in node else node
            if rest:
                out.append(rest)
            stack += [*node.get("allOf", []), *([target] if target is not None else [])]
        return tuple(out)

    def proves(self, parts: tuple[Schema, ...], right: Schema, depth: int) -> bool:
        """Whether what satisfies all of `parts` (of the left document) satisfies `right`. `depth` counts steps into the value."""
        self.burn()
        if right is True or right == {}:
            return True
        key = (frozenset(self.text(part) for part in parts), self.text(right))
        known = self._assumed.get(key)
        if known is not None and known < depth:
            return True
        flat = self.flat(parts)
        if flat is None or self.barred(flat):
            return True
        mark = len(self._trail)
        if known is None:
            self._assumed[key] = depth
            self._trail.append(key)
        if self._shown(flat, right, depth):
            return True
        for dropped in self._trail[mark:]:  # whatever leaned on this assumption falls with it
            self._assumed.pop(dropped, None)
        del self._trail[mark:]
        return False

    def _shown(self, flat: Conjunction, right: Schema, depth: int) -> bool:
        told = self._told(flat, right)
        if told is not None:
            return told
        values = self.finite(flat)
        if values is not None:
            accepts = first_opinion(self.right.under(right))
            return all(accepts(value) for value in values)
        if right is False:
            return False
        assert isinstance(right, dict)
        if all(self._group(flat, word, right, depth) for word in _groups(right)):
            return True
        return any(all(self.proves(case, right, depth) for case in cases) for cases in self._splits(flat, right))

    def _told(self, flat: Conjunction, right: Schema) -> bool | None:
        """The library's word, where neither side refers to anything."""
        whole: Schema = flat[0] if len(flat) == 1 else {"allOf": list(flat)}
        if self.refers(right) or any(self.refers(part) for part in flat):
            return None
        self.burn(3)
        inner, outer = canonical(whole), canonical(right)
        if isinstance(inner, str) or isinstance(outer, str):
            return None
        return True if inner.text == outer.text else covers(outer, inner)

    def finite(self, flat: Conjunction) -> list[Any] | None:
        """All values of the conjunction, where they can be listed."""
        candidates: list[Any] | None = None
        for node in flat:
            if "const" in node:
                candidates = [node["const"]]
            elif isinstance(node.get("enum"), list) and candidates is None:
                candidates = node["enum"]
        found = types(flat)
        if candidates is None and found <= {"null", "boolean"}:
            candidates = [None, True, False]
        if candidates is None and found == {"string"} and any("pattern" in node for node in flat):
            texts = finite_texts(con.language(flat), _FINITE)
            candidates = list(texts) if texts is not None else None
        if candidates is None or len(candidates) > 4 * _FINITE:
            return None
        self.burn(1 + len(candidates) // 20)
        checks = [first_opinion(self.left.under(node)) for node in flat]
        return [value for value in candidates if all(check(value) for check in checks)]

    def _group(self, flat: Conjunction, word: str, right: dict[str, Any], depth: int) -> bool:
        """Whether one demand of `right` is met."""
        if word in _VERBATIM and any(self._same(node, right, _VERBATIM[word]) for node in flat):
            return True
        if word == "$ref":
            target = self.right.target(right)
            return target is not None and self.proves(flat, target, depth)
        if word == "allOf":
            return all(self.proves(flat, part, depth) for part in right["allOf"])
        if word == "anyOf":
            return any(self.proves(flat, part, depth) for part in right["anyOf"])
        if word == "oneOf":
            return self._one_of(flat, right["oneOf"], depth)
        if word == "not":
            return self.apart(flat, right["not"], depth)
        if word == "if":
            return self._conditional(flat, right, depth)
        if word == "type":
            return types(flat) <= con.declared_types(right["type"])
        if word == "string":
            return "string" not in types(flat) or string_holds(flat, right)
        if word == "number":
            return not types(flat) & {"integer", "fraction"} or number_holds(flat, right, types(flat))
        if word == "array":
            return "array" not in types(flat) or array_holds(self, flat, right, depth)
        return word == "object" and ("object" not in types(flat) or object_holds(self, flat, right, depth))

    def _same(self, node: dict[str, Any], right: dict[str, Any], words: tuple[str, ...]) -> bool:
        """Whether both say the same in so many words, and the words mean the same in both documents."""
        mine, theirs = ({word: side[word] for word in words if word in side} for side in (node, right))
        return self.text(mine) == self.text(theirs) and (self._same_defs or not self.refers(theirs))

    def _one_of(self, flat: Conjunction, branches: list[Schema], depth: int) -> bool:
        for index, branch in enumerate(branches):
            others = branches[:index] + branches[index + 1 :]
            if all(self.apart(flat, other, depth) for other in others) and self.proves(flat, branch, depth):
                return True
        return False

    def _conditional(self, flat: Conjunction, right: dict[str, Any], depth: int) -> bool:
        if self.refers(right["if"]):
            return False  # it would have to be read in the other document
        met, unmet = (*flat, right["if"]), (*flat, {"not": right["if"]})
        return self.proves(met, right.get("then", True), depth) and self.proves(unmet, right.get("else", True), depth)

    def _splits(self, flat: Conjunction, right: Schema) -> Iterator[list[tuple[Schema, ...]]]:
        """Ways to take the left side apart into cases that together cover it."""
        for index, node in enumerate(flat):
            others = flat[:index] + flat[index + 1 :]
            for word in ("anyOf", "oneOf"):
                if word in node:
                    rest = _without(node, word)
                    yield [(*others, rest, branch) for branch in node[word]]
            if "if" in node:
                rest = _without(node, "if", "then", "else")
                yield [
                    (*others, rest, node["if"], node.get("then", True)),
                    (*others, rest, {"not": node["if"]}, node.get("else", True)),
                ]
        found = types(flat)
        if len(found) > 1 and found != {"integer", "fraction"}:
            words = sorted(found - {"fraction", "integer"}) + (["number"] if "fraction" in found else ["integer"] if "integer" in found else [])
            yield [(*flat, {"type": word}) for word in words]
        if found == {"object"} and self._branches(right):
            for name in sorted(con.required(flat)):
                inner = self.flat(con.property_parts(flat, name))
                values = self.finite(inner) if inner is not None else None
                if values and 1 < len(values) <= _ENUM_SPLIT:
                    yield [(*flat, {"properties": {name: {"const": value}}}) for value in values]

    def _branches(self, right: Schema) -> bool:
        while isinstance(right, dict):
            if "anyOf" in right or "oneOf" in right:
                return True
            target = self.right.target(right)
            if target is None:
                return False
            right = target
        return False

    def apart(self, parts: tuple[Schema, ...], right: Schema, depth: int) -> bool:
        """Whether it is shown that no value satisfies all of `parts` and `right`."""
        self.burn()
        flat = self.flat(parts)
        if flat is None or right is False:
            return True
        if right is True or depth > 24:
            return self.nothing(flat)
        assert isinstance(right, dict)
        if not types(flat) & types([right]):
            return True
        if not self.refers(right) and not any(self.refers(part) for part in flat):
            self.burn(3)
            return disjoint({"allOf": list(flat)}, right)
        values = self.finite(flat)
        if values is None and ("const" in right or isinstance(right.get("enum"), list)):
            checks = [first_opinion(self.left.under(node)) for node in flat]
            named = [right["const"]] if "const" in right else right["enum"]
            return not any(all(check(value) for check in checks) for value in named)
        if values is not None:
            accepts = first_opinion(self.right.under(right))
            return not any(accepts(value) for value in values)
        return self._apart_by_parts(flat, right, depth)

    def _apart_by_parts(self, flat: Conjunction, right: dict[str, Any], depth: int) -> bool:
        target = self.right.target(right)
        if target is not None and self.apart(flat, target, depth):
            return True
        if any(self.apart(flat, part, depth) for part in right.get("allOf", [])):
            return True
        if any(word in right and all(self.apart(flat, part, depth) for part in right[word]) for word in ("anyOf", "oneOf")):
            return True
        if "not" in right and self.proves(flat, right["not"], depth):
            return True
        if types(flat) == {"object"}:
            needed = con.required(flat) | con.required((right,))
            for name in sorted(needed):
                mine, theirs = con.property_parts(flat, name), con.node_property(right, name)
                if any(self.apart(mine, other, depth + 1) for other in theirs):
                    return True
        return False

    def barred(self, flat: Conjunction) -> bool:
        """Whether a glance shows that no value satisfies the conjunction: no type is left, or what must be there may not."""
        found = types(flat)
        return not found or (found == {"object"} and any(self.flat(con.property_parts(flat, name)) is None for name in con.required(flat)))

    def nothing(self, flat: Conjunction) -> bool:
        """Whether it is shown that no value satisfies the conjunction."""
        if self.barred(flat):
            return True
        if any(self.refers(part) for part in flat):
            return False
        return impossible({"allOf": list(flat)})


def _without(node: Mapping[str, Any], *words: str) -> dict[str, Any]:
    """What is left of a schema that is taken apart. `unevaluated…` sees through what is taken away, so it must go as well."""
    return {word: value for word, value in node.items() if word not in words and not word.startswith("unevaluated")}


_VERBATIM: dict[str, tuple[str, ...]] = {"oneOf": ("oneOf",), "anyOf": ("anyOf",), "not": ("not",), "if": ("if", "then", "else")}
_STRING = ("pattern", "minLength", "maxLength")
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_ARRAY = ("prefixItems", "items", "minItems", "maxItems", "uniqueItems", "contains", "minContains", "maxContains", "unevaluatedItems")
_OBJECT = ("properties", "patternProperties", "additionalProperties", "propertyNames", "required", "minProperties", "maxProperties")
_OBJECT_MORE = ("dependentRequired", "dependentSchemas", "unevaluatedProperties")
_FACETS = {"string": _STRING, "number": _NUMBER, "array": _ARRAY, "object": (*_OBJECT, *_OBJECT_MORE)}
_WHOLE = ("type", "$ref", "allOf", "not", "if", "oneOf", "anyOf")
_IGNORED = frozenset({"then", "else", "format"})


def _groups(right: dict[str, Any]) -> Iterator[str]:
    """The demands of a schema, cheap ones first. A keyword that no rule knows is a demand that no rule meets."""
    known = {*_WHOLE, *_IGNORED, *(word for words in _FACETS.values() for word in words)}
    if set(right) - known:
        yield "unknown"  # `enum` and `const` too: only a finite left side can meet them
        return
    if "type" in right:
        yield "type"
    for group, words in _FACETS.items():
        if any(word in right for word in words):
            yield group
    yield from (word for word in _WHOLE[1:] if word in right)
