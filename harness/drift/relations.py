"""From two sides to the relations of their tools, and from a relation to facts: where proof and example overrule what a keyword suggests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from harness.drift.document import DRAFT_URIS, draft_of
from harness.drift.guard import admitted
from harness.drift.refused import Refused
from harness.drift.relation import SAME, recheck, unproven
from harness.inventory.canonical import text_hash
from harness.inventory.facts import Fact
from harness.inventory.shape import seal_defaults
from harness.inventory.side import Side, ToolView
from harness.model.drift import DriftSeverity, Relation, ToolRelation

RelateSchemas = Callable[[Any, Any, int | None, int | None], Relation]
"""(old, new, old draft, new draft) → their relation."""

_SEMANTIC = frozenset(
    {"types-changed", "enum-changed", "bound-changed", "pattern-changed", "additional-changed", "composition-changed", "reference-changed"}
    | {"definition-changed", "keyword-changed", "property-added", "property-removed", "required-added", "required-removed", "draft-changed"}
    | {"format-changed"}
)
_DRAFTS = {text_hash(uri): draft_of({"$schema": uri}) for uri in DRAFT_URIS}


def relations_between(old: Side, new: Side, relate: RelateSchemas) -> dict[str, ToolRelation]:
    """The relations of the tools that both sides list and whose schemas differ, and of new schemas that are refused as such.

    This is where time is spent; `relate` is a `Relater`, or anything that answers alike. Done once, and stored beside the evidence.
    """
    out: dict[str, ToolRelation] = {}
    before = {view.name: view for view in old.views}
    for view in new.views:
        known = before.get(view.name)
        found = _relation(known, view, relate) if known is not None else ToolRelation(input=_bomb(_input(view)), output=_bomb(_output(view)))
        if found.input is not None or found.output is not None:
            out[view.name] = found
    return out


def _relation(old: ToolView, new: ToolView, relate: RelateSchemas) -> ToolRelation:
    pair = _input(old), _input(new)
    forth = _bomb(pair[1])
    if pair[0] is not None and pair[1] is not None and not _same_hash(old, new):
        alike = old.shape_hash is not None and old.shape_hash == new.shape_hash and _draft_of(old) == _draft_of(new) and _same_shape(old, new)
        forth = (forth or SAME) if alike else relate(pair[0], pair[1], _draft(old), _draft(new))
    before, after = _output(old), _output(new)
    same_output = old.components is not None and new.components is not None and old.components.output_schema == new.components.output_schema
    both = isinstance(before, Mapping) and isinstance(after, Mapping)
    back = _bomb(after) if same_output or not both else relate(before, after, None, None)
    return ToolRelation(input=forth, output=back)


def confirmed(relation: ToolRelation, old: Side, new: Side, tool: str) -> ToolRelation:
    """A stored relation of a tool, with what its examples no longer show turned to unproven. Nothing is searched: for judges."""
    before, after = ({view.name: view for view in side.views}.get(tool) for side in (old, new))
    if before is None or after is None:
        return ToolRelation()
    doubt = unproven("the stored example does not hold for the schemas in the evidence")
    drafts = (_draft(before), _draft(after))
    forth, back = relation.input, relation.output
    if forth is not None and not forth.refused and not recheck(_input(before), _input(after), forth, old_draft=drafts[0], new_draft=drafts[1]):
        forth = doubt
    if back is not None and not back.refused and not recheck(_output(before), _output(after), back):
        back = doubt
    return ToolRelation(input=forth, output=back)


def _same_hash(old: ToolView, new: ToolView) -> bool:
    return old.schema_hash is not None and old.schema_hash == new.schema_hash and (old.shape is None or new.shape is None or _same_shape(old, new))


def _same_shape(old: ToolView, new: ToolView) -> bool:
    """Equal by value: hashes round integers to doubles, as JavaScript does, and validators do not."""
    return old.shape == new.shape or seal_defaults(old.shape) == seal_defaults(new.shape)


def _input(view: ToolView) -> Any:
    """What is known of the input schema, the wire's own text first."""
    if view.tool is not None and view.shape is not None:
        return dict(view.tool.input_schema) if isinstance(view.tool.input_schema, Mapping) else {}
    return dict(view.shape) if view.shape is not None else None


