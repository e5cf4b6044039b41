"""What a report format is. A format is one file in this folder with a `REPORT` object; third parties use the entry point group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import harness.report
from harness.model.verdict import Results
from harness.registry import Registry, discover_plugins

ENTRY_POINTS = "harness.report"


class Report(Protocol):
    """`id` is the word after `--report`; `by_default` says whether it is written when no format is named."""

    @property
    def id(self) -> str: ...

    @property
    def summary(self) -> str: ...

    @property
    def by_default(self) -> bool: ...

    def files(self, results: Results) -> Mapping[str, bytes]:
        """File name (relative, POSIX) → content. Pure: the same results give the same bytes."""
        ...


def load_reports() -> Registry[Report]:
    """Every known format, by id."""
    return discover_plugins(harness.report, "REPORT", "report format", ENTRY_POINTS)


def choose_reports(names: tuple[str, ...]) -> tuple[Report, ...]:
    """The named formats; none named: every format that is written by default; only "none": no format at all.

    Raises UsageError for an unknown name, or for "none" beside a format.
    """
    from harness.errors import UsageError

    known = load_reports()
    if not names:
        return tuple(report for report in known.values() if report.by_default)
    if "none" in names:
        if set(names) != {"none"}:
            raise UsageError("--report none stands alone", where="--report", fix="name the formats you want, or only none")
        return ()
    return tuple(known.need(name, where="--report") for name in dict.fromkeys(names))
