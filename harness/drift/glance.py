"""What a glance at one list shows: spelling and collision of names, schemas without a type, required names that nobody declared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from harness.inventory.facts import Fact
from harness.inventory.side import Side, ToolView
from harness.inventory.walk import escape

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}\Z")


def introduced(old: Side, new: Side) -> Iterator[Fact]:
    """Plain facts that hold of the new list and did not hold of the old one, as far as the old one is known."""
    before = {view.name: view for view in old.views}
    known = {(fact.kind, fact.tool, fact.pointer) for fact in plain_facts(old)}
    for fact in plain_facts(new):
        was = before.get(fact.tool)
        told = was is None or was.shape is not None or fact.kind.startswith("name-")
        if told and (fact.kind, fact.tool, fact.pointer) not in known:
            yield fact


def plain_facts(side: Side) -> Iterator[Fact]:
    """Facts that a glance shows: spelling of names, names that collide where others rewrite them, schemas without a type, ghosts."""
    spelt: dict[str, list[str]] = {}
    for view in side.views:
        spelt.setdefault(re.sub(r"[^A-Za-z0-9_-]", "_", view.name), []).append(view.name)
    for view in side.views:
        if not _NAME.match(view.name):
            yield Fact("name-unusual", "names", view.name, "/name", new=view.name)
        twins = [name for name in spelt[re.sub(r"[^A-Za-z0-9_-]", "_", view.name)] if name != view.name]
        if twins:
            yield Fact("name-collision", "names", view.name, "/name", new=twins)
        yield from _glance(view)


def _glance(view: ToolView) -> Iterator[Fact]:
    schema = view.tool.input_schema if view.tool is not None else view.shape
    if not isinstance(schema, Mapping):
        return
    if schema.get("type") != "object":
        yield Fact("root-untyped", "shape", view.name, "/inputSchema", new=schema.get("type"))
    properties = schema.get("properties")
    declared = properties if isinstance(properties, Mapping) else {}
    needed = schema.get("required")
    if isinstance(needed, list) and not ({"allOf", "anyOf", "oneOf", "$ref", "patternProperties"} & set(schema)):
        for name in needed:
            if isinstance(name, str) and name not in declared:
                yield Fact("required-undeclared", "shape", view.name, f"/inputSchema/properties/{escape(name)}", new=name)