def _output(view: ToolView) -> Any:
    found = view.tool.output_schema if view.tool is not None else None
    return dict(found) if isinstance(found, Mapping) else None


def _draft_of(view: ToolView) -> str | None:
    """What the schema says of its draft, as a hash; None when it says nothing, or that is not known."""
    return (view.prose or {}).get("/$schema")


def _draft(view: ToolView) -> int | None:
    """The draft that a shape was declared under, by the hash of its `$schema`; None where the schema itself says it."""
    if view.tool is not None or view.prose is None:
        return None
    return _DRAFTS.get(view.prose.get("/$schema", ""))


def _bomb(schema: Any) -> Relation | None:
    """An unchanged or unpaired schema is no relation, unless it must not be read at all."""
    if schema is None:
        return None
    try:
        admitted(schema)
    except Refused as error:
        return Relation(strict="unproven", documented="unproven", refused=error.code, reason=f"refused: {error.why} ({error.code})")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None  # not a usable schema, and the same before: nothing to say
    return None


def overruled(fact: Fact, severity: DriftSeverity, relation: ToolRelation | None) -> Fact:
    """The fact, or what is known better: a keyword that looks breaking in a schema that is proven not to break says so no longer."""
    if relation is None or fact.kind not in _SEMANTIC or severity not in ("breaking", "risk"):
        return fact
    if fact.direction == "output":
        found = relation.output
        if found is None or found.breaks_readers != "no":
            return fact
        return _as(fact, "relation-fine", found)
    found = relation.input
    if found is None or found.breaks != "no" or (fact.kind == "property-removed" and fact.detail.get("closed") is False):
        return fact
    if fact.kind == "format-changed" and found.format_only:
        return _as(fact, "relation-format", found)
    if found.strict == "equal":
        return _as(fact, "relation-equal", found)
    if found.strict == "widened":
        return _as(fact, "relation-widened", found)
    return _as(fact, "relation-narrowed", found) if severity == "breaking" and found.witness is not None else fact


def _as(fact: Fact, kind: str, relation: Relation) -> Fact:
    detail = {"method": relation.method, "kind": fact.kind, "was": fact.new}
    return replace(fact, kind=kind, new=relation.witness, detail=detail)


def relation_facts(name: str, relation: ToolRelation, kinds: set[tuple[str, str, str]], breaking: set[str]) -> Iterator[Fact]:
    """What a tool's relations add to its located facts. `kinds` are (kind, direction, pointer) said already; `breaking` directions that break."""
    if relation.input is not None:
        yield from _input_facts(name, relation.input, kinds, "input" in breaking)
    found = relation.output
    if found is None:
        return
    if found.refused:
        yield Fact("schema-refused", "output", name, "/outputSchema", new=found.reason, direction="output")
    elif found.breaks_readers == "yes" and "output" not in breaking:
        yield Fact("relation-broken", "output", name, "/outputSchema", new=found.reverse_witness, direction="output")
    elif found.breaks_readers == "unproven":
        yield Fact("relation-unproven", "output", name, "/outputSchema", new=found.reason, direction="output")


def _input_facts(name: str, found: Relation, kinds: set[tuple[str, str, str]], breaking: bool) -> Iterator[Fact]:
    at = "/inputSchema"
    if found.refused:
        yield Fact("schema-refused", "shape", name, at, new=found.reason)
        return
    if found.uncallable:
        yield Fact("tool-uncallable", "shape", name, at)
    if found.breaks == "yes" and not breaking:
        yield Fact("relation-broken", "shape", name, at, new=found.witness)
    if found.breaks == "unproven":
        yield Fact("relation-unproven", "shape", name, at, new=found.reason)
    said = {kind for kind, direction, _ in kinds if direction == "input"}
    if found.breaks == "no" and found.witness is not None and not said & {"relation-narrowed", "additional-changed"}:
        yield Fact("relation-narrowed", "shape", name, at, new=found.witness)
    if found.format_only and "relation-format" not in said:
        yield Fact("relation-format", "shape", name, at)
    places = {pointer for kind, direction, pointer in kinds if direction == "input" and kind == "property-removed"}
    for pointer in found.ignored_arguments:
        if f"{at}{pointer}" not in places:
            yield Fact("argument-ignored", "shape", name, f"{at}{pointer}")
