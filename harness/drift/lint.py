"""What is wrong with one list by itself, whatever it was before: names, schemas that clients choke on, texts with signs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.drift.canonical_form import impossible
from harness.drift.document import Schema
from harness.drift.glance import plain_facts
from harness.drift.guard import admitted
from harness.drift.refused import Refused
from harness.drift.relation import objects_only
from harness.drift.rules import judge_fact
from harness.inventory.diff import signs_of
from harness.inventory.facts import Fact
from harness.inventory.side import Side, ToolView
from harness.model.drift import DriftFinding


def lint(side: Side) -> tuple[DriftFinding, ...]:
    """Findings on a list alone, in its order. Costs one look into each schema; searches nothing."""
    facts = [*plain_facts(side)]
    for view in side.views:
        facts += [*_deep(view), *signs_of(view.name, None, view)]
    return tuple(judge_fact(fact) for fact in facts)


def _deep(view: ToolView) -> Iterator[Fact]:
    for word, found in (("inputSchema", _schema(view)), ("outputSchema", view.tool.output_schema if view.tool is not None else None)):
        if found is None:
            continue
        direction: Any = "input" if word == "inputSchema" else "output"
        try:
            (document,) = objects_only(admitted(found))
            schema: Schema = document.schema
        except Refused as error:
            yield Fact("schema-refused", "shape", view.name, f"/{word}{error.pointer}", new=f"{error.why} ({error.code})", direction=direction)
            continue
        except (ValueError, TypeError, KeyError, AttributeError):
            continue
        if direction == "input" and impossible(schema):
            yield Fact("tool-uncallable", "shape", view.name, "/inputSchema")


def _schema(view: ToolView) -> Any:
    return view.tool.input_schema if view.tool is not None else view.shape
