"""The hash recipe on its vectors, and what never changes a hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import LoadError
from harness.inventory.canonical import (
    NotCanonical,
    canonical_bytes,
    component_hashes,
    json_equal,
    json_hash,
    prose,
    schema_hash,
    shape,
    shape_hash,
)
from harness.inventory.jsontext import depth_over, parse_json
from harness.inventory.shape import has_sealed_default, open_defaults, seal_defaults
from harness.model.tool import Tool

VECTORS = json.loads((Path(__file__).parent / "data" / "hash_vectors.json").read_text("utf-8"))

scalars = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4), max_leaves=12)
objects = st.dictionaries(st.text(max_size=6), values, max_size=5)

notes = st.fixed_dictionaries({}, optional={"title": st.text(max_size=5), "description": st.text(max_size=5), "$comment": st.text(max_size=3)})


def _schema(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["title", "description", "examples", "a", "b/c", "d~e"])
    body = st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(names, inner, max_size=3),
            "items": inner,
            "anyOf": st.lists(inner, max_size=2),
            "$defs": st.dictionaries(names, inner, max_size=2),
            "default": st.dictionaries(st.sampled_from(["title", "x"]), st.text(max_size=3), max_size=2),
            "enum": st.lists(st.dictionaries(st.just("description"), st.text(max_size=3)), max_size=2),
        },
    )
    return st.builds(lambda b, n: {**b, **n}, body, notes)


schemas = st.recursive(st.sampled_from([{"type": "string"}, {"type": "integer", "title": "t"}, {}]), _schema, max_leaves=8)


@pytest.mark.parametrize("vector", VECTORS["schemas"], ids=lambda v: f"{v['provider']}.{v['tool']}")
def test_whole_preimages_give_their_published_hash(vector: dict[str, Any]) -> None:
    assert schema_hash(vector["input_schema"]) == vector["schema_hash"]


@pytest.mark.parametrize("vector", VECTORS["texts"], ids=lambda v: v["canonical"][:40])
def test_number_and_text_edges(vector: dict[str, Any]) -> None:
    value = parse_json(vector["json"])
    assert canonical_bytes(value).decode() == vector["canonical"]
    assert json_hash(value) == vector["sha256"]
    assert schema_hash(value) == vector["sha256"]


def test_the_vectors_are_all_there() -> None:
    assert (len(VECTORS["schemas"]), len(VECTORS["texts"])) == (10, 16)


@pytest.mark.parametrize("absent", [None, [], "text", 3, True])
def test_a_schema_that_is_no_object_hashes_as_empty(absent: Any) -> None:
    assert schema_hash(absent) == hashlib.sha256(b"{}").hexdigest()


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2**53, "9007199254740992"),
        (2**53 + 1, "9007199254740992"),
        (-(2**53) - 3, "-9007199254740996"),
        (10**21, "1e+21"),
        (10**300, "1e+300"),
    ],
)
def test_integers_beyond_a_double_print_as_javascript_prints_them(number: int, text: str) -> None:
    assert canonical_bytes({"maximum": [number]}) == b'{"maximum":[' + text.encode() + b"]}"


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        (float("inf"), ""),
        ({"a": [1, {"b/c": float("nan")}]}, "/a/1/b~1c"),
        ({"a": "\ud800"}, "/a"),
        ({"\udfff": 1}, ""),
        ({"a": 10**400}, "/a"),
        ({"a": {"b": b"bytes"}}, "/a/b"),
        ({"big": 2**60, "bad": float("inf")}, "/bad"),
    ],
)
def test_what_has_no_canonical_text_is_named_with_its_pointer(value: Any, pointer: str) -> None:
    with pytest.raises(NotCanonical) as caught:
        canonical_bytes(value)
    assert caught.value.pointer == pointer
    assert caught.value.reason
    assert caught.value.fix
    assert caught.value.exit_code == 5


def test_an_exponent_that_overflows_is_refused_when_hashed_not_rounded() -> None:
    with pytest.raises(NotCanonical) as caught:
        schema_hash(parse_json('{"properties":{"n":{"maximum":1e400}}}'))
    assert caught.value.pointer == "/properties/n/maximum"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a":1,"a":2}', "stands twice"),
        ('{"x":{"b":1,"b":1}}', "stands twice"),
        ('{"a":NaN}', "NaN"),
        ('{"a":-Infinity}', "Infinity"),
        ("{", "not JSON"),
        ("", "not JSON"),
        ("1 2", "not JSON"),
        (b'{"a":"\xff"}', "UTF-8"),
        ("[" * 129 + "]" * 129, "nested"),
        ("[" * 100_000, "nested"),
        ("1" * 5000, "not usable"),
    ],
)
def test_strict_json_refuses(text: str | bytes, says: str) -> None:
    with pytest.raises(LoadError) as caught:
        parse_json(text, where="reply")
    assert says in str(caught.value)
    assert caught.value.where.startswith("reply")
    assert caught.value.fix


def test_strict_json_bounds_bytes_and_depth_exactly() -> None:
    assert parse_json("[" * 128 + "]" * 128)
    with pytest.raises(LoadError, match="larger"):
        parse_json('"abcdef"', max_bytes=7)
    assert parse_json('"abcdef"', max_bytes=8) == "abcdef"
    assert not depth_over({"a": [1]}, 2)
    assert depth_over({"a": [[]]}, 2)


@settings(max_examples=60, deadline=None)
@given(objects, st.randoms())
def test_the_order_of_keys_never_changes_a_hash(value: dict[str, Any], random: Any) -> None:
    def shuffled(node: Any) -> Any:
        if isinstance(node, dict):
            keys = list(node)
            random.shuffle(keys)
            return {key: shuffled(node[key]) for key in keys}
        return [shuffled(child) for child in node] if isinstance(node, list) else node

    assert schema_hash(value) == schema_hash(shuffled(value))


@settings(max_examples=60, deadline=None)
@given(values)
def test_canonical_text_is_a_fixed_point(value: Any) -> None:
    text = canonical_bytes(value)
    assert canonical_bytes(parse_json(text)) == text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(), min_size=2, max_size=4, unique=True))
def test_the_order_of_an_array_does_change_it(items: list[int]) -> None:
    assert schema_hash({"enum": items}) != schema_hash({"enum": items[::-1]})


@settings(max_examples=60, deadline=None)
@given(schemas)
def test_shape_is_idempotent_and_keeps_property_names(schema: dict[str, Any]) -> None:
    shaped = shape(schema)
    assert shape(shaped) == shaped
    assert prose(shaped) == {}
    assert set(shaped.get("properties", {})) == set(schema.get("properties", {}))
    assert shaped.get("default") == schema.get("default")
    assert shaped.get("enum") == schema.get("enum")


@settings(max_examples=60, deadline=None)
@given(schemas, st.text(max_size=5))
def test_text_changes_prose_and_hash_but_never_the_shape(schema: dict[str, Any], text: str) -> None:
    changed = {**schema, "description": text + "!"}
    assert shape_hash(changed) == shape_hash(schema)
    assert prose(changed)["/description"] == hashlib.sha256((text + "!").encode()).hexdigest()
    without = {key: value for key, value in schema.items() if key != "description"}
    assert schema_hash(without) != schema_hash(changed)


def test_shape_strips_only_in_schema_position() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Args",
        "type": "object",
        "properties": {
            "title": {"type": "string", "title": "Title", "examples": ["x"], "deprecated": True},
            "description": {"$comment": "c", "const": {"description": "kept"}},
            "nested": {
                "items": [{"title": "t", "type": "null"}],
                "dependencies": {"a": ["title"], "b": {"title": "x", "minProperties": 1}},
            },
        },
        "required": ["title"],
        "default": {"title": "kept"},
    }
    assert shape(schema) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "description": {"const": {"description": "kept"}},
            "nested": {"items": [{"type": "null"}], "dependencies": {"a": ["title"], "b": {"minProperties": 1}}},
        },
        "required": ["title"],
        "default": {"title": "kept"},
    }
    assert set(prose(schema)) == {
        "/$schema",
        "/title",
        "/properties/title/title",
        "/properties/title/examples",
        "/properties/title/deprecated",
        "/properties/description/$comment",
        "/properties/nested/items/0/title",
        "/properties/nested/dependencies/b/title",
    }


def test_text_in_defaults_is_sealed_unless_reviewed() -> None:
    schema = {"properties": {"space": {"default": "acme-tenant"}, "n": {"default": 3}, "deep": {"default": {"k": ["acme"]}}}}
    sealed = seal_defaults(schema)
    assert "acme" not in json.dumps(sealed)
    assert sealed["properties"]["n"] == {"default": 3}
    assert seal_defaults(sealed) == sealed
    assert has_sealed_default(sealed)
    assert not has_sealed_default(schema)
    assert open_defaults(schema) == ("/properties/space/default", "/properties/deep/default")
    assert open_defaults(sealed) == ()
    kept = seal_defaults(schema, frozenset({"/properties/space/default"}))
    assert kept["properties"]["space"] == {"default": "acme-tenant"}


def test_components_hash_apart() -> None:
    plain = Tool.from_wire({"name": "t", "inputSchema": {}})
    assert component_hashes(plain).model_dump() == dict.fromkeys(("output_schema", "annotations", "title", "description"))
    rich = Tool.from_wire({"name": "t", "title": "T", "description": "D", "annotations": {"readOnlyHint": True}, "outputSchema": {"type": "object"}})
    hashes = component_hashes(rich)
    assert hashes.title == hashlib.sha256(b"T").hexdigest()
    assert hashes.annotations == hashlib.sha256(b'{"readOnlyHint":true}').hexdigest()
    assert len({hashes.output_schema, hashes.annotations, hashes.title, hashes.description}) == 4
    renamed = Tool.from_wire({**rich.wire, "name": "mem0__t", "title": "[mem0] T"})
    assert component_hashes(renamed).description == hashes.description
    assert component_hashes(renamed).title != hashes.title


def test_a_component_without_canonical_text_names_its_part() -> None:
    with pytest.raises(NotCanonical) as caught:
        component_hashes(Tool.from_wire({"name": "t", "annotations": {"x": float("inf")}}))
    assert caught.value.pointer == "/annotations/x"


@pytest.mark.parametrize(("left", "right", "equal"), [(1, 1.0, True), (1, True, False), (0, False, False), ([1], [1.0], True), ("1", 1, False)])
def test_json_equality(left: Any, right: Any, equal: bool) -> None:
    assert json_equal(left, right) is equal


@pytest.mark.parametrize("wire", [None, [], "x", {}, {"name": 3}, {"name": ""}, {"name": "  "}])
def test_what_is_no_tool(wire: Any) -> None:
    with pytest.raises(ValueError, match="tool"):
        Tool.from_wire(wire)


def test_a_tool_reads_from_its_wire_and_nothing_else() -> None:
    wire = {"name": " odd ", "input_schema": {"properties": {"bb": {}, "a": {}, "é": {}}}, "x-vendor": 1}
    tool = Tool.from_wire(wire)
    assert (tool.name, tool.parameters, tool.wire["x-vendor"]) == (" odd ", ("a", "bb", "é"), 1)
    assert tool.annotations == {}
    assert tool.output_schema is None
    assert tool.title is None
    assert Tool.from_wire({"name": "n", "annotations": []}).annotations == {}
    assert Tool.from_wire({"name": "n", "inputSchema": None, "input_schema": {}}).input_schema is None
