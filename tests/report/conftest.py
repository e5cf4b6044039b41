"""Hand-made results: what a judge could have said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.model.finding import Finding
from harness.model.verdict import ClaimVerdict, Results, Verdict

LEVEL_LINE = "Evidence level: fake (our own stand-ins). This is not proof that a provider works."


def make_verdict(**changes: Any) -> Verdict:
    fields: dict[str, Any] = {
        "item": "MEM-1[fake,reference,2026-07-28]",
        "scenario": "MEM-1",
        "title": "A write waits for approval",
        "area": "memory",
        "level": "fake",
        "target": "reference",
        "protocol": "2026-07-28",
        "providers": ("mem0",),
        "outcome": "pass",
        "exit_code": 0,
        "evaluated": ("held",),
        "claims": (ClaimVerdict(claim="a write waits", proven=True, level="fake", by=("held",)),),
        "seconds": 0.25,
    }
    return Verdict(**(fields | changes))


def make_finding(**changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "id": "dispatched",
        "severity": "fail",
        "message": "1 request reached the provider, 0 were expected",
        "where": "scenarios/memory/MEM-1.yaml:12:9",
        "expectation": "not-dispatched",
        "expected": 0,
        "actual": 1,
        "fix": "hold the call until it is approved",
    }
    return Finding(**(fields | changes))


def make_results(*verdicts: Verdict, **changes: Any) -> Results:
    codes = {verdict.exit_code for verdict in verdicts}
    fields: dict[str, Any] = {
        "run": "20261130T100000Z-abc123",
        "started_at": "2026-11-30T10:00:00.000000Z",
        "ended_at": "2026-11-30T10:00:09.000000Z",
        "harness_version": "0.1.0",
        "level_line": LEVEL_LINE,
        "exit_code": max(codes, default=0),
        "exit_reasons": tuple(f"{v.item}: exit {v.exit_code}" for v in verdicts if v.exit_code),
        "totals": {"scenarios": len(verdicts)},
        "comparison": {"names": 82, "shape": 64, "hash": 0},
        "verdicts": verdicts,
    }
    return Results(**(fields | changes))


@pytest.fixture(scope="session")
def verdict() -> Callable[..., Verdict]:
    return make_verdict


@pytest.fixture(scope="session")
def finding() -> Callable[..., Finding]:
    return make_finding


@pytest.fixture(scope="session")
def results() -> Callable[..., Results]:
    return make_results


@pytest.fixture(scope="session")
def mixed() -> Results:
    """One verdict of each outcome."""
    red = make_verdict(item="MEM-2[fake,reference,2026-07-28]", scenario="MEM-2", outcome="fail", exit_code=1, findings=(make_finding(),))
    unknown = make_verdict(
        item="MEM-3[fake,reference,2026-07-28]",
        scenario="MEM-3",
        outcome="error",
        exit_code=5,
        findings=(make_finding(id="witness-blind", severity="error", message="the tap saw nothing", expected=None, actual=None),),
        claims=(ClaimVerdict(claim="the 403 is audited", proven=False, level="fake", by=("trail",), unproven_because="not evaluated"),),
    )
    away = make_verdict(item="LIVE-1[fake,reference,2026-07-28]", scenario="LIVE-1", outcome="not_applicable", notes=("only at level live",))
    return make_results(make_verdict(), red, unknown, away, exit_code=1)
