"""What a drift format is: one file in this folder with a `FORMAT` object."""

from __future__ import annotations

from typing import Protocol

import harness.report.drift
from harness.model.drift_result import DriftResult
from harness.registry import Registry, discover_plugins


class DriftFormat(Protocol):
    """`id` is the word after `--format`."""

    @property
    def id(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def render(self, result: DriftResult) -> bytes:
        """UTF-8, the same for the same result; what others chose to write in it steers no terminal, parser or page."""
        ...


def load_formats() -> Registry[DriftFormat]:
    """Every known format, by id."""
    return discover_plugins(harness.report.drift, "FORMAT", "drift format")
