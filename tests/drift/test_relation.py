"""The verdict on two schemas: the known cases, the public ones, and what must hold of any pair."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.drift.relation import recheck, relate
from harness.model.drift import Relation
from tests.drift import schemas as make

DATA = Path(__file__).parent / "data"
KNOWN = json.loads((DATA / "drift_cases.json").read_text())["cases"]
FURTHER = json.loads((DATA / "further_cases.json").read_text())["cases"]
MIRROR = {"narrowed": "widened", "widened": "narrowed"}
LOOSE = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
)


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[jsonschema.ValidationError]:
    """With `$` as JSON Schema means it: the end of the text, where Python's also stands before a last line break."""
    if isinstance(instance, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), instance):
        yield jsonschema.ValidationError("no match")


SECOND = jsonschema.validators.extend(jsonschema.Draft202012Validator, {"pattern": _pattern})


def _confirmed(old: Any, new: Any, found: Relation) -> bool:
    """Both validators, asked here and not by the product, on the schemas as they were written."""
    pairs = [(found.witness, old, new), (found.reverse_witness, new, old)]
    for value, valid, refused in pairs:
        if value is None:
            continue
        for schema, wanted in ((valid, True), (refused, False)):
            if jsonschema_rs.validator_for(schema).is_valid(value) is not wanted:
                return False
            if SECOND(schema).is_valid(value) is not wanted:
                return False
    return True


@pytest.mark.parametrize("case", [*KNOWN, *FURTHER], ids=lambda case: case["id"])
def test_each_known_case_is_decided_rightly_with_a_confirmed_example(case: dict[str, Any]) -> None:
    found = relate(case["before"], case["after"])
    assert found.strict == case["relation"], found
    assert (found.witness is not None) == (case["relation"] in ("narrowed", "incomparable"))
    assert (found.reverse_witness is not None) == (case["relation"] in ("widened", "incomparable"))
    assert _confirmed(case["before"], case["after"], found)
    assert recheck(case["before"], case["after"], found)


@pytest.mark.parametrize("case", [*KNOWN, *FURTHER], ids=lambda case: case["id"])
def test_the_other_direction_mirrors_it(case: dict[str, Any]) -> None:
    back = relate(case["after"], case["before"])
    assert back.strict == MIRROR.get(case["relation"], case["relation"])


def test_no_more_than_four_of_the_known_cases_are_unproven_and_none_is_wrong() -> None:
    found = [(relate(case["before"], case["after"]).strict, case["relation"]) for case in KNOWN]
    assert len(found) == 60
    assert sum(said == "unproven" for said, _ in found) <= 4
    assert [pair for pair in found if pair[0] not in ("unproven", pair[1])] == []


def test_three_meanings_of_a_break_are_told_apart() -> None:
    old = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "integer"}}}
    added = {**old, "properties": {**old["properties"], "more": {"type": "boolean"}}}
    found = relate(old, added)
    assert (found.strict, found.documented, found.breaks, found.ignored_arguments) == ("narrowed", "widened", "no", ())
    gone = {**old, "properties": {"q": {"type": "string"}}}
    found = relate(old, gone)
    assert (found.strict, found.breaks, found.ignored_arguments) == ("widened", "no", ("/properties/n",))
    shut = {**gone, "additionalProperties": False}
    found = relate(old, shut)
    assert (found.strict, found.breaks, found.ignored_arguments) == ("narrowed", "yes", ())
    assert found.documented_witness
    assert set(found.witness) == {"n"}


def test_a_format_breaks_only_where_formats_are_asserted() -> None:
    old = {"type": "object", "properties": {"q": {"type": "string"}}}
    new = {"type": "object", "properties": {"q": {"type": "string", "format": "email"}}}
    assert (relate(old, new).strict, relate(old, new).format_only) == ("equal", True)
    assert (relate(new, old).strict, relate(new, old).format_only) == ("equal", False)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ({"type": "object"}, {"type": "object", "properties": {"q": {"$ref": "https://example.com/x"}}}, "remote-reference"),
        ({"type": "object"}, {"type": "object", "properties": {"q": {"minimum": "x"}}}, "not a usable schema"),
        ({"type": "object"}, ["no", "schema"], "not-a-schema"),
        ({"type": "object", "maximum": 1}, {"type": "object", "maximum": float("inf")}, "not a usable schema"),
        ({"type": "object"}, {"$schema": "https://example.com/own-dialect", "type": "object"}, "unknown-draft"),
    ],
)
def test_what_cannot_be_decided_is_unproven_with_its_reason(old: Any, new: Any, reason: str) -> None:
    found = relate(old, new)
    assert (found.strict, found.documented, found.breaks, found.breaks_readers) == ("unproven", "unproven", "unproven", "unproven")
    assert reason in found.reason


