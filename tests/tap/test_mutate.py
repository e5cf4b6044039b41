"""Catalog mutations as pure functions: every kind on generated tools, and the nearest forms that the module documents."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.tap import MUTATION_KINDS, SIX_KINDS, Mutation, mutate_tool
from harness.tap.mutate import ADDED_PARAMETER, ADDED_TOOL, LOOP_CURSOR, apply

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # the machine may be busy

NAMES = st.sampled_from(["text", "limit", "title", "filters", "harness_added", "type", "ünï"])
SCALARS = st.sampled_from(
    [
        {"type": "string"}, {"type": "integer", "minimum": 1}, {"type": "boolean", "default": True}, {"type": ["string", "null"]}, {},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, {"type": "string", "enum": ["a", "b"]}, {"enum": ["only"]},
        {"anyOf": [{"type": "string", "enum": ["x", "y", "z"]}, {"type": "null"}]}, {"const": 4}, {"$ref": "#/$defs/scope"}, {"type": "number"}, True,
    ]
)  # fmt: skip
PROPERTY = SCALARS | st.fixed_dictionaries({"type": st.just("array"), "items": SCALARS}) | st.fixed_dictionaries(
    {"type": st.just("object"), "properties": st.dictionaries(NAMES, SCALARS, min_size=1, max_size=2)}
)  # fmt: skip


@st.composite
def tools(draw: st.DrawFn) -> dict[str, Any]:
    properties = draw(st.dictionaries(NAMES, PROPERTY, max_size=4))
    schema: dict[str, Any] = {"type": "object", "properties": properties, "$defs": {"scope": {"type": "object"}}}
    required = [name for name in properties if draw(st.booleans())]
    if required:
        schema["required"] = required
    if draw(st.booleans()):
        schema["additionalProperties"] = draw(st.booleans())
    tool: dict[str, Any] = {"name": "t", "inputSchema": draw(st.just(schema) | st.just({}) | st.just({"type": "object"}))}
    if draw(st.booleans()):
        tool["description"] = "Does."
        tool["annotations"] = {"readOnlyHint": draw(st.booleans())}
    return tool


TOOL_KINDS = sorted(MUTATION_KINDS - {"tool-removed", "tool-added", "cursor-dropped", "cursor-loop"})


@RELAXED
@given(tools())
def test_a_mutation_differs_and_leaves_its_input_alone(tool: dict[str, Any]) -> None:
    before = copy.deepcopy(tool)
    for kind in TOOL_KINDS:
        changed = mutate_tool(tool, kind)
        assert tool == before
        if changed is None:
            assert kind not in ("parameter-added", "description-changed", "hint-flipped", "output-schema-changed", "tool-renamed")
            continue
        assert changed != tool
        jsonschema.Draft202012Validator.check_schema(changed["inputSchema"])
        meant = {"inputSchema"} if kind in SIX_KINDS[:-1] else {"description", "annotations", "outputSchema", "name"}
        assert {key for key in changed if changed[key] != tool.get(key)} <= meant


@RELAXED
@given(tools())
def test_only_a_closed_tool_can_have_nothing_to_change(tool: dict[str, Any]) -> None:
    schema = tool["inputSchema"]
    properties = schema.get("properties", {})
    changeable = [p for p in properties.values() if isinstance(p, dict) and "enum" not in p and "const" not in p]
    for kind in SIX_KINDS:
        if mutate_tool(tool, kind) is None:
            assert schema.get("additionalProperties") is False
            assert not properties or kind == "parameter-required" or (kind == "enum-narrowed" and not changeable)


@RELAXED
@given(tools())
def test_a_retyped_parameter_accepts_nothing_it_accepted(tool: dict[str, Any]) -> None:
    changed = mutate_tool(tool, "parameter-retyped")
    properties = tool["inputSchema"].get("properties", {})
    if changed is None or not properties:
        return
    (name,) = [n for n in properties if changed["inputSchema"]["properties"][n] != properties[n]]
    old = jsonschema.Draft202012Validator({**tool["inputSchema"], "required": [], "additionalProperties": True, "type": "object"})
    new = jsonschema.Draft202012Validator(changed["inputSchema"]["properties"][name])
    says_its_type = properties[name] not in ({}, True)
    for value in ("a", "x", 1, 1.5, True, None, [], {}, "only", 4):
        if says_its_type and old.is_valid({name: value}) and not (isinstance(value, float) and value.is_integer()):
            assert not new.is_valid(value)


@RELAXED
@given(tools())
def test_a_narrowed_enum_allows_less(tool: dict[str, Any]) -> None:
    changed = mutate_tool(tool, "enum-narrowed")
    if changed is None:
        return
    old, new = (jsonschema.Draft202012Validator(t["inputSchema"]) for t in (tool, changed))
    required = dict.fromkeys(tool["inputSchema"].get("required", []), "a")
    for value in ("a", "x", 1, True, None, [], {}, "only", 4):
        for name in (*tool["inputSchema"].get("properties", {}), "undeclared"):
            if new.is_valid({**required, name: value}):
                assert old.is_valid({**required, name: value})


def test_the_six_kinds_on_a_plain_tool() -> None:
    schema = {"type": "object", "properties": {"b": {"type": "string", "enum": ["x", "y"]}, "a": {"type": "integer"}}, "required": ["a"]}
    tool = {"name": "t", "description": "D.", "inputSchema": schema}

    def changed(kind: str, **settings: Any) -> Any:
        return (mutate_tool(tool, kind, **settings) or {})["inputSchema"]

    assert changed("parameter-added")["properties"][ADDED_PARAMETER] == {"type": "string"}
    assert changed("parameter-removed") == {"type": "object", "properties": {"b": schema["properties"]["b"]}}
    assert changed("parameter-removed", parameter="b")["required"] == ["a"]
    assert changed("parameter-retyped")["properties"]["a"] == {"type": "boolean"}
    assert changed("parameter-required")["required"] == ["a", "b"]
    assert changed("enum-narrowed")["properties"]["b"]["enum"] == ["x"]
    assert changed("enum-narrowed", parameter="a")["properties"]["a"] == {"type": "integer", "enum": [1, 2]}
    assert (mutate_tool(tool, "description-changed") or {})["description"] == "D. Changed on the wire."
    assert changed("description-changed", parameter="a")["properties"]["a"]["description"] == "Changed on the wire."
    assert mutate_tool(tool, "parameter-removed", parameter="zzz") is None
    assert mutate_tool(tool, "parameter-required", parameter="a") is None


def test_undeclared_parameters_stand_in_on_an_open_tool() -> None:
    for empty in ({}, {"type": "object", "properties": {}}):
        tool = {"name": "t", "inputSchema": empty}
        assert (mutate_tool(tool, "parameter-removed") or {})["inputSchema"]["additionalProperties"] is False
        assert (mutate_tool(tool, "parameter-retyped") or {})["inputSchema"]["additionalProperties"] == {"type": "integer"}
        assert (mutate_tool(tool, "enum-narrowed") or {})["inputSchema"]["additionalProperties"] == {"enum": ["a", "b"]}
        assert (mutate_tool(tool, "parameter-required") or {})["inputSchema"]["required"] == ["harness_required"]


def test_hints_outputs_and_names() -> None:
    tool = {"name": "t", "inputSchema": {}, "annotations": {"readOnlyHint": True}, "outputSchema": {"type": "object", "properties": {"a": {}}}}
    assert (mutate_tool(tool, "hint-flipped") or {})["annotations"] == {"readOnlyHint": False}
    assert (mutate_tool(tool, "hint-flipped", hint="destructiveHint") or {})["annotations"] == {"readOnlyHint": True, "destructiveHint": True}
    assert set((mutate_tool(tool, "output-schema-changed") or {})["outputSchema"]["properties"]) == {"a", "harness_output"}
    assert (mutate_tool(tool, "tool-renamed") or {})["name"] == "t_renamed"
    assert (mutate_tool(tool, "tool-renamed", name="u") or {})["name"] == "u"


def test_pages() -> None:
    page = {"tools": [{"name": "a", "inputSchema": {}}, {"name": "b", "inputSchema": {}}, "odd"], "nextCursor": "2", "_meta": {"k": 1}}
    before = copy.deepcopy(page)
    assert [t["name"] for t in apply(page, [Mutation(kind="tool-removed", tool="a")])["tools"] if isinstance(t, dict)] == ["b"]
    assert "nextCursor" not in apply(page, [Mutation(kind="cursor-dropped")])
    assert apply(page, [Mutation(kind="cursor-loop")])["nextCursor"] == LOOP_CURSOR
    assert apply(page, [Mutation(kind="tool-added")]) == page  # only where the list ends
    last = apply(page, [Mutation(kind="cursor-dropped"), Mutation(kind="tool-added"), Mutation(kind="tool-added", name="n")])
    assert [t["name"] for t in last["tools"] if isinstance(t, dict)] == ["a", "b", ADDED_TOOL, "n"]
    renamed = apply(page, [Mutation(kind="tool-renamed", tool="b", name="c"), Mutation(kind="description-changed", tool="c")])
    assert renamed["tools"][1] == {"name": "c", "inputSchema": {}, "description": "Changed on the wire."}
    everywhere = apply(page, [Mutation(kind="parameter-added")])
    assert all(ADDED_PARAMETER in t["inputSchema"]["properties"] for t in everywhere["tools"] if isinstance(t, dict))
    assert apply({"tools": "none"}, [Mutation(kind=kind) for kind in sorted(MUTATION_KINDS)])["tools"] == "none"
    assert page == before


def test_an_unknown_kind_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        Mutation(kind="parameter-remove")
    assert "parameter-removed" in caught.value.fix
    with pytest.raises(UsageError):
        mutate_tool({"name": "t"}, "cursor-loop")
