"""The rule table, and the one function that turns a fact into a finding."""

from __future__ import annotations

from collections.abc import Mapping

from harness.drift.rule import Rule
from harness.drift.rules_input import RULES as INPUT
from harness.drift.rules_lint import RULES as LINT
from harness.drift.rules_list import LIST
from harness.drift.rules_relation import RULES as RELATION
from harness.drift.rules_server import SERVER, SIGNS
from harness.drift.rules_tool import OUTPUT, OUTPUT_OTHER, TEXT
from harness.inventory.facts import Fact
from harness.model.drift import DriftFinding

TABLE: tuple[Rule, ...] = (*LIST, *LINT, *SERVER, *INPUT, *RELATION, *TEXT, *SIGNS, *OUTPUT, OUTPUT_OTHER)


_BY_KIND: Mapping[tuple[str, str], tuple[Rule, ...]] = {
    key: tuple(rule for rule in TABLE if (rule.fact, rule.direction) == key) for key in {(rule.fact, rule.direction) for rule in TABLE}
}


def rule_of(fact: Fact) -> Rule:
    """The one rule that takes this fact. A fact that no rule takes is a mistake in the table: LookupError."""
    for rule in _BY_KIND.get((fact.kind, fact.direction), ()):
        if rule.matches(fact):
            return rule
    if fact.direction == "output":
        return OUTPUT_OTHER
    raise LookupError(f"no drift rule takes a fact of kind {fact.kind!r}")


def judge_fact(fact: Fact) -> DriftFinding:
    """The finding of the rule that takes this fact."""
    return rule_of(fact).judge(fact)
