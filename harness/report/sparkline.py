"""Small pictures of a series, as inline SVG: our own numbers only, so nothing of a provider's can be in them."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, GAP = 120, 24, 2


def bars(outcomes: Sequence[str]) -> list[dict[str, object]]:
    """One mark per run, oldest first: where it stands, how high, and which class colours it. A pass is low, what needs a look is high."""
    if not outcomes:
        return []
    step = WIDTH / len(outcomes)
    heights = {"pass": HEIGHT * 0.5, "not_applicable": HEIGHT * 0.25}
    return [
        {
            "x": round(n * step, 2),
            "y": round(HEIGHT - heights.get(outcome, HEIGHT), 2),
            "width": round(max(step - GAP, 1), 2),
            "height": round(heights.get(outcome, HEIGHT), 2),
            "css": outcome,
        }
        for n, outcome in enumerate(outcomes)
    ]


def line(values: Sequence[float | None]) -> str:
    """The `points` of a polyline from the oldest to the newest value, scaled to the largest; runs without a value are left out."""
    known = [(n, value) for n, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return ""
    top = max(value for _, value in known) or 1.0
    step = WIDTH / max(len(values) - 1, 1)
    return " ".join(f"{n * step:.1f},{HEIGHT - 1 - (HEIGHT - 2) * value / top:.1f}" for n, value in known)
