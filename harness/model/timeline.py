"""One scenario as its four witnesses tell it, side by side."""

from __future__ import annotations

from harness.model.location import Frozen

MAX_ROWS = 400
"""Rows of one scenario that are kept; `TimelineRow.what` of the last one says how many are not."""


class TimelineRow(Frozen):
    """One call or one deed of the operator, in the order in which they began. Each cell holds one line per event, in order.

    `at_odds` says in words where the cells contradict one another; `findings` names the judged findings of this step.
    """

    step: str
    attempt: int = 1
    cleanup: bool = False
    what: str
    agent: tuple[str, ...] = ()
    operator: tuple[str, ...] = ()
    audit: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    at_odds: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
