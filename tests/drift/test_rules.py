"""Each rule on its own specimens, and the table as a whole."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.drift.compare import compare
from harness.drift.relation import relate
from harness.drift.relations import relations_between
from harness.drift.rule import Rule, Specimen, specimen_side
from harness.drift.rules import TABLE, judge_fact
from harness.drift.rules_list import LIST
from harness.drift.rules_server import SERVER
from harness.fleet.rules import rule_infos
from harness.inventory.diff import diff
from harness.inventory.schema_diff import Kind, schema_facts
from harness.inventory.shape import shape
from harness.inventory.side import Side, tools_views
from harness.model.drift import DriftFinding, Relation
from harness.model.tool import Tool


def _findings(pair: tuple[Specimen, Specimen], *, related: bool = False) -> tuple[DriftFinding, ...]:
    old, new = specimen_side(pair[0]), specimen_side(pair[1])
    return compare(old, new, relations=relations_between(old, new, related_here) if related else None).findings


def related_here(old: Any, new: Any, old_draft: int | None, new_draft: int | None) -> Relation:
    return relate(old, new, old_draft=old_draft, new_draft=new_draft)


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: f"{rule.id}-{rule.fact}-{rule.direction}")
def test_each_rule_fails_its_bad_specimen_and_passes_its_good_one(rule: Rule) -> None:
    bad = [finding for finding in _findings(rule.fails, related=rule.related) if finding.id == rule.id]
    assert bad
    assert all(finding.severity == rule.severity for finding in bad)
    assert not [finding for finding in _findings(rule.passes, related=rule.related) if finding.id == rule.id]
    for finding in bad:
        assert finding.message
        assert finding.fix
        assert finding.tool or rule in (*SERVER, *LIST)
        assert finding.anchor == f"docs/drift.md#{rule.id}"


@pytest.mark.parametrize("rule", TABLE, ids=lambda rule: f"{rule.id}-{rule.fact}-{rule.direction}")
def test_exactly_one_rule_takes_each_fact_of_a_specimen(rule: Rule) -> None:
    for pair in (rule.fails, rule.passes):
        for fact in diff(specimen_side(pair[0]), specimen_side(pair[1])).facts:
            takers = [row.id for row in TABLE if row.matches(fact)]
            assert len(takers) == 1 or (not takers and fact.direction == "output"), (fact, takers)


def test_ids_are_kebab_case_and_keep_one_severity() -> None:
    severities: dict[str, set[str]] = {}
    for rule in TABLE:
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.id)
        severities.setdefault(rule.id, set()).add(rule.severity)
    assert {rule_id: found for rule_id, found in severities.items() if len(found) > 1} == {}


def test_every_kind_of_schema_fact_has_a_rule() -> None:
    assert set(get_args(Kind)) <= {rule.fact for rule in TABLE if rule.direction == "input"}


def test_each_rule_s_anchor_leads_to_a_section_of_a_page_that_is_there() -> None:
    root = Path(__file__).parents[2]
    page = (root / "docs" / "drift.md").read_text(encoding="utf-8")
    headings = {re.sub(r"[^a-z0-9 -]", "", line.lstrip("# ").lower()).replace(" ", "-") for line in page.splitlines() if line.startswith("#")}
    assert {rule.id for rule in rule_infos()} <= headings
    for rule in TABLE:
        path, _, anchor = DriftFinding(id=rule.id, severity=rule.severity, tool="t", message="m", fix="f").anchor.partition("#")
        assert (root / path).is_file()
        assert anchor in headings


def test_every_id_that_drift_or_risk_can_emit_is_in_the_table() -> None:
    """Read from the sources: each text that stands as the id of a finding."""
    known = {rule.id for rule in rule_infos()}
    folder = Path(__file__).parents[2] / "harness"
    emitted: set[str] = set()
    for path in [*(folder / "drift").glob("*.py"), *(folder / "risk").glob("*.py"), *(folder / "waiver").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                given = [word.value for word in node.keywords if word.arg == "id"]
                if isinstance(node.func, ast.Name) and node.func.id == "Rule":
                    given += node.args[:1]
                emitted |= {leaf.value for one in given for leaf in ast.walk(one) if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str)}
    assert {"risk-under-claimed", "risk-over-claimed", "enum-narrowed"} <= emitted
    assert emitted <= known


def test_a_fact_that_no_rule_knows_is_a_mistake() -> None:
    from harness.inventory.diff import Fact

    with pytest.raises(LookupError):
        judge_fact(Fact("no-such-kind", "names", "t"))


types = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
leaf = st.fixed_dictionaries(
    {},
    optional={
        "type": types | st.lists(types, min_size=1, max_size=2, unique=True),
        "enum": st.lists(st.sampled_from(["a", "b", 1, True, None]), max_size=3),
        "maxLength": st.integers(0, 3),
        "minimum": st.integers(0, 3) | st.floats(0, 3),
        "multipleOf": st.sampled_from([0, 1, 2, 0.5, "x"]),
        "pattern": st.sampled_from(["^a", "b$"]),
        "format": st.sampled_from(["uri", "email"]),
        "default": st.sampled_from(["a", 1, None, "sha256:" + "0" * 64]),
        "title": st.text(max_size=3),
        "$ref": st.sampled_from(["#/$defs/a", "#/$defs/b"]),
        "const": st.integers(0, 1),
        "x-vendor": st.integers(0, 1),
    },
)


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    names = st.sampled_from(["a", "b", "title", "x/y"])
    one = inner | st.booleans()
    extra = st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(names, one, max_size=3),
            "required": st.lists(names, max_size=2),
            "additionalProperties": one,
            "items": one | st.lists(one, max_size=2),
            "anyOf": st.lists(one, max_size=2),
            "allOf": st.lists(one, max_size=2),
            "prefixItems": st.lists(one, max_size=2),
            "not": one,
            "$defs": st.dictionaries(names, one, max_size=2),
            "dependencies": st.dictionaries(names, st.lists(names, max_size=1) | one, max_size=1),
        },
    )
    return st.builds(lambda left, right: {**left, **right}, leaf, extra)


schemas = st.recursive(leaf, _composed, max_leaves=4)
hints = st.dictionaries(st.sampled_from(["readOnlyHint", "destructiveHint", "title", "other"]), st.booleans() | st.none(), max_size=3)


@st.composite
def wires(draw: st.DrawFn) -> dict[str, Any]:
    wire: dict[str, Any] = {"name": "t", "inputSchema": draw(_composed(schemas))}
    for key, strategy in (
        ("outputSchema", schemas),
        ("annotations", hints),
        ("title", st.text(max_size=2)),
        ("description", st.text(max_size=2)),
    ):
        if draw(st.booleans()):
            wire[key] = draw(strategy)
    return wire


def _side(*wire: dict[str, Any]) -> Side:
    return Side("s", tools_views([Tool.from_wire(w) for w in wire]))


@settings(max_examples=60, deadline=None)
@given(wires(), wires())
def test_any_two_tools_are_judged_and_a_different_hash_is_never_silent(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = _side(old), _side(new)
    report = compare(before, after)
    assert compare(before, before).findings == ()
    for fact in diff(before, after).facts:
        assert len([rule for rule in TABLE if rule.matches(fact)]) == 1 or fact.direction == "output"
    if before.views[0].schema_hash != after.views[0].schema_hash:
        assert report.findings
    if before.views[0].components != after.views[0].components:
        assert report.findings


@settings(max_examples=60, deadline=None)
@given(_composed(schemas), _composed(schemas))
def test_facts_about_shapes_are_complete_and_mirrored(old: dict[str, Any], new: dict[str, Any]) -> None:
    from harness.inventory.canonical import json_equal

    forth, back = schema_facts(shape(old), shape(new)), schema_facts(shape(new), shape(old))
    assert bool(forth) == (not json_equal(shape(old), shape(new))) == bool(back)
    assert len(forth) == len(back)
    mirror = {"property-added": "property-removed", "required-added": "required-removed"}
    mirror |= {value: key for key, value in mirror.items()}
    assert sorted((f.kind, f.pointer) for f in forth) == sorted((mirror.get(f.kind, f.kind), f.pointer) for f in back)
