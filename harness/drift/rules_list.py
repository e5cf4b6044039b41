"""Rules on the list, on names, hashes, risk and status."""

from __future__ import annotations

from harness.drift.rule import Rule, tool
from harness.inventory.facts import Fact
from harness.inventory.side import Side, ToolView
from harness.model.risk import rank

PLAIN = tool()


def _gone(fact: Fact) -> str:
    return f"parameter {fact.old!r} is gone"


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
        "risk-under-claimed",
        "risk",
        "risk-disputed",
        lambda fact: f"the gateway says {fact.new}, reviewed is {fact.old}: a harmful tool passes as harmless",
        "raise the class in the gateway, or review the tool and record its class in the inventory",
        (ToolView("find", risk="write"), ToolView("find", risk="read", status="active")),
        (ToolView("find", risk="write"), ToolView("find", risk="destructive", status="active")),
        when=lambda fact: rank(fact.new) < rank(fact.old),
    ),
    Rule(
        "risk-over-claimed",
        "info",
        "risk-disputed",
        lambda fact: f"the gateway says {fact.new}, reviewed is {fact.old}: people are asked where nothing is at stake",
        "lower the class in the gateway, or review the tool and record its class in the inventory",
        (ToolView("find", risk="read"), ToolView("find", risk="write", status="active")),
        (ToolView("find", risk="write"), ToolView("find", risk="read", status="active")),
        when=lambda fact: rank(fact.new) > rank(fact.old),
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
