"""Times until what was written could be read, as a spread over runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from harness.history.rows import VisibleRow


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds over all measurements of one provider, tool, kind and level. `never`: how often it was not seen within its budget."""

    provider: str
    tool: str
    kind: str
    level: str
    seen: int
    never: int
    least: float | None
    middle: float | None
    most: float | None


def spread(rows: Sequence[VisibleRow]) -> list[Spread]:
    groups: dict[tuple[str, str, str, str], list[VisibleRow]] = {}
    for row in rows:
        groups.setdefault((row.provider, row.tool, row.kind, row.level), []).append(row)
    found = []
    for key, group in sorted(groups.items()):
        times = [row.seconds for row in group if row.visible]
        ends = (round(min(times), 3), round(median(times), 3), round(max(times), 3)) if times else (None, None, None)
        found.append(Spread(*key, len(times), len(group) - len(times), *ends))
    return found
