"""Small pictures of a series, as inline SVG: our own numbers only, so nothing of a provider's can be in them."""

from __future__ import annotations

from collections.abc import Sequence

WIDTH, HEIGHT, GAP = 120, 24, 2


def bars(outcomes: Sequence[str]) -> list[tuple[str, str]]:
    """One mark per run, oldest first, as (class that colours it, path). A pass is low, what needs a look is high."""
    step = WIDTH / max(len(outcomes), 1)
    heights = {"pass": HEIGHT // 2, "not_applicable": HEIGHT // 4}
    paths: dict[str, list[str]] = {}
    for n, outcome in enumerate(outcomes):
        height, width = heights.get(outcome, HEIGHT), max(step - GAP, 1)
        paths.setdefault(outcome, []).append(f"M{n * step:.4g} {HEIGHT - height}h{width:.3g}v{height}h-{width:.3g}z")
    return [(outcome, "".join(found)) for outcome, found in paths.items()]


def line(values: Sequence[float | None]) -> str:
    """The `points` of a polyline from the oldest to the newest value, scaled to the largest; runs without a value are left out."""
    known = [(n, value) for n, value in enumerate(values) if value is not None]
    if len(known) < 2:
        return ""
    top = max(value for _, value in known) or 1.0
    step = WIDTH / max(len(values) - 1, 1)
    return " ".join(f"{n * step:.1f},{HEIGHT - 1 - (HEIGHT - 2) * value / top:.1f}" for n, value in known)
