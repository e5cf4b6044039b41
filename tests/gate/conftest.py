"""Prepared runs: hand-made verdicts in a whole frame, as `read_run` would give them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harness.claims.runs import StoredRun
from harness.model.evidence import RunRecord
from harness.model.finding import Finding
from harness.model.verdict import ClaimVerdict, Results, ToolCoverage, Verdict

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def make_verdict(scenario: str = "MEM-1", level: Any = "live", outcome: Any = "pass", *findings: Finding, **changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "item": f"{scenario}[{level},reference,2026-07-28]",
        "scenario": scenario,
        "title": "t",
        "area": "memory",
        "level": level,
        "target": "reference",
        "protocol": "2026-07-28",
        "providers": ("mem0",),
        "tags": ("release",),
        "outcome": outcome,
        "exit_code": {"pass": 0, "fail": 1, "error": 5, "not_applicable": 0}[outcome],
        "findings": findings,
        "claims": (ClaimVerdict(claim="a write waits", proven=outcome == "pass", level=level, by=("held",), unproven_because="held: no"),),
        "counts": {"compared_names": 2},
        "seconds": 2.0,
        "tools": (ToolCoverage(provider="mem0", tool="add_memory", state="agreed", level=level),),
    }
    return Verdict(**(fields | changes))


def make_run(
    *verdicts: Verdict, days: float = 1.0, run: str = "r1", broken: bool = False, ended: bool = True, planned: tuple[str, ...] = ()
) -> StoredRun:
    at = (NOW - timedelta(days=days)).isoformat()
    results = Results(
        run=run,
        started_at=at,
        ended_at=at,
        harness_version="0.1.0",
        level_line="Evidence level: x",
        exit_code=0,
        exit_reasons=(),
        totals={},
        verdicts=verdicts,
    )
    records = [RunRecord(phase="start", run=run, at=at, options={"items": list(planned), "broken_on_purpose": broken})]
    records += [RunRecord(phase="end", run=run, at=at)] if ended else []
    return StoredRun(run, results, tuple(records), broken)


def make_finding(**changes: Any) -> Finding:
    fields: dict[str, Any] = {"id": "dispatched", "severity": "fail", "message": "1 request, 0 expected", "expectation": "held", "fix": "hold it"}
    return Finding(**(fields | changes))


@pytest.fixture(scope="session")
def verdict() -> Callable[..., Verdict]:
    return make_verdict


@pytest.fixture(scope="session")
def run() -> Callable[..., StoredRun]:
    return make_run


@pytest.fixture(scope="session")
def finding() -> Callable[..., Finding]:
    return make_finding


@pytest.fixture(scope="session")
def now() -> datetime:
    return NOW
