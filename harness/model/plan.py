"""What will be done here and now."""

from __future__ import annotations

from harness.model.location import Frozen
from harness.model.scenario import Level, Scenario


class PlanItem(Frozen):
    """scenario × level × target × protocol. `missing` names prerequisites that make it red before it starts.

    `lacking`: abilities that the target has not. `untestable`: those that the scenario needs to be set up at all, with what for.
    """

    scenario: Scenario
    level: Level
    target: str
    protocol: str
    missing: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()
    untestable: tuple[str, ...] = ()
    not_applicable: str = ""
    rehearsed: bool = False
    """The live path, with stand-ins that play the hosts: `level` is fake then."""

    @property
    def runnable(self) -> bool:
        return not (self.missing or self.untestable or self.not_applicable)

    @property
    def id(self) -> str:
        return f"{self.scenario.id}[{self.level},{self.target},{self.protocol}]"


class Plan(Frozen):
    items: tuple[PlanItem, ...]
