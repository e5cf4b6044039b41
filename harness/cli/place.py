"""Where a run keeps what it knows. Light: the pytest plug-in needs it in processes that may never meet a scenario."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.clock import Clock

EVIDENCE = "evidence.jsonl"


@dataclass(frozen=True, slots=True)
class RunPlace:
    """`<reports>/<run>/`."""

    reports: Path
    run: str

    @property
    def folder(self) -> Path:
        return self.reports / self.run

    @property
    def evidence(self) -> Path:
        return self.folder / EVIDENCE


def new_run_id(clock: Clock) -> str:
    """Sorts by time, and is unique between runs of the same second."""
    return f"{clock.now():%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"
