"""Risk classes and what is said about them."""

from __future__ import annotations

from typing import Literal

from harness.model.location import Frozen

Risk = Literal["read", "write", "destructive"]
RISKS: tuple[Risk, ...] = ("read", "write", "destructive")

Basis = Literal["reviewed", "hint", "name", "floor"]
Direction = Literal["under", "over"]


def rank(risk: Risk) -> int:
    """0 read, 1 write, 2 destructive: the order in which a class may be raised."""
    return RISKS.index(risk)


class RiskVerdict(Frozen):
    """What one classifier says of one tool, and by what: a reviewed table, a hint, a word of the name, or the floor."""

    provider: str
    tool: str
    risk: Risk
    basis: Basis
    reason: str


class RiskDisagreement(Frozen):
    """One party's class differs from the oracle's.

    `direction` is the claim's: "under" (a harmful tool shown as harmless: security) or "over" (needless prompts: fatigue).
    `id` is `risk-under-claimed` or `risk-over-claimed`.
    """

    id: Literal["risk-under-claimed", "risk-over-claimed"]
    severity: Literal["fail", "warn"]
    provider: str
    tool: str
    claimed_by: str
    claimed: Risk
    expected: Risk
    direction: Direction
    why: str
    fix: str

    @property
    def message(self) -> str:
        return f"{self.provider}.{self.tool}: {self.claimed_by} says {self.claimed}, the oracle says {self.expected} ({self.why})"
