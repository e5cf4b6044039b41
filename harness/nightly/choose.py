"""At which level each scenario can be run tonight: the strongest one at which nothing is missing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.engine.plan import items_of, live_items_of, replayable
from harness.engine.tapes import Tapes
from harness.live.options import LiveOptions
from harness.model.plan import PlanItem
from harness.model.scenario import LEVELS, Level, Scenario
from harness.risk.oracle import Oracle


@dataclass(frozen=True, slots=True)
class Choice:
    """`items`: what to run; empty when no level can be had. `passed_over`: stronger level → why it was not taken."""

    scenario: Scenario
    level: Level | None
    items: tuple[PlanItem, ...]
    passed_over: tuple[tuple[Level, str], ...]


def choose(scenario: Scenario, *, up_to: Level, live: LiveOptions, oracle: Oracle, target: str, protocol: str | None, exact: bool = False) -> Choice:
    """`exact`: at `up_to` or not at all; what is missing there then stands in its items.

    A live endpoint that is down is chosen all the same: its failure is what the night is there to tell.
    """
    passed: list[tuple[Level, str]] = []
    for level in reversed(LEVELS[: LEVELS.index(up_to) + 1]):
        items = at_level(scenario, level, live, oracle, target, protocol)
        reason = why_not(items)
        if not reason or exact:
            return Choice(scenario, level, tuple(items), tuple(passed))
        passed.append((level, reason))
    return Choice(scenario, None, (), tuple(passed))


def at_level(scenario: Scenario, level: Level, live: LiveOptions, oracle: Oracle, target: str, protocol: str | None) -> tuple[PlanItem, ...]:
    if level == "live":
        return tuple(live_items_of(scenario, live, oracle, target, protocol))
    items = tuple(items_of(scenario, level, target, protocol))
    return replayable(items, Tapes()) if level == "replayed" else items


def why_not(items: Sequence[PlanItem]) -> str:
    for item in items:
        reasons = (item.not_applicable, *item.missing, *item.untestable)
        if reason := next(filter(None, reasons), ""):
            return reason
    return ""
