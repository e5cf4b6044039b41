"""What the history knows of the plan items of a run that is about to begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, cast

from harness.history.store import History
from harness.model.trend import MAX_POINTS, Trend, TrendPoint

Outcome = Literal["pass", "fail", "error", "not_applicable"]
Name = tuple[str, str]
"""Scenario and plan item."""


def trends(history: History, items: Iterable[Sequence[Name]]) -> tuple[Trend, ...]:
    """Each item by its name now, then by those it had before. Items that never ran have no trend. Raises as History does."""
    found = (_trend(history, names) for names in items)
    return tuple(trend for trend in found if trend.points)


def _trend(history: History, names: Sequence[Name]) -> Trend:
    points = [
        TrendPoint(run=run, at=at, outcome=cast(Outcome, outcome), seconds=seconds, latency_ms=latency_ms, time_to_visible_s=waited)
        for scenario, item in names
        for run, at, outcome, seconds, latency_ms, waited in history.points(scenario, item, MAX_POINTS)
    ]
    return Trend(item=names[0][1], points=tuple(sorted(points, key=lambda point: (point.at, point.run))[-MAX_POINTS:]))
