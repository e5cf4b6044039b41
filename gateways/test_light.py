"""Three gateways of other people, unchanged, between the agent and the tap: FastMCP's proxy, mcp-proxy and ctrlrun.

Run by `make gateways-light` and by `make gateways`. What each of them is expected to show is written down in expected/TARGET.json (the
scenarios' verdicts) and measured/TARGET.json (the transparency report), for the version that targets/TARGET/requirements.txt pins, its
differences with reasons in targets/TARGET/transparency.yaml; anything else, for better or worse, is news and red. Nothing here skips.

A reviewed change is written down with `python gateways/test_light.py TARGET...`, for the reference gateway too (its report alone, which
tests/transparency compares).
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.clock import SystemClock
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan, target_for
from harness.engine.run import run_plan
from harness.model.finding import Finding
from harness.model.plan import Plan
from harness.model.verdict import Verdict
from harness.target.light import LightTarget
from harness.transparency.facts import Report
from harness.transparency.measure import Seat
from harness.transparency.page import as_written
from harness.transparency.render import as_json
from harness.transparency.report import declaration_of, transparency
from harness.transparency.written import read_report, stable

pytestmark = pytest.mark.timeout(900)

HERE = Path(__file__).resolve().parent
PROTOCOL = "2025-11-25"
"""The newest version that all three speak; a comparison is worth nothing across versions."""
SCENARIOS = ("MEM-1", "MEM-2", "MEM-3", "MEM-4", "MEM-5")
LIGHT = ("ctrlrun", "fastmcp", "mcp_proxy")
REFERENCE = "reference"
OWN = {"ctrlrun": (HERE / "scenarios" / "approval-walk.yaml", HERE / "scenarios" / "approval-retry.yaml")}


def plan_of(target: str) -> Plan:
    paths = [HERE.parent / "scenarios" / "memory" / f"{name}.yaml" for name in SCENARIOS]
    return make_plan((), target=target, protocol=PROTOCOL, paths=[*paths, *OWN.get(target, ())])


def told(verdict: Verdict) -> dict[str, Any]:
    """What a verdict says, without what differs from run to run."""
    return {
        "outcome": verdict.outcome,
        "exit_code": verdict.exit_code,
        "witnesses": verdict.witnesses,
        "findings": [line_of(f) for f in verdict.findings],
        "proven": [c.claim for c in verdict.claims if c.proven],
        "not_proven": [c.claim for c in verdict.claims if not c.proven],
    }


def line_of(finding: Finding) -> str:
    """An untestable one by the ability that is lacking: which words explain it is ours to change."""
    message = finding.message.partition(":")[0] if finding.id == "untestable" else finding.message
    return f"{finding.severity}: {finding.id} @ {finding.expectation or finding.step or '-'}: {message}"


def seen(target: str, folder: Path) -> dict[str, Any]:
    kind = target_for(target)
    assert isinstance(kind, LightTarget)
    evidence = folder / target / "evidence.jsonl"
    asyncio.run(run_plan(plan_of(target), jobs=1, evidence=evidence, run_id=f"gateways-{target}"))
    results = judge(read_evidence(evidence))
    return {
        "gateway": kind.installation().label,
        "protocol": PROTOCOL,
        "exit_code": results.exit_code,
        "scenarios": {v.scenario: told(v) for v in sorted(results.verdicts, key=lambda v: v.scenario)},
    }


def report_of(target: str, folder: Path) -> Report:
    return asyncio.run(transparency(Seat(target_for(target), folder / "work", SystemClock(), PROTOCOL), (), declaration_of(target)))


@contextmanager
def nothing_left() -> Iterator[None]:
    """A gateway ends with all that it started."""
    before = {p.pid for p in psutil.Process().children(recursive=True)}
    yield
    left = [p.cmdline() for p in psutil.Process().children(recursive=True) if p.pid not in before and p.status() != psutil.STATUS_ZOMBIE]
    assert left == []


def shows_what_is_written_down(target: str, folder: Path) -> None:
    expected = json.loads((HERE / "expected" / f"{target}.json").read_text(encoding="utf-8"))
    with nothing_left():
        assert seen(target, folder) == expected


def changes_what_is_written_down(target: str, folder: Path) -> None:
    """Every difference is declared or known, with its reason; none that was known is gone."""
    with nothing_left():
        report = report_of(target, folder)
    assert report.news == ()
    assert report.of("fault", "note") == ()
    assert stable(report) == stable(read_report(HERE / "measured" / f"{target}.json"))


@pytest.mark.parametrize("target", LIGHT)
def test_a_gateway_shows_what_is_written_down_of_it(target: str, tmp_path: Path) -> None:
    shows_what_is_written_down(target, tmp_path)


@pytest.mark.parametrize("target", LIGHT)
def test_a_gateway_changes_on_the_way_what_is_written_down_of_it(target: str, tmp_path: Path) -> None:
    changes_what_is_written_down(target, tmp_path)


def test_the_comparison_page_is_what_is_written_down() -> None:
    made = subprocess.run([sys.executable, HERE / "make_page.py", "--check"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr


@pytest.mark.parametrize("target", LIGHT)
def test_nothing_passes_that_was_not_judged(target: str) -> None:
    """No two-witness verdict is a pass of all that was asked: each expectation that rests on a record is red."""
    expected = json.loads((HERE / "expected" / f"{target}.json").read_text(encoding="utf-8"))
    for name, scenario in expected["scenarios"].items():
        if scenario["witnesses"] == 2:
            assert scenario["outcome"] == "error", name
            assert any(": untestable @ " in f for f in scenario["findings"]), name


def write_down(targets: Sequence[str]) -> None:
    for word in targets:
        with tempfile.TemporaryDirectory() as scratch:
            if word != REFERENCE:
                (HERE / "expected" / f"{word}.json").write_text(as_written(seen(word, Path(scratch))), encoding="utf-8")
            report = report_of(word, Path(scratch))
            (HERE / "measured" / f"{word}.json").write_text(as_json(report), encoding="utf-8")
        sys.stdout.write("".join(f"{word}: {line}\n" for line in (f"measured as {report.gateway}", *report.news)))


if __name__ == "__main__":
    write_down(sys.argv[1:] or (REFERENCE, *LIGHT))
