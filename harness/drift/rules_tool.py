"""Rules on text, hints and output."""

from __future__ import annotations

from harness.drift.rule import Rule, name_of, short, tool
from harness.inventory.facts import Fact
from harness.inventory.side import ToolView
from harness.model.inventory import Components

PLAIN = tool()
SAFER_WHEN = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
OUT_A = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
OUT_B = {"type": "object", "properties": {"id": {"type": "string"}, "at": {"type": "string"}}, "required": ["id"]}
OUT_LOOSE = {"type": "object", "properties": {"id": {"type": "string"}}}
OUT_INTEGER = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


def _promises_less(fact: Fact) -> bool:
    """A safety hint lost its safe value, or an unsafe one appeared."""
    safe = SAFER_WHEN.get(fact.detail["key"])
    return safe is not None and (fact.old is safe or fact.new is (not safe))


def _hint(fact: Fact) -> bool:
    return fact.detail["key"] in SAFER_WHEN


def _outgrows(fact: Fact) -> bool:
    """Whether output may now have a type that it could not have before."""
    before = set(fact.old) | ({"integer"} if "number" in fact.old else set())
    return not set(fact.new) <= before


TEXT: tuple[Rule, ...] = (
    Rule(
        "text-changed",
        "text",
        "text-changed",
        lambda fact: f"text changed at {fact.pointer}",
        "read the new text as an instruction to a model, then accept it",
        (tool(description="Finds."), tool(description="Finds, and sends.")),
        (tool(description="Finds."), tool(description="Finds.")),
    ),
    Rule(
        "text-added",
        "text",
        "text-added",
        lambda fact: f"text appeared at {fact.pointer}",
        "read the new text as an instruction to a model, then accept it",
        (PLAIN, tool({"q": {"type": "string", "description": "What to find."}})),
        (PLAIN, PLAIN),
    ),
    Rule(
        "text-removed",
        "text",
        "text-removed",
        lambda fact: f"text vanished at {fact.pointer}",
        "check that callers do not depend on it, then accept it",
        (tool(title="Find"), PLAIN),
        (tool(title="Find"), tool(title="Find")),
    ),
    Rule(
        "text-changed-unlocated",
        "text",
        "text-unlocated",
        lambda fact: f"only text changed in {fact.pointer}; where is not known, since the old side recorded none",
        "review the tool's text and record its prose hashes",
        (tool(outputSchema={"title": "A"}), tool(outputSchema={"title": "B"})),
        (tool(outputSchema=OUT_A), tool(outputSchema=OUT_B)),
    ),
    Rule(
        "draft-changed",
        "risk",
        "draft-changed",
        lambda fact: f"the declared draft changed at {fact.pointer}; keywords may mean something else",
        "check the schema under its new draft",
        (PLAIN, tool(schema={"$schema": "https://json-schema.org/draft/2020-12/schema"})),
        (PLAIN, tool(schema={"$comment": "c"})),
    ),
    Rule(
        "annotation-weakened",
        "risk",
        "annotation-changed",
        lambda fact: f"{fact.detail['key']} went from {short(fact.old)} to {short(fact.new)}: the tool promises less",
        "review what the tool does, then its permission and risk",
        (tool(annotations={"readOnlyHint": True}), tool(annotations={"readOnlyHint": False})),
        (tool(annotations={"destructiveHint": True}), tool(annotations={"destructiveHint": False})),
        when=_promises_less,
    ),
    Rule(
        "annotation-strengthened",
        "risk",
        "annotation-changed",
        lambda fact: f"{fact.detail['key']} went from {short(fact.old)} to {short(fact.new)}: the tool promises more, unproven",
        "do not relax a permission on the strength of a hint",
        (tool(annotations={"destructiveHint": True}), tool(annotations={"destructiveHint": False})),
        (tool(annotations={"readOnlyHint": True}), tool(annotations={"readOnlyHint": False})),
        when=lambda fact: _hint(fact) and not _promises_less(fact),
    ),
    Rule(
        "annotation-changed",
        "text",
        "annotation-changed",
        lambda fact: f"{fact.pointer} went from {short(fact.old)} to {short(fact.new)}",
        "review it, then accept it",
        (tool(annotations={"title": "A"}), tool(annotations={"title": "B"})),
        (tool(annotations={"readOnlyHint": True}), tool(annotations={"readOnlyHint": False})),
        when=lambda fact: not _hint(fact),
    ),
    Rule(
        "annotations-changed-unlocated",
        "risk",
        "annotations-changed",
        lambda fact: "the hints changed; the inventory holds only their hash",
        "compare with a capture to see which hint changed",
        (ToolView("find", components=Components(annotations="0" * 64)), tool(annotations={"readOnlyHint": True})),
        (ToolView("find", components=Components()), PLAIN),
    ),
)

OUTPUT: tuple[Rule, ...] = (
    Rule(
        "output-property-removed",
        "breaking",
        "property-removed",
        lambda fact: f"output {name_of(fact.pointer)!r} is no longer declared",
        "keep returning it",
        (tool(outputSchema=OUT_B), tool(outputSchema=OUT_A)),
        (tool(outputSchema=OUT_A), tool(outputSchema=OUT_B)),
        direction="output",
    ),
    Rule(
        "output-no-longer-guaranteed",
        "breaking",
        "required-removed",
        lambda fact: f"output {fact.detail['name']!r} is no longer guaranteed",
        "keep returning it always",
        (tool(outputSchema=OUT_A), tool(outputSchema=OUT_LOOSE)),
        (tool(outputSchema=OUT_LOOSE), tool(outputSchema=OUT_A)),
        direction="output",
    ),
    Rule(
        "output-retyped",
        "breaking",
        "types-changed",
        lambda fact: f"output at {fact.pointer} was {'|'.join(fact.old)} and may now be {'|'.join(fact.new)}",
        "return the old type",
        (tool(outputSchema=OUT_A), tool(outputSchema=OUT_INTEGER)),
        (tool(outputSchema=OUT_A), tool(outputSchema=OUT_B)),
        when=_outgrows,
        direction="output",
    ),
)


def other_output(fact: Fact) -> str:
    """Message of the rule that takes every output fact that no other does."""
    return f"the output schema changed at {fact.pointer} ({fact.kind}); whether readers break is not decided here"


OUTPUT_OTHER = Rule(
    "output-schema-changed",
    "risk",
    "output-changed",
    other_output,
    "compare what both promise before you accept the change",
    (tool(outputSchema=OUT_A), PLAIN),
    (tool(outputSchema=OUT_A), tool(outputSchema=OUT_A)),
    direction="output",
)
