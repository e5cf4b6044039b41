"""Rules on how the schemas of a tool relate: what is proven, what a call shows, and what is not decided."""

from __future__ import annotations

import json

from harness.drift.rule import Rule, owner_of, tool
from harness.inventory.facts import Fact

STRING = {"type": "string"}
CLOSED = {"additionalProperties": False}
PLAIN = tool()
NOT_X = {"type": "string", "not": {"const": "x"}}
OUT_A = {"type": "object", "properties": {"id": STRING}, "required": ["id"], **CLOSED}
OUT_B = {"type": "object", "properties": {"id": {"type": ["string", "null"]}}, "required": ["id"], **CLOSED}
OUT_C = {"type": "object", "properties": {"id": {"type": "string", "maxLength": 9}}, "required": ["id"], **CLOSED}
REMOTE = tool({"q": {"$ref": "https://example.com/q.json"}})


def example(value: object) -> str:
    """A witness for a message, bounded."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= 160 else f"{text[:157]}..."


def _about(fact: Fact) -> str:
    """What the replaced finding would have spoken of."""
    said = fact.detail.get("kind", "")
    return f" ({said} at {fact.pointer})" if said else ""


RULES: tuple[Rule, ...] = (
    Rule(
        "call-refused",
        "breaking",
        "relation-broken",
        lambda fact: f"a documented call that was accepted is refused now: {example(fact.new)}",
        "accept it again; the call is ready to be replayed",
        (tool({"q": STRING}), tool({"q": NOT_X})),
        (tool({"q": NOT_X}), tool({"q": STRING})),
        related=True,
    ),
    Rule(
        "result-unexpected",
        "breaking",
        "relation-broken",
        lambda fact: f"a result may come now that the old schema ruled out: {example(fact.new)}",
        "return only what the old schema allowed",
        (tool(outputSchema=OUT_C), tool(outputSchema=OUT_A)),
        (tool(outputSchema=OUT_A), tool(outputSchema=OUT_C)),
        direction="output",
        related=True,
    ),
    Rule(
        "narrowed-strictly",
        "risk",
        "relation-narrowed",
        lambda fact: f"only calls outside the documented parameters are refused now{_about(fact)}: {example(fact.new)}",
        "nothing, if no caller sends undeclared properties; else accept them as before",
        (PLAIN, tool({"q": STRING, "n": {"type": "integer"}})),
        (tool(schema=CLOSED), tool({"q": STRING, "n": {"type": "integer"}}, schema=CLOSED)),
        related=True,
    ),
    Rule(
        "schema-rewritten",
        "info",
        "relation-equal",
        lambda fact: f"{owner_of(fact.pointer)} is written differently{_about(fact)} and accepts the same, as shown by {fact.detail['method']}",
        "accept it into the inventory",
        (tool({"q": {"type": "string", "pattern": "^(a|b)$"}}), tool({"q": {"enum": ["a", "b"]}})),
        (tool({"q": {"type": "string", "pattern": "^(a|b)$"}}), tool({"q": {"enum": ["a", "c"]}})),
        related=True,
    ),
    Rule(
        "schema-widened",
        "info",
        "relation-widened",
        lambda fact: f"{owner_of(fact.pointer)} accepts all it did{_about(fact)}, and more, as shown by {fact.detail['method']}",
        "accept it into the inventory",
        (tool({"q": {"type": "string", "pattern": "^a+$"}}), tool({"q": {"type": "string", "pattern": "^[ab]+$"}})),
        (tool({"q": {"type": "string", "pattern": "^[ab]+$"}}), tool({"q": {"type": "string", "pattern": "^a+$"}})),
        related=True,
    ),
    Rule(
        "output-compatible",
        "info",
        "relation-fine",
        lambda fact: f"every result still fits the old output schema{_about(fact)}, as shown by {fact.detail['method']}",
        "accept it into the inventory",
        (tool(outputSchema={**OUT_A, "minProperties": 0}), tool(outputSchema=OUT_C)),
        (tool(outputSchema=OUT_C), tool(outputSchema=OUT_A)),
        direction="output",
        related=True,
    ),
    Rule(
        "relation-unproven",
        "risk",
        "relation-unproven",
        lambda fact: f"whether old calls still pass is not decided: {fact.new}",
        "compare both schemas by hand; then accept the change, or rewrite the part that cannot be decided",
        (tool({"q": {"type": "integer", "minimum": "x"}}), tool({"q": {"type": "integer", "minimum": "y"}})),
        (PLAIN, tool({"q": {"type": "string", "maxLength": 3}})),
        related=True,
    ),
    Rule(
        "output-relation-unproven",
        "risk",
        "relation-unproven",
        lambda fact: f"whether readers of the result still manage is not decided: {fact.new}",
        "compare both output schemas by hand; then accept the change",
        (tool(outputSchema={"type": "object", "minProperties": "x"}), tool(outputSchema={"type": "object", "minProperties": "y"})),
        (tool(outputSchema=OUT_A), tool(outputSchema=OUT_B)),
        direction="output",
        related=True,
    ),
    Rule(
        "schema-refused",
        "risk",
        "schema-refused",
        lambda fact: f"the schema is not looked into: {fact.new}",
        "keep schemas within the bounds, without references to elsewhere or to themselves, and with patterns that match in linear time",
        (PLAIN, REMOTE),
        (PLAIN, tool({"q": {"$ref": "#/$defs/q"}}, schema={"$defs": {"q": STRING}})),
        related=True,
    ),
    Rule(
        "output-schema-refused",
        "risk",
        "schema-refused",
        lambda fact: f"the output schema is not looked into: {fact.new}",
        "keep schemas within the bounds, without references to elsewhere or to themselves, and with patterns that match in linear time",
        (PLAIN, tool(outputSchema={"$ref": "https://example.com/o.json"})),
        (PLAIN, tool(outputSchema=OUT_A)),
        direction="output",
        related=True,
    ),
    Rule(
        "tool-uncallable",
        "breaking",
        "tool-uncallable",
        lambda fact: "no arguments at all satisfy the input schema any more; the schema is to blame, not the caller",
        "declare what is required, or stop requiring it",
        (tool({"q": STRING}, ["q"], schema=CLOSED), tool({"q": STRING}, ["q", "ghost"], schema=CLOSED)),
        (tool({"q": STRING}, ["q"]), tool({"q": STRING}, ["q", "ghost"])),
        related=True,
    ),
    Rule(
        "breaks-if-formats-asserted",
        "risk",
        "relation-format",
        lambda fact: "nothing breaks by the letter, but old calls may where `format` is asserted",
        "say that formats are not asserted, or keep the old ones",
        (tool({"q": STRING}), tool({"q": {"type": "string", "format": "email"}})),
        (tool({"q": {"type": "string", "format": "email"}}), tool({"q": STRING})),
        related=True,
    ),
    Rule(
        "parameter-ignored",
        "risk",
        "argument-ignored",
        lambda fact: f"{owner_of(fact.pointer)} is gone; calls that send it are accepted and the argument is silently ignored",
        "keep honouring it, or close the object so that callers notice",
        (
            tool({"f": {"$ref": "#/$defs/f"}}, schema={"$defs": {"f": {"type": "object", "properties": {"x": STRING, "y": STRING}}}}),
            tool({"f": {"$ref": "#/$defs/g"}}, schema={"$defs": {"g": {"type": "object", "properties": {"x": STRING}}}}),
        ),
        (PLAIN, PLAIN),
        related=True,
    ),
)
