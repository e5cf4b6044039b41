"""Public reports turned into small inputs, with the verdict that a right product gives; and the whole kind behind each."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.drift.compare import compare
from harness.drift.lint import lint
from harness.drift.relation import relate
from harness.drift.relations import relations_between
from harness.inventory.canonical import schema_hash
from harness.inventory.side import Side, tools_views
from harness.model.drift import DriftReport, Relation
from harness.model.tool import Tool


def _relate(old: Any, new: Any, old_draft: int | None, new_draft: int | None) -> Relation:
    return relate(old, new, old_draft=old_draft, new_draft=new_draft)


def side(*wires: dict[str, Any]) -> Side:
    return Side("s", tools_views([Tool.from_wire(wire) for wire in wires]))


def judged(old: Side, new: Side) -> DriftReport:
    return compare(old, new, relations=relations_between(old, new, _relate))


def pair(old: Any, new: Any) -> DriftReport:
    return judged(side({"name": "t", "inputSchema": old}), side({"name": "t", "inputSchema": new}))


STRING, INTEGER = {"type": "string"}, {"type": "integer"}


def test_a05_an_order_that_changes_with_each_start_is_cosmetic_and_named() -> None:
    old = {"type": "object", "properties": {"a": STRING, "b": INTEGER}, "required": ["a", "b"]}
    new = {"type": "object", "properties": {"b": INTEGER, "a": STRING}, "required": ["b", "a"]}
    assert schema_hash(old) != schema_hash(new)
    report = pair(old, new)
    assert report.verdict == "same"
    assert report.relations["t"].input == relate(old, new)
    assert [(finding.id, finding.severity, finding.pointer) for finding in report.findings] == [("order-changed", "info", "/inputSchema/required")]
    assert "order only: required" in report.findings[0].message


def test_a05_enum_members_may_be_objects() -> None:
    old = {"type": "object", "properties": {"m": {"enum": [{"k": 1}, {"k": 2}]}}}
    new = {"type": "object", "properties": {"m": {"enum": [{"k": 2}, {"k": 1}]}}}
    report = pair(old, new)
    assert report.relations["t"].input is not None
    assert report.relations["t"].input.strict == "equal"
    assert [finding.id for finding in report.findings] == ["order-changed"]
    assert "order only: enum of parameter 'm'" in report.findings[0].message


@settings(max_examples=40, deadline=None)
@given(st.permutations(["a", "b", "c"]), st.permutations([1, "x", None, [1], {"k": {"l": 2}}, True]))
def test_a05_any_order_of_required_and_enum_is_order_only(needed: list[str], members: list[Any]) -> None:
    properties = {"a": STRING, "b": {"enum": [1, "x", None, [1], {"k": {"l": 2}}, True]}, "c": {}}
    old = {"type": "object", "properties": properties, "required": ["a", "b", "c"]}
    report = pair(old, {"type": "object", "properties": {**properties, "b": {"enum": members}}, "required": needed})
    assert {finding.id for finding in report.findings} <= {"order-changed"}
    assert report.verdict == "same"


def test_a06_a_required_ghost_on_an_open_object_breaks_with_a_witness() -> None:
    old = {"type": "object", "properties": {"a": STRING}, "required": ["a"]}
    report = pair(old, {**old, "required": ["a", "ghost"]})
    assert report.relations["t"].input is not None
    assert report.relations["t"].input.strict == "narrowed"
    (broken,) = report.findings_of("breaking")
    assert broken.id == "parameter-required"
    assert "'ghost'" in broken.message
    assert "declared nowhere" in broken.message
    assert set(broken.witness) == {"a"}
    assert ("required-undeclared", "/inputSchema/properties/ghost") in {(finding.id, finding.pointer) for finding in report.findings}


def test_a06_a_required_ghost_on_a_closed_object_leaves_nothing_to_call() -> None:
    old = {"type": "object", "properties": {"a": STRING}, "required": ["a"], "additionalProperties": False}
    new = {**old, "required": ["a", "ghost"]}
    report = pair(old, new)
    assert {"parameter-required", "tool-uncallable"} <= {finding.id for finding in report.findings_of("breaking")}
    assert all(set(finding.witness) == {"a"} for finding in report.findings_of("breaking"))
    assert "schema is to blame, not the caller" in next(finding.message for finding in report.findings if finding.id == "tool-uncallable")
    assert "tool-uncallable" in {finding.id for finding in lint(side({"name": "t", "inputSchema": new}))}
    assert new["required"] == ["a", "ghost"]  # nothing was mended on the way
    assert relate(new, new).strict == "equal"
    assert relate(new, old).strict == "widened"


def test_a07_a_pattern_that_spells_an_enumeration_is_the_enumeration() -> None:
    old = {"type": "object", "properties": {"focus": {"type": "string", "pattern": "^(recent|oldest|score)$"}}}
    new = {"type": "object", "properties": {"focus": {"type": "string", "enum": ["recent", "oldest", "score"]}}}
    report = pair(old, new)
    assert report.relations["t"].input is not None
    assert report.relations["t"].input.strict == "equal"
    assert report.findings_of("breaking", "risk") == ()
    assert {finding.id for finding in report.findings} <= {"schema-rewritten", "pattern-removed"}
    for schema in (old, new):
        assert not jsonschema_rs.validator_for(schema).is_valid({"focus": "recent\n"})
    less = {"type": "object", "properties": {"focus": {"type": "string", "enum": ["recent", "oldest"]}}}
    assert relate(old, less).witness == {"focus": "score"}


def test_a07_a_bound_that_grew_is_widened() -> None:
    old = {
        "type": "object",
        "properties": {"year": {"anyOf": [{"type": "integer", "minimum": 1990, "maximum": 2030}, {"type": "null"}], "default": None}},
    }
    new = {"type": "object", "properties": {"year": {"type": ["integer", "null"], "minimum": 1990, "maximum": 2031}}}
    report = pair(old, new)
    assert report.relations["t"].input is not None
    assert report.relations["t"].input.strict == "widened"
    assert report.findings_of("breaking") == ()
    assert {finding.id for finding in report.findings_of("risk")} <= {"default-changed"}


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("abcXYZ019 -_", min_size=1, max_size=6), min_size=1, max_size=5, unique=True), st.booleans())
def test_a07_any_list_of_plain_words(members: list[str], one_less: bool) -> None:
    old = {"type": "object", "properties": {"q": {"type": "string", "pattern": f"^({'|'.join(members)})$"}}}
    kept = members[1:] if one_less else members
    found = relate(old, {"type": "object", "properties": {"q": {"enum": kept}}})
    if one_less:
        assert (found.strict, found.witness) == ("narrowed", {"q": members[0]})
    else:
        assert found.strict == "equal"


NAMES = ["获取记忆", "删除记忆", "memory.get", "memory_get", "memory/get"]


def test_a08_names_in_any_script_stay_five_tools() -> None:
    listed = side(*({"name": name, "inputSchema": {"type": "object"}} for name in NAMES))
    assert [view.name for view in listed.views] == NAMES
    report = judged(listed, listed)
    assert (report.names.compared, report.names.agreed, report.findings) == (5, 5, ())
    found = {(finding.tool, finding.id) for finding in lint(listed)}
    assert {tool for tool, rule in found if rule == "tool-name-unusual"} == {"获取记忆", "删除记忆", "memory/get"}
    assert {tool for tool, rule in found if rule == "tool-name-collision"} == set(NAMES)
    for gone in NAMES:
        rest = side(*({"name": name, "inputSchema": {"type": "object"}} for name in NAMES if name != gone))
        assert [(f.id, f.tool) for f in judged(listed, rest).findings_of("breaking")] == [("tool-removed", gone)]


def test_a09_a_top_level_union_is_the_same_with_and_without_a_type() -> None:
    branches = [{"properties": {"id": STRING}, "required": ["id"]}, {"properties": {"q": STRING}, "required": ["q"]}]
    old = {"anyOf": [{"type": "object", **branch} for branch in branches]}
    new = {"type": "object", "anyOf": branches}
    report = pair(old, new)
    assert report.relations["t"].input is not None
    assert report.relations["t"].input.strict == "equal"
    assert report.findings_of("breaking", "risk", "text") == ()
    back = pair(new, old)
    assert back.findings_of("breaking") == ()
    assert {finding.id for finding in back.findings_of("risk")} == {"schema-root-untyped"}
    listed = side({"name": "odd", "inputSchema": old}, *({"name": name, "inputSchema": {"type": "object"}} for name in ("a", "b", "c")))
    assert [finding.tool for finding in lint(listed) if finding.id == "schema-root-untyped"] == ["odd"]
    assert len(listed.views) == 4
    nothing = judged(listed, side())
    assert {finding.tool for finding in nothing.findings if finding.id == "tool-removed"} == {"odd", "a", "b", "c"}


@pytest.mark.parametrize("needed", [None, []])
def test_a09_required_null_and_empty_say_nothing(needed: Any) -> None:
    old = {"type": "object", "properties": {"a": STRING}}
    assert relate(old, {**old, "required": needed}).strict == "equal"
