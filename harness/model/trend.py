"""What earlier runs said of the scenarios of this one."""

from __future__ import annotations

from typing import Literal

from harness.model.location import Frozen

MAX_POINTS = 15
"""Earlier runs of one scenario that are kept, the newest."""


class TrendPoint(Frozen):
    """One earlier run of one plan item. Times in seconds and milliseconds; None where nothing was measured."""

    run: str
    at: str
    outcome: Literal["pass", "fail", "error", "not_applicable"]
    seconds: float
    latency_ms: float | None = None
    time_to_visible_s: float | None = None


class Trend(Frozen):
    """Oldest first. `item` is the plan item as this run calls it; a scenario that was renamed declares its former ids."""

    item: str
    points: tuple[TrendPoint, ...]
