"""Random schemas and random changes of known direction, made apart from the product: its witness search shares nothing with them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "b", "user_id", "limit", "x/y")
Schema = dict[str, Any]


def strings() -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {"type": st.just("string")},
        optional={
            "minLength": st.integers(0, 2),
            "maxLength": st.integers(3, 6),
            "pattern": st.sampled_from(["^[a-z]*$", "^a", "b$", "^(x|yy)?$", "[0-9]", "^.{0,5}$"]),
        },
    )


def numbers() -> st.SearchStrategy[Schema]:
    return st.fixed_dictionaries(
        {"type": st.sampled_from(["integer", "number"])},
        optional={"minimum": st.integers(-3, 3), "maximum": st.integers(4, 9), "multipleOf": st.sampled_from([1, 2, 0.5])},
    )


def leaves() -> st.SearchStrategy[Schema]:
    enums = st.lists(st.sampled_from(["a", "b", 1, 2.5, True, None, {"k": 1}]), min_size=1, max_size=3, unique_by=repr).map(
        lambda values: {"enum": values}
    )
    return st.one_of(strings(), numbers(), enums, st.just({"type": "boolean"}), st.just({"type": ["string", "null"]}), st.just({}))


def objects(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    def build(properties: dict[str, Schema], needed: list[str], closed: bool | None) -> Schema:
        out: Schema = {"type": "object", "properties": properties}
        required = [name for name in needed if name in properties]
        if required:
            out["required"] = required
        if closed is not None:
            out["additionalProperties"] = not closed
        return out

    names = st.sampled_from(NAMES)
    return st.builds(
        build, st.dictionaries(names, inner, min_size=1, max_size=3), st.lists(names, max_size=2, unique=True), st.sampled_from([True, False, None])
    )


def arrays(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    optional = {"items": inner, "minItems": st.integers(0, 1), "maxItems": st.integers(2, 4), "uniqueItems": st.booleans()}
    return st.fixed_dictionaries({"type": st.just("array")}, optional=optional)


def unions(inner: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.builds(lambda word, branches: {word: branches}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3))


def values() -> st.SearchStrategy[Schema]:
    return st.recursive(leaves(), lambda inner: st.one_of(objects(inner), arrays(inner), unions(inner)), max_leaves=5)


def tools() -> st.SearchStrategy[Schema]:
    """Input schemas: objects at the top."""
    return objects(values())


@st.composite
def recursive_tools(draw: st.DrawFn) -> Schema:
    leaf = draw(leaves())
    closed = draw(st.booleans())
    node = {"type": "object", "properties": {"v": leaf, "kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["v"]}
    if closed:
        node["additionalProperties"] = False
    return {"$defs": {"node": node}, "type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}}


def places(schema: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of the schemas inside a schema where a change keeps its direction: properties and items, `anyOf` and `allOf` branches."""
    out = [at]
    if not isinstance(schema, dict):
        return []
    for name, child in schema.get("properties", {}).items():
        out += places(child, (*at, "properties", name))
    if "items" in schema:
        out += places(schema["items"], (*at, "items"))
    for word in ("anyOf", "allOf"):
        for index, child in enumerate(schema.get(word, [])):
            out += places(child, (*at, word, index))
    return out


def find(schema: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        schema = schema[step]
    return schema


@st.composite
def narrowed(draw: st.DrawFn, schema: Schema) -> Schema:
    """`schema` with one more demand somewhere: it never accepts more, and mostly accepts less."""
    out = json.loads(json.dumps(schema))  # a copy that shares nothing: one schema drawn for two places must change in one of them
    spot = find(out, draw(st.sampled_from(places(out))))
    sort = draw(st.sampled_from(["require", "bound", "enum", "not", "close", "drop-branch", "all"]))
    if sort == "require":
        spot["required"] = sorted({*spot.get("required", []), draw(st.sampled_from(["a", "b", "ghost"]))})
    elif sort == "bound":
        words = {"minLength": 2, "maxLength": 4, "minimum": 2, "maximum": 5, "minItems": 1, "maxItems": 2, "minProperties": 1}
        word = draw(st.sampled_from(sorted(words)))
        known = spot.get(word, words[word])
        spot[word] = max(known, words[word]) if word.startswith("min") else min(known, words[word])
    elif sort == "enum" and len(spot.get("enum", [])) > 1:
        spot["enum"] = spot["enum"][1:]
    elif sort == "not":
        spot["allOf"] = [*spot.get("allOf", []), {"not": draw(leaves())}]
    elif sort == "close" and spot.get("properties"):
        spot["additionalProperties"] = False
    elif sort == "drop-branch" and len(spot.get("anyOf", [])) > 1:
        spot["anyOf"] = spot["anyOf"][1:]
    else:
        spot["allOf"] = [*spot.get("allOf", []), draw(leaves())]
    return out
