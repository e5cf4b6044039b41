"""The rule table, and the one function that turns a fact into a finding."""

from __future__ import annotations

from harness.drift.rule import Rule
from harness.drift.rules_input import RULES as INPUT
from harness.drift.rules_tool import LIST, OUTPUT, OUTPUT_OTHER, TEXT
from harness.inventory.diff import Fact
from harness.model.drift import DriftFinding

TABLE: tuple[Rule, ...] = (*LIST, *INPUT, *TEXT, *OUTPUT, OUTPUT_OTHER)


def judge_fact(fact: Fact) -> DriftFinding:
    """The finding of the one rule that takes this fact. A fact that no rule takes is a mistake in the table: LookupError."""
    for rule in TABLE:
        if rule.matches(fact):
            return rule.judge(fact)
    if fact.direction == "output":
        return OUTPUT_OTHER.judge(fact)
    raise LookupError(f"no drift rule takes a fact of kind {fact.kind!r}")
