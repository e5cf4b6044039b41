"""`hashes:` on its specimens and at its edges; and text that a server wraps into structured content."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harness.expect.base import Place
from harness.expect.hashes import KIND, Params
from harness.expect.no_drift import entry, inventory_of
from harness.expect.scene import Scene
from harness.inventory.canonical import schema_hash
from harness.model.answer import json_of, pointer

PLACE = Place("exact", "", "f.yaml:1:1")
PARAMS = Params(exact=("get_memory",))


def scene(shown: dict[str, Any]) -> Scene:
    """The inventory knows `entry("get_memory")`; the catalog shows `shown`."""
    made = Scene()
    record = inventory_of("get_memory").tools[0].model_copy(update={"schema_hash": schema_hash(entry("get_memory")["input_schema"])})
    made.inventories["mem0"] = inventory_of("get_memory").model_copy(update={"tools": (record,)})
    made.control("catalog", {"tools": [shown], "complete": True})
    return made


def test_its_specimens() -> None:
    good, bad = KIND.specimens()
    assert KIND.judge(PARAMS, PLACE, good.view) == []
    (found,) = KIND.judge(PARAMS, PLACE, bad.view)
    assert (found.id, found.severity, found.expectation) == ("hashes", "fail", "exact")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"schema_hash": "0" * 64}, "the gateway's own word"),
        ({"name": "other"}, "the gateway's catalog"),
        ({"input_schema": {"maximum": float("inf")}}, "the gateway's catalog"),
    ],
)
def test_one_word_that_differs_is_named(change: dict[str, Any], where: str) -> None:
    (found,) = KIND.judge(PARAMS, PLACE, scene({**entry("get_memory"), **change}).view())
    assert list(found.actual) == [where]


def test_what_the_agent_sees_counts_too() -> None:
    made = scene(entry("get_memory"))
    made.listing(("get_memory",))  # without a schema
    (found,) = KIND.judge(PARAMS, PLACE, made.view())
    assert list(found.actual) == ["the agent's list"]


def test_what_cannot_be_told_is_an_error() -> None:
    (unknown,) = KIND.judge(Params(exact=("nobody",)), PLACE, scene(entry("get_memory")).view())
    (nothing,) = KIND.judge(PARAMS, PLACE, Scene().view())
    assert {unknown.severity, nothing.severity} == {"error"}


@pytest.mark.parametrize("value", [{"exact": []}, {}, {"value": True}])
def test_naming_no_tool_is_refused(value: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Params.model_validate(value)


VALUES = st.recursive(st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3))


@given(value=st.dictionaries(st.text(max_size=4), VALUES, max_size=3))
def test_a_text_that_the_server_wrapped_is_read_as_the_json_it_is(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert json_of({"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}}) == value


def test_only_the_very_text_is_unwrapped() -> None:
    plain = {"content": [{"type": "text", "text": "deleted"}], "structuredContent": {"result": "deleted"}}
    assert json_of(plain) == {"result": "deleted"}
    other = {"content": [{"type": "text", "text": '{"a": 1}'}], "structuredContent": {"result": '{"a": 2}'}}
    assert pointer(json_of(other), "/result") == (True, '{"a": 2}')
    more = {"content": [{"type": "text", "text": "[]"}], "structuredContent": {"result": "[]", "next": None}}
    assert json_of(more) == {"result": "[]", "next": None}
