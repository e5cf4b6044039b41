"""Schema bombs: refused before anything else reads them, named in a finding, nothing fetched; and a watch that stops what was not foreseen."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from typing import Any

import psutil
import pytest

from harness.drift import relater
from harness.drift.compare import compare
from harness.drift.guard import MAX_BYTES, admitted
from harness.drift.lint import lint
from harness.drift.refused import Refused
from harness.drift.relater import Relater
from harness.drift.relation import relate
from harness.drift.relations import relations_between
from harness.inventory.side import Side, tools_views
from harness.model.tool import Tool


def _nested(keyword: str, depth: int, leaf: Any = True) -> Any:
    for _ in range(depth):
        leaf = {keyword: leaf}
    return leaf


def _in_properties(depth: int) -> Any:
    leaf: Any = {}
    for _ in range(depth):
        leaf = {"properties": {"a": leaf}}
    return leaf


def _laughs(word: str, count: int) -> dict[str, Any]:
    defs = {f"a{index}": {word: [{"$ref": f"#/$defs/a{index + 1}"}] * 2} for index in range(count)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{count}": {}}}


def _chain(count: int) -> dict[str, Any]:
    defs = {f"a{index}": {"properties": {"x": {"$ref": f"#/$defs/a{index + 1}"}}} for index in range(count)}
    return {"$ref": "#/$defs/a0", "$defs": {**defs, f"a{count}": {}}}


def _pattern(text: str) -> dict[str, Any]:
    return {"properties": {"q": {"type": "string", "pattern": text}}}


BOMBS: dict[str, tuple[Any, str]] = {
    "deep-items": (_nested("items", 40), "too-deep"),
    "deep-not": (_nested("not", 40), "too-deep"),
    "deep-properties": (_in_properties(40), "too-deep"),
    "deep-additional": (_nested("additionalProperties", 500), "too-deep"),
    "very-deep": (_nested("items", 20_000), "too-deep"),
    "deep-enum": ({"enum": [_nested("x", 300)]}, "too-deep"),
    "deep-default": ({"properties": {"a": {"default": _nested("x", 300)}}}, "too-deep"),
    "deep-list": ({"const": [[[[_nested("x", 300)]]]]}, "too-deep"),
    "many-properties": ({"properties": {f"p{index}": {} for index in range(6000)}}, "too-many-nodes"),
    "many-branches": ({"anyOf": [{} for _ in range(6000)]}, "too-many-nodes"),
    "many-defs": ({"$defs": {f"p{index}": {} for index in range(6000)}}, "too-many-nodes"),
    "many-enum-objects": ({"enum": [{"k": index} for index in range(6000)]}, "too-many-nodes"),
    "large-description": ({"description": "x" * (MAX_BYTES + 1)}, "too-large"),
    "large-enum": ({"enum": [f"{index:0100d}" for index in range(4000)]}, "too-large"),
    "large-name": ({"properties": {"x" * (MAX_BYTES + 1): {}}}, "too-large"),
    "large-pattern": (_pattern("a" * (MAX_BYTES + 1)), "too-large"),
    "large-number": ({"maximum": 10**500_000}, "too-large"),
    "laughs-all": (_laughs("allOf", 30), "expands-too-far"),
    "laughs-any": (_laughs("anyOf", 30), "expands-too-far"),
    "laughs-tuple": (_laughs("prefixItems", 30), "expands-too-far"),
    "chain": (_chain(400), "too-deep"),
    "loop-root": ({"$ref": "#"}, "reference-loop"),
    "loop-self": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "reference-loop"),
    "loop-two": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "reference-loop"),
    "loop-all": ({"allOf": [{"$ref": "#"}]}, "reference-loop"),
    "loop-any": (
        {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}},
        "reference-loop",
    ),
    "loop-not": ({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}}, "reference-loop"),
    "loop-if": ({"$ref": "#/$defs/a", "$defs": {"a": {"if": {"$ref": "#/$defs/a"}, "then": {}}}}, "reference-loop"),
    "loop-dependent": ({"$ref": "#/$defs/a", "$defs": {"a": {"dependentSchemas": {"x": {"$ref": "#/$defs/a"}}}}}, "reference-loop"),
    "remote-https": ({"properties": {"a": {"$ref": "https://example.com/a.json"}}}, "remote-reference"),
    "remote-fragment": ({"properties": {"a": {"$ref": "http://127.0.0.1:9/a#/x"}}}, "remote-reference"),
    "remote-file": ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "remote-reference"),
    "remote-relative": ({"properties": {"a": {"$ref": "other.json"}}}, "remote-reference"),
    "remote-nested": ({"anyOf": [{"items": {"$ref": "//example.com/x"}}]}, "remote-reference"),
    "dangling": ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "dangling-reference"),
    "dangling-anchor": ({"properties": {"a": {"$ref": "#none"}}}, "dangling-reference"),
    "dynamic": ({"properties": {"a": {"$dynamicRef": "#node"}}}, "dynamic-reference"),
    "dialect": ({"$schema": "https://example.com/dialect", "type": "object"}, "unknown-draft"),
    "pattern-lookahead": (_pattern("^(?=(a+)+$)"), "catastrophic-pattern"),
    "pattern-backreference": (_pattern(r"^(a+)+\1$"), "catastrophic-pattern"),
    "pattern-huge": (_pattern("((a{1,100}){1,100}){1,100}"), "catastrophic-pattern"),
    "pattern-property": ({"patternProperties": {r"(x+x+)+\1y": {}}}, "catastrophic-pattern"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_each_bomb_is_refused_with_its_reason(name: str) -> None:
    schema, code = BOMBS[name]
    with pytest.raises(Refused) as caught:
        admitted(schema)
    assert caught.value.code == code
    found = relate({"type": "object"}, schema)
    assert (found.strict, found.breaks, found.refused) == ("unproven", "unproven", code)


def test_there_are_forty_of_them_at_least() -> None:
    assert len(BOMBS) >= 40


def _side(schema: Any) -> Side:
    return Side("s", tools_views([Tool.from_wire({"name": "t", "inputSchema": schema})]))


@pytest.mark.parametrize("name", [name for name, (schema, _) in BOMBS.items() if isinstance(schema, dict) and name != "large-number"])
def test_a_bomb_is_a_finding_whether_new_or_as_before(name: str) -> None:
    bomb, plain = _side(BOMBS[name][0]), _side({"type": "object"})

    def ids(old: Side, new: Side) -> set[str]:
        here = relations_between(old, new, lambda a, b, c, d: relate(a, b, old_draft=c, new_draft=d))
        return {finding.id for finding in compare(old, new, relations=here).findings}

    wanted = "schema-not-canonical" if name in ("very-deep", "deep-additional", "deep-enum", "deep-default", "deep-list") else "schema-refused"
    assert wanted in ids(plain, bomb)
    assert wanted in ids(bomb, bomb)
    assert wanted in {finding.id for finding in lint(bomb)} or wanted == "schema-not-canonical"
    if wanted == "schema-refused":
        assert compare(plain, bomb, relations=relations_between(plain, bomb, lambda a, b, c, d: relate(a, b))).unproven


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}}},
        {"$id": "https://example.com/s", "type": "object", "properties": {"a": {"$ref": "https://example.com/s#/$defs/a"}}, "$defs": {"a": {}}},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}},
        _pattern("(a+)+$"),
        _pattern(r"^([0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[1-8][0-9a-fA-F]{3}-[89abAB][0-9a-fA-F]{3}-[0-9a-fA-F]{12})$"),
        {"properties": {"title": {"type": "string"}, "default": {"type": "string"}, "enum": _in_properties(5)}},
    ],
)
def test_what_looks_alike_and_is_honest_passes(schema: Any) -> None:
    admitted(schema)


OLD, NEW = {"type": "object"}, {"type": "object", "required": ["a"]}


def alive(pid: int | None) -> bool:
    return pid is not None and psutil.pid_exists(pid)


def test_the_watch_answers_as_the_comparison_does_and_remembers() -> None:
    with Relater() as watched:
        assert watched(OLD, OLD).method == "identical"
        assert watched.pid is None  # nothing to compare, nobody started
        assert watched(OLD, NEW) == relate(OLD, NEW)
        child = watched.pid
        assert alive(child)
        assert watched(OLD, NEW) == relate(OLD, NEW)
        assert watched({"maximum": 1}, {"maximum": 2}).strict == "equal"
        assert watched(_nested("items", 5000), OLD).strict == "unproven"
        assert watched.pid == child
    assert not alive(child)


def test_a_comparison_that_takes_too_long_is_stopped_and_the_next_one_is_answered() -> None:
    with Relater(budget_s=0.0) as watched:
        found = watched(OLD, NEW)
        assert (found.strict, found.breaks) == ("unproven", "unproven")
        assert "stopped after 0 s" in found.reason
        assert watched.pid is None
        watched.budget_s = 60.0
        assert watched(OLD, {**NEW, "required": ["b"]}).breaks == "yes"


def test_a_comparison_that_dies_is_unproven() -> None:
    with Relater() as watched:
        assert watched(OLD, NEW).breaks == "yes"
        assert watched.pid is not None
        os.kill(watched.pid, signal.SIGKILL)
        found = watched(OLD, {**NEW, "required": ["b"]})
        assert found.strict == "unproven"
        assert "died" in found.reason
        assert watched(OLD, {**NEW, "required": ["c"]}).breaks == "yes"


def test_a_child_without_memory_to_start_is_unproven(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relater, "_START", 0.0)
    with Relater() as watched:
        assert "could not be started" in watched(OLD, NEW).reason
        assert watched.pid is None


def test_a_child_outlives_no_parent() -> None:
    """The parent is killed, and so can tell its child nothing: the child sees its line end."""
    code = "from harness.drift.relater import Relater; r = Relater(); r({}, {'maximum': 1}); print(r.pid, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    with contextlib.suppress(psutil.NoSuchProcess):
        child.wait(20)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
