"""What a live run may cost, and what it has cost so far. Spending is refused before it happens, never noticed afterwards."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from harness.clock import Clock
from harness.errors import UsageError

CLEANUP_SECONDS = 60.0
"""Kept back for cleanup, at most a fifth of the whole."""
BESIDE = 20
"""Requests beside tool calls (handshakes, lists) that each allowed call brings with it at most; a gateway that loops is stopped too."""


@dataclass(frozen=True, slots=True)
class Budget:
    """`calls`: tool calls that reach a provider. `seconds`: of the whole run. `cost`: units of the manifests, None for no bound."""

    calls: int = 200
    seconds: float = 900.0
    cost: float | None = None

    def __post_init__(self) -> None:
        wrong = next((name for name, value in (("calls", self.calls), ("seconds", self.seconds), ("cost", self.cost)) if _unusable(value)), "")
        if wrong:
            raise UsageError(f"the budget of {wrong} is no number above 0", where=f"--max-{wrong}", fix=f"for example --max-{wrong} 100")


def _unusable(value: float | None) -> bool:
    return value is not None and not (math.isfinite(value) and value > 0)


@dataclass
class Spending:
    """What is spent and promised. `reserve`: calls that cleanup of the item under way may still need."""

    budget: Budget
    clock: Clock
    began: float = field(init=False)
    calls: int = 0
    requests: int = 0
    cost: float = 0.0
    reserve: int = 0
    reserve_cost: float = 0.0

    def __post_init__(self) -> None:
        self.began = self.clock.monotonic()

    @property
    def seconds(self) -> float:
        return self.clock.monotonic() - self.began

    def seconds_left(self, *, cleanup: bool) -> float:
        kept = 0.0 if cleanup else min(CLEANUP_SECONDS, self.budget.seconds / 5)
        return self.budget.seconds - kept - self.seconds

    def refusal(self, units: float, *, cleanup: bool, wait: float = 0.0) -> str:
        """Why one more call of so many cost units may not be made now (or after `wait` seconds), or ""."""
        reserve, kept = (0, 0.0) if cleanup else (self.reserve, self.reserve_cost)
        if self.calls + 1 + reserve > self.budget.calls:
            return f"the budget of {self.budget.calls} calls: {self.calls} are made, {reserve} kept for cleanup"
        if self.budget.cost is not None and self.cost + units + kept > self.budget.cost:
            return f"the budget of {self.budget.cost:g} cost units: {self.cost:g} are spent, this call takes {units:g}, {kept:g} are kept for cleanup"
        if self.seconds_left(cleanup=cleanup) <= wait:
            more = f", {wait:.0f} s more must be waited" if wait else ""
            return f"the budget of {self.budget.seconds:g} s: {self.seconds:.0f} s have passed{more}"
        return ""

    def charge(self, units: float) -> None:
        self.calls += 1
        self.cost += units

    def told(self) -> dict[str, float | int | None]:
        """For evidence and reports."""
        return {
            "calls": self.calls,
            "max_calls": self.budget.calls,
            "requests": self.requests,
            "seconds": round(self.seconds, 1),
            "max_seconds": self.budget.seconds,
            "cost": round(self.cost, 3),
            "max_cost": self.budget.cost,
        }
