"""What the history knows of the plan items of a run that is about to begin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, cast

from harness.history.store import History
from harness.model.trend import MAX_POINTS, Trend, TrendPoint

Outcome = Literal["pass", "fail", "error", "not_applicable"]
ROWS = 20_000
"""Rows of the history that are looked through, the newest."""


def trends(history: History, items: Iterable[tuple[str, Sequence[str]]]) -> tuple[Trend, ...]:
    """`items`: (plan item, plan items of the names it had before). Those that never ran have no trend. Raises as History does."""
    now: Mapping[str, str] = {name: item for item, former in items for name in (item, *former)}
    visible = {(run, row.item): row.seconds for run, _, row in history.visible() if row.visible}
    found: dict[str, list[TrendPoint]] = {}
    for run, at, row in history.items(limit=ROWS):
        item = now.get(row.item)
        points = found.setdefault(item, []) if item is not None else []
        if item is None or len(points) >= MAX_POINTS:
            continue
        outcome = cast(Outcome, row.outcome)
        waited = visible.get((run, row.item))
        points.append(TrendPoint(run=run, at=at, outcome=outcome, seconds=row.seconds, latency_ms=row.latency_ms, time_to_visible_s=waited))
    return tuple(Trend(item=item, points=tuple(reversed(points))) for item, points in found.items() if points)