def test_a_draft_that_is_no_longer_said_can_be_told() -> None:
    shape = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "dependencies": {"a": ["b"]}, "additionalProperties": False}
    new = {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "dependentRequired": {"a": ["b"]}, "additionalProperties": False}
    assert relate(shape, new, old_draft=7).strict == "equal"
    assert relate(shape, new).strict == "narrowed"  # under 2020-12 `dependencies` demands nothing


def test_recheck_refuses_an_example_that_is_none() -> None:
    old, new = {"type": "object"}, {"type": "object", "required": ["a"]}
    found = relate(old, new)
    assert recheck(old, new, found)
    assert not recheck(old, new, found.model_copy(update={"witness": {"a": 1}}))
    assert not recheck(old, old, found)


TOOLS = make.tools() | make.recursive_tools()


def _reordered(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: _reordered(value) for key, value in reversed(schema.items())}
    return [_reordered(item) for item in schema] if isinstance(schema, list) else schema


def _annotated(schema: Any) -> Any:
    """Prose at every schema position that `places` reaches."""
    out = copy.deepcopy(schema)
    for path in make.places(out):
        make.find(out, path).update({"description": "x", "title": "t", "examples": [1], "$comment": "c", "deprecated": True})
    return out


def _defined(schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Each property's schema moved into `$defs`."""
    names = {name: f"{prefix}{index}" for index, name in enumerate(schema["properties"])}
    properties = {name: {"$ref": f"#/$defs/{names[name]}"} for name in schema["properties"]}
    return {**schema, "$defs": {names[name]: child for name, child in schema["properties"].items()}, "properties": properties}


def _shuffled_lists(schema: Any) -> Any:
    if isinstance(schema, dict):
        words = ("required", "enum", "anyOf", "oneOf", "allOf", "type")
        return {key: list(reversed(value)) if key in words and isinstance(value, list) else _shuffled_lists(value) for key, value in schema.items()}
    return schema


@LOOSE
@given(TOOLS)
def test_what_changes_no_meaning_never_breaks(schema: dict[str, Any]) -> None:
    rewritten = [
        _reordered(schema),
        _annotated(schema),
        _shuffled_lists(schema),
        _defined(schema, "p") if "$defs" not in schema else schema,
        {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema},
        {"$schema": "http://json-schema.org/draft-07/schema#", **schema},
        json.loads(json.dumps(schema).replace("node", "other")),
    ]
    for other in rewritten:
        assert relate(schema, other).strict == "equal", other
        assert relate(other, schema).strict == "equal", other
    if "$defs" not in schema:
        assert relate(_defined(schema, "p"), _defined(schema, "q")).strict == "equal"


INSTANCES = st.recursive(
    st.sampled_from(["", "a", "b", "x", "yy", "ab", "abcdef", "0", 0, 1, 2, 2.5, 5, 7, -3, 10, True, False, None]),
    lambda inner: st.dictionaries(st.sampled_from([*make.NAMES, "ghost", "v", "kids", "root", "k"]), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=6,
)


ARGUMENTS = st.lists(st.dictionaries(st.sampled_from([*make.NAMES, "ghost", "root"]), INSTANCES, max_size=3), max_size=12)


@st.composite
def narrowings(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    old = draw(TOOLS)
    return old, draw(make.narrowed(old))


@LOOSE
@given(narrowings(), ARGUMENTS)
def test_a_narrowing_is_never_called_compatible(pair: tuple[dict[str, Any], dict[str, Any]], tried: list[Any]) -> None:
    """The change adds a demand, so old ⊇ new. It is "equal" only when the demand was met already, which values drawn at random must confirm."""
    old, new = pair
    found = relate(old, new)
    assert found.strict in ("equal", "narrowed", "unproven"), found
    assert _confirmed(old, new, found)
    before, after = jsonschema_rs.validator_for(old), jsonschema_rs.validator_for(new)
    for value in tried:
        if before.is_valid(value) and not after.is_valid(value):
            assert found.strict in ("narrowed", "unproven"), value


@LOOSE
@given(TOOLS, TOOLS, ARGUMENTS)
def test_any_pair_is_judged_soundly_and_mirrors(old: dict[str, Any], new: dict[str, Any], tried: list[Any]) -> None:
    forth, back = relate(old, new), relate(new, old)
    assert MIRROR.get(forth.strict, forth.strict) == back.strict
    assert relate(old, new) == forth  # no chance in it
    assert _confirmed(old, new, forth)
    one, other = jsonschema_rs.validator_for(old), jsonschema_rs.validator_for(new)
    for value in tried:
        if one.is_valid(value) and not other.is_valid(value):
            assert forth.strict in ("narrowed", "incomparable", "unproven"), value
        if other.is_valid(value) and not one.is_valid(value):
            assert forth.strict in ("widened", "incomparable", "unproven"), value
