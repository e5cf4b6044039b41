"""Rules on the list, on names, hashes, text, hints, risk and output."""

from __future__ import annotations

from harness.drift.rule import Rule, name_of, short, tool
from harness.inventory.diff import Fact
from harness.inventory.side import Side, ToolView
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


def _gone(fact: Fact) -> str:
    return f"parameter {fact.old!r} is gone"


def _outgrows(fact: Fact) -> bool:
    """Whether output may now have a type that it could not have before."""
    before = set(fact.old) | ({"integer"} if "number" in fact.old else set())
    return not set(fact.new) <= before


LIST: tuple[Rule, ...] = (
    Rule(
        "tool-removed",
        "breaking",
        "tool-removed",
        lambda fact: "the tool is gone",
        "bring it back, or record its removal in the inventory",
        (PLAIN, None),
        (PLAIN, PLAIN),
    ),
    Rule(
        "tool-added",
        "risk",
        "tool-added",
        lambda fact: "a tool that nobody reviewed",
        "review it, then accept it into the inventory",
        (None, PLAIN),
        (PLAIN, PLAIN),
    ),
    Rule(
        "tool-duplicated",
        "risk",
        "tool-duplicated",
        lambda fact: "the name is listed more than once; which one a client calls is chance",
        "list each name once",
        (PLAIN, Side("specimen", (ToolView("find"), ToolView("find")))),
        (PLAIN, PLAIN),
    ),
    Rule(
        "tool-nameless",
        "risk",
        "tool-nameless",
        lambda fact: f"{fact.new} listed entries have no name and were passed over",
        "give each tool a name",
        (PLAIN, Side("specimen", (), nameless=2)),
        (PLAIN, PLAIN),
    ),
    Rule(
        "list-incomplete",
        "risk",
        "list-incomplete",
        lambda fact: f"the {fact.detail['side']} list is incomplete: {fact.new}",
        "capture the whole list again",
        (PLAIN, Side("specimen", (), complete=False, reason="cursor-loop")),
        (PLAIN, None),
    ),
    Rule(
        "parameter-removed",
        "breaking",
        "parameter-removed",
        _gone,
        "keep accepting it, or announce the removal",
        (ToolView("find", parameters=("n", "q")), PLAIN),
        (ToolView("find", parameters=("q",)), PLAIN),
    ),
    Rule(
        "parameter-added-required",
        "breaking",
        "parameter-added",
        lambda fact: f"parameter {fact.new!r} is new and required; every old call is refused",
        "make it optional",
        (ToolView("find", parameters=()), tool(None, ["q"])),
        (ToolView("find", parameters=()), PLAIN),
        when=lambda fact: fact.detail["required"] is True,
    ),
    Rule(
        "parameter-added-optional",
        "info",
        "parameter-added",
        lambda fact: f"parameter {fact.new!r} is new and optional",
        "review it and accept it into the inventory",
        (ToolView("find", parameters=()), PLAIN),
        (ToolView("find", parameters=()), tool(None, ["q"])),
        when=lambda fact: fact.detail["required"] is False,
    ),
    Rule(
        "parameter-added",
        "risk",
        "parameter-added",
        lambda fact: f"parameter {fact.new!r} is new; whether it is required is not known here",
        "record a shape, so that it can be told",
        (ToolView("find", parameters=()), ToolView("find", parameters=("q",))),
        (ToolView("find", parameters=()), PLAIN),
        when=lambda fact: fact.detail["required"] is None,
    ),
    Rule(
        "schema-changed-unlocated",
        "risk",
        "schema-unlocated",
        lambda fact: "the input schema changed; the inventory holds no shape, so what changed is not known",
        "review the tool and record its shape",
        (ToolView("find", schema_hash="0" * 64), PLAIN),
        (ToolView("find"), PLAIN),
    ),
    Rule(
        "schema-not-canonical",
        "risk",
        "not-canonical",
        lambda fact: f"{fact.pointer or '/'} has no canonical text on the {fact.detail['side']} side ({fact.new}), so nothing can be said about it",
        "use numbers that a double can carry and well-formed text",
        (PLAIN, tool({"q": {"maximum": float("inf")}})),
        (PLAIN, PLAIN),
    ),
    Rule(
        "catalog-hash-wrong",
        "risk",
        "claimed-hash-wrong",
        lambda fact: "the gateway states a schema hash that is not that of the schema it shows",
        "hash the schema as the provider sent it, by the recipe",
        (PLAIN, ToolView("find", schema_hash="0" * 64, claimed_hash="1" * 64)),
        (PLAIN, ToolView("find", schema_hash="0" * 64, claimed_hash="0" * 64)),
    ),
    Rule(
        "risk-changed",
        "risk",
        "risk-changed",
        lambda fact: f"the risk class was {fact.old} and is {fact.new}",
        "review the tool; then correct the class or the inventory",
        (ToolView("find", risk="write"), ToolView("find", risk="read")),
        (ToolView("find", risk="write"), ToolView("find")),
    ),
    Rule(
        "status-changed",
        "risk",
        "status-changed",
        lambda fact: f"the status was {fact.old} and is {fact.new}",
        "review why, then correct the catalog or the inventory",
        (ToolView("find", status="active"), ToolView("find", status="quarantined")),
        (ToolView("find", status="active"), ToolView("find")),
    ),
)

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
