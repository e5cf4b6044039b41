"""The risk of each tool as every party has it: the gateway, the harness's oracle, the inventory, and the tool's own hints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.drift.rules import TABLE
from harness.inventory.side import Side
from harness.model.drift import DriftFinding, RiskRow
from harness.model.risk import Risk, rank
from harness.model.tool import Tool
from harness.risk.oracle import Oracle

SEVERITY_OF_RULE = {rule.id: rule.severity for rule in TABLE if rule.fact == "risk-disputed"}


def hinted(annotations: Mapping[str, Any]) -> tuple[Risk | None, str]:
    """What a tool's hints say by themselves, and which one said it. A contradiction counts as its worse half; defaults are not assumed."""
    for key, value, risk in (
        ("destructiveHint", True, "destructive"),
        ("readOnlyHint", False, "write"),
        ("readOnlyHint", True, "read"),
    ):
        if annotations.get(key) is value:
            found: Risk = "destructive" if risk == "destructive" else "write" if risk == "write" else "read"
            return found, f"{key} is {str(value).lower()}"
    return None, ""


def risk_table(
    provider: str, oracle: Oracle, *, gateway: Side | None = None, inventory: Side | None = None, listed: Side | None = None
) -> tuple[RiskRow, ...]:
    """One row per tool that any side names, in the order of inventory, listing, gateway. Hints are read from the listing, else the gateway."""
    sides = {"gateway": gateway, "inventory": inventory, "listed": listed}
    known = {word: {view.name: view for view in side.views} if side is not None else {} for word, side in sides.items()}
    rows = []
    for name in dict.fromkeys([*known["inventory"], *known["listed"], *known["gateway"]]):
        shown = next((view.tool for word in ("listed", "gateway") if (view := known[word].get(name)) is not None and view.tool is not None), None)
        tool = shown or Tool.from_wire({"name": name})
        verdict = oracle.judge(provider, tool)
        hint, why = hinted(tool.annotations)
        theirs, agreed = known["gateway"].get(name), known["inventory"].get(name)
        rows.append(
            RiskRow(
                tool=name,
                gateway=theirs.risk if theirs is not None else None,
                oracle=verdict.risk,
                inventory=agreed.risk if agreed is not None else None,
                hints=hint,
                oracle_basis=verdict.basis,
                oracle_reason=verdict.reason,
                hint_reason=why,
            )
        )
    return tuple(rows)


def risk_findings(rows: tuple[RiskRow, ...]) -> tuple[DriftFinding, ...]:
    """Who disagrees with the oracle, in which direction and why. Under-claiming is a security finding, over-claiming only fatigue."""
    out = []
    for row in rows:
        for by, claim in (("the gateway", row.gateway), ("the inventory", row.inventory), ("the tool's hints", row.hints)):
            if claim is None or claim == row.oracle:
                continue
            rule = "risk-under-claimed" if rank(claim) < rank(row.oracle) else "risk-over-claimed"
            why = f"oracle: {row.oracle_reason}" + (f"; hints: {row.hint_reason}" if by == "the tool's hints" else "")
            out.append(
                DriftFinding(
                    id=rule,
                    severity=SEVERITY_OF_RULE[rule],
                    tool=row.tool,
                    pointer="/annotations" if by == "the tool's hints" else "/risk",
                    expected=row.oracle,
                    actual=claim,
                    message=f"{row.tool}: {by} says {claim}, the oracle says {row.oracle} ({why})",
                    fix=f"treat it as {row.oracle}, or review the tool and record its class in the inventory",
                )
            )
    return tuple(out)
