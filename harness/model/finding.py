"""A finding is one judged fact. It is data; it is never raised."""

from __future__ import annotations

from typing import Any, Literal

from harness.model.location import Frozen

Severity = Literal["error", "fail", "drift", "warn", "info"]


class Finding(Frozen):
    """`id` is the rule's kebab-case id. `error` means "could not tell"; `drift` counts towards exit 6 when alone; warn and info never fail.

    `where` is file:line:column of the expectation, `expectation` its own id in the scenario. `fix` says what to do about it.
    """

    id: str
    severity: Severity = "fail"
    message: str
    where: str = ""
    expectation: str = ""
    step: str = ""
    expected: Any = None
    actual: Any = None
    fix: str = ""
