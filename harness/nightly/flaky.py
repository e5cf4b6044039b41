"""Steps that fail in some nights and not in others, as the history tells. Only a hint: nothing is quarantined by itself. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.history.rows import ItemRow

LOOK_BACK = 20
LEAST_CHANGES = 3
"""Passing to failing or back; fewer may be a break and its mending."""


@dataclass(frozen=True, slots=True)
class Flaky:
    scenario: str
    step: str
    runs: int
    failed: int
    changes: int

    def told(self) -> dict[str, str | int]:
        return {"scenario": self.scenario, "step": self.step, "runs": self.runs, "failed": self.failed, "changes": self.changes}


def flaky_steps(rows: Sequence[tuple[str, str, ItemRow]]) -> list[Flaky]:
    """`rows`: (run, at, item), newest first. One item's last LOOK_BACK runs are looked at; those that were not applicable do not count."""
    histories: dict[str, list[ItemRow]] = {}
    for _, _, row in rows:
        if row.outcome != "not_applicable" and len(histories.setdefault(row.item, [])) < LOOK_BACK:
            histories[row.item].append(row)
    found: dict[tuple[str, str], Flaky] = {}
    for runs in histories.values():
        for step in sorted({step for row in runs for step in row.failed_steps}):
            failed = [step in row.failed_steps for row in runs]
            changes = sum(one != other for one, other in pairwise(failed))
            if changes >= LEAST_CHANGES:
                now = Flaky(runs[0].scenario, step, len(runs), sum(failed), changes)
                known = found.get((now.scenario, step))
                if known is None or now.changes > known.changes:
                    found[now.scenario, step] = now
    return list(found.values())
