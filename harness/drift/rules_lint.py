"""Rules on one list by itself."""

from __future__ import annotations

from harness.drift.rule import Rule, name_of, short, tool
from harness.inventory.side import Side, tools_views
from harness.model.tool import Tool

PLAIN = tool()


def _named(*names: str) -> Side:
    return Side("specimen", tools_views([Tool.from_wire({**PLAIN, "name": name}) for name in names]))


RULES: tuple[Rule, ...] = (
    Rule(
        "tool-name-unusual",
        "info",
        "name-unusual",
        lambda fact: f"the name {short(fact.new)} is not 1 to 128 letters, digits, '_', '-' and '.': some clients rewrite or drop it",
        "use a plain name; put the other one into `title`",
        (_named("find"), _named("find", "获取记忆")),
        (_named("find"), _named("find", "memory.get")),
        related=True,
    ),
    Rule(
        "tool-name-collision",
        "risk",
        "name-collision",
        lambda fact: f"clients that rewrite names cannot tell it from {short(fact.new)}",
        "give tools names that differ in letters or digits",
        (_named("memory_get"), _named("memory_get", "memory.get")),
        (_named("memory_get"), _named("memory_get", "memory_set")),
        related=True,
    ),
    Rule(
        "schema-root-untyped",
        "risk",
        "root-untyped",
        lambda fact: f"the input schema is not `type: object` at the top (it says {short(fact.new)}): some clients drop the whole list",
        "say `type: object` at the top",
        (PLAIN, {"name": "find", "inputSchema": {"anyOf": [{"type": "object"}]}}),
        (PLAIN, tool(schema={"anyOf": [{"required": ["q"]}]})),
        related=True,
    ),
    Rule(
        "required-undeclared",
        "risk",
        "required-undeclared",
        lambda fact: f"{name_of(fact.pointer)!r} is required but declared nowhere",
        "declare it, or stop requiring it",
        (PLAIN, tool(None, ["q", "ghost"])),
        (PLAIN, tool(None, ["q"])),
        related=True,
    ),
)
