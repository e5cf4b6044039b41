"""Whether a conjunction meets the demands of one schema on objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.drift import conjunction as con
from harness.drift.conjunction import Conjunction
from harness.drift.document import Schema
from harness.drift.language import Automaton, automaton, pattern_included
from harness.drift.proving import Proving
from harness.drift.regex import NotRegular
from harness.drift.validators import first_opinion

_UNNAMED = frozenset({"$ref", "allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas"})


def object_holds(prover: Proving, flat: Conjunction, right: dict[str, Any], depth: int) -> bool:
    if "unevaluatedProperties" in right and any(_looks_alike(prover, node, right) for node in flat):
        right = {word: value for word, value in right.items() if word != "unevaluatedProperties"}
    if "unevaluatedProperties" in right:
        if _UNNAMED & set(right):
            return False
        right = {**right, "additionalProperties": right.get("additionalProperties", right["unevaluatedProperties"])}
    needed = con.required(flat)
    if not con.required((_only(right, "required"),)) <= needed:
        return False
    names = con.finite_names(flat)
    known = set(names) if names is not None else {name for node in (*flat, right) for name in node.get("properties", {})}
    present = [name for name in sorted(known) if may_hold(prover, flat, name)]
    if max(con.least(flat, "minProperties"), len(needed)) < con.least((right,), "minProperties"):
        return False
    limit = con.most((right,), "maxProperties")
    if limit is not None:
        mine = con.most(flat, "maxProperties")
        if not (mine is not None and mine <= limit) and (names is None or len(present) > limit):
            return False
    if not _dependents_hold(prover, flat, right, present, names, depth):
        return False
    for name in present:
        if not _name_holds(prover, right, name):
            return False
        if not all(prover.proves(con.property_parts(flat, name), wanted, depth + 1) for wanted in _wanted(right, name)):
            return False
    return names is not None or _others_hold(prover, flat, right, depth)


def _looks_alike(prover: Proving, node: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether `right` leaves no property unevaluated that `node` evaluates, and asks the same of those that are left."""
    words = (*_UNNAMED, "then", "else", "unevaluatedProperties")
    mine, theirs = ({word: side[word] for word in words if word in side} for side in (node, right))
    if prover.text(mine) != prover.text(theirs) or prover.refers(theirs):
        return False
    kept = all(set(node.get(word, {})) <= set(right.get(word, {})) for word in ("properties", "patternProperties"))
    return kept and ("additionalProperties" in right or "additionalProperties" not in node)


def _only(node: Mapping[str, Any], keyword: str) -> dict[str, Any]:
    return {keyword: node[keyword]} if keyword in node else {}


def may_hold(prover: Proving, flat: Conjunction, name: str) -> bool:
    """Whether an object of the conjunction may have property `name`, as far as can be told."""
    for node in flat:
        if "propertyNames" in node and not first_opinion(prover.left.under(node["propertyNames"]))(name):
            return False
    inner = prover.flat(con.property_parts(flat, name))
    return inner is not None and not prover.nothing(inner)


def _name_holds(prover: Proving, right: Mapping[str, Any], name: str) -> bool:
    return "propertyNames" not in right or first_opinion(prover.right.under(right["propertyNames"]))(name)


def _wanted(right: Mapping[str, Any], name: str) -> list[Schema]:
    """What `right` asks of the value of `name`: too much rather than too little where a pattern is not understood."""
    found = con.node_property(right, name)
    told = [(con.matches(pattern, name), schema) for pattern, schema in right.get("patternProperties", {}).items()]
    unsure = [schema for hit, schema in told if hit is None]
    if unsure and name not in right.get("properties", {}) and "additionalProperties" in right:
        unsure.append(right["additionalProperties"])
    return [*found, *unsure]


def _dependents_hold(
    prover: Proving, flat: Conjunction, right: Mapping[str, Any], present: list[str], names: frozenset[str] | None, depth: int
) -> bool:
    def possible(name: str) -> bool:
        return name in present if names is not None else may_hold(prover, flat, name)

    for name, others in (right.get("dependentRequired") or {}).items():
        if possible(name) and not set(others) <= con.required((*flat, {"required": [name]})):
            return False
    for name, schema in (right.get("dependentSchemas") or {}).items():
        if possible(name) and not prover.proves((*flat, {"required": [name]}), schema, depth):
            return False
    return True


def _others_hold(prover: Proving, flat: Conjunction, right: Mapping[str, Any], depth: int) -> bool:
    """Names that neither side declares: by pattern, and then all that is left."""
    patterns = right.get("patternProperties", {})
    for pattern, wanted in patterns.items():
        if not all(prover.proves(case, wanted, depth + 1) for case in _values_at(flat, pattern)):
            return False
    extra = right.get("additionalProperties", True)
    if extra is not True and not all(prover.proves(case, extra, depth + 1) for case in _values_elsewhere(flat, patterns)):
        return False
    return "propertyNames" not in right or all(prover.proves(case, right["propertyNames"], depth + 1) for case in _names(flat))


def _values_at(flat: Conjunction, pattern: str) -> Iterator[tuple[Schema, ...]]:
    """What the value of an undeclared name that matches `pattern` must satisfy; nothing at all when there is no such name."""
    try:
        language: list[Automaton] = [automaton(pattern)]
    except NotRegular:
        language = []
    for node in flat:
        names = node.get("propertyNames")
        if isinstance(names, dict):
            language += con.language((names,))
    if language and pattern_included(language, r"[^\s\S]"):
        return
    out: list[Schema] = []
    for node in flat:
        own = node.get("patternProperties", {})
        hits = [schema for mine, schema in own.items() if mine == pattern or (language and pattern_included(language, mine) is True)]
        out += hits
        if not own and "additionalProperties" in node:
            out.append(node["additionalProperties"])
    yield tuple(out)


def _values_elsewhere(flat: Conjunction, theirs: Mapping[str, Any]) -> Iterator[tuple[Schema, ...]]:
    """What the value of a name that nobody declares, and that no pattern of `theirs` matches, must satisfy: case by case."""
    base: list[Schema] = [node["additionalProperties"] for node in flat if "additionalProperties" in node and not node.get("patternProperties")]
    patterned = [node for node in flat if node.get("patternProperties")]
    for node in patterned:
        for pattern, schema in node["patternProperties"].items():
            if pattern not in theirs:
                yield (*base, schema)
    yield (*base, *(node["additionalProperties"] for node in patterned if "additionalProperties" in node))


def _names(flat: Conjunction) -> Iterator[tuple[Schema, ...]]:
    """What a property name must satisfy, as a text: case by case where an object is closed but for patterns."""
    base: list[Schema] = [{"type": "string"}, *(node["propertyNames"] for node in flat if "propertyNames" in node)]
    for node in flat:
        if node.get("additionalProperties") is False and node.get("patternProperties"):
            for pattern in node["patternProperties"]:
                yield (*base, {"pattern": pattern})
            return
    yield tuple(base)
