"""A gateway that does not come up, or goes away in the middle: what it was, where, how to mend it; evidence so far kept; no child left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.cli.main import main
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.errors import Exit
from harness.model.evidence import ClientExchange, PlanItemRecord, ProcessRecord, StepRecord

NEWEST = "2026-07-28"
ADAPTER = """\
import sys
from harness.target.reference import ReferenceTarget
TEXT = {text!r}
TARGET = ReferenceTarget(id="crashy", summary="for this test", abilities=frozenset(), command=(sys.executable, "-c", TEXT), ready_within_s=5.0)
"""
SLOW = """\
scenario: {id}
title: A call that is under way when the gateway goes
connections: {{mem0: {{}}}}
let: {{user: "harness-${{nonce}}"}}
steps:
  - id: before
    call: mem0.get_memories
    with: {{filters: {{user_id: "${{user}}"}}}}
    expect: [{{id: fine, audited: success}}]
  - {{id: hold, fault: mem0, kind: hang, tool: add_memory}}
  - id: under-way
    call: mem0.add_memory
    with: {{text: "The ${{nonce}} miller keeps a grain scoop.", user_id: "${{user}}", infer: false}}
    expect: [{{id: once, dispatched: {{count: 1}}}}]
  - id: after
    call: mem0.get_memories
    with: {{filters: {{user_id: "${{user}}"}}}}
    expect: [{{id: later, audited: success}}]
expect: [{{id: quiet, nothing_else: true}}]
proves:
  - {{claim: it works before, by: [fine]}}
  - {{claim: it works after, by: [once, later, quiet]}}
cleanup:
  - {{id: mend, heal: mem0}}
"""

LASTING = ("multiprocessing.resource_tracker", "harness.drift.related")


def no_child_is_left() -> bool:
    """Ours, without what lives for the worker's life: multiprocessing's tracker, and the child that compares schemas."""
    mine = psutil.Process(os.getpid()).children(recursive=True)
    return [p for p in mine if p.is_running() and not any(word in " ".join(p.cmdline()) for word in LASTING)] == []


@pytest.fixture
def crashy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Installs a third-party target, as a package would that declares the entry point `harness.target`."""

    def install(text: str) -> None:
        site = tmp_path / "site"
        facts = site / "crashy-1.0.dist-info"
        facts.mkdir(parents=True)
        (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: crashy\nVersion: 1.0\n", encoding="utf-8")
        (facts / "entry_points.txt").write_text("[harness.target]\ncrashy = crashy_target:TARGET\n", encoding="utf-8")
        (site / "crashy_target.py").write_text(ADAPTER.format(text=text), encoding="utf-8")
        monkeypatch.syspath_prepend(str(site))
        monkeypatch.delitem(sys.modules, "crashy_target", raising=False)

    return install


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("import sys; sys.exit('no disk left')", Exit.UNREACHABLE, "no disk left"),
        ("print('Welcome!', flush=True); import time; time.sleep(60)", Exit.UNREACHABLE, "not a ready line"),
        ("import sys; sys.stderr.write('error: port 80 is in use (x). y'); sys.exit(2)", Exit.USAGE, "port 80 is in use"),
    ],
    ids=["dies", "talks", "port-in-use"],
)
def test_a_gateway_that_does_not_come_up(text: str, code: Exit, said: str, crashy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crashy(text)
    done = main(["run", "MEM-1", "--target", "crashy", "--protocol", NEWEST, "--reports-dir", str(tmp_path / "reports")])
    shown = capsys.readouterr()
    assert done == code
    assert said in shown.err
    assert "fix:" in shown.err
    assert "Traceback" not in shown.err + shown.out
    assert no_child_is_left()
    folder = tmp_path / "reports" / "latest"
    assert (folder / "evidence.jsonl").read_text(encoding="utf-8").startswith('{"kind":"run"')
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert results["exit_code"] == code
    assert any(said in reason for reason in results["exit_reasons"])
    assert not any(verdict["outcome"] == "pass" for verdict in results["verdicts"])


def test_a_target_without_defects_refuses_them_before_anything_is_started(crashy: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crashy("open('started', 'w').close()")
    done = main(["run", "MEM-1", "--target", "crashy", "--defect", "drop-audit", "--reports-dir", str(tmp_path / "reports")])
    assert done == Exit.USAGE
    said = capsys.readouterr().err
    assert "crashy" in said
    assert "--defect" in said
    assert not (tmp_path / "started").exists()


def test_an_unknown_defect_is_a_usage_error_that_names_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = main(["run", "MEM-1", "--defect", "drop-audits", "--protocol", NEWEST, "--reports-dir", str(tmp_path / "reports")])
    said = capsys.readouterr().err
    assert done == Exit.USAGE
    assert "drop-audits" in said
    assert no_child_is_left()


@pytest.fixture(scope="module")
def broken_off(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two scenarios, one after the other; the gateway is killed while the first one's write is under way."""
    folder = tmp_path_factory.mktemp("killed")
    for name in ("FIRST", "SECOND"):
        (folder / f"{name}.yaml").write_text(SLOW.format(id=name), encoding="utf-8")
    evidence = folder / "run" / "evidence.jsonl"

    async def kill_when_under_way() -> None:
        """Once the step before the call is recorded and the tap's fault is in place, the call is on its way or waits."""
        while not (evidence.exists() and '"action":"fault"' in evidence.read_text(encoding="utf-8")):
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        ready = next(r for r in read_evidence(evidence) if isinstance(r, ProcessRecord))
        os.kill(int(ready.detail["pid"]), signal.SIGKILL)

    async def go() -> None:
        killer = asyncio.create_task(kill_when_under_way())
        await run_plan(make_plan([], paths=[folder]), jobs=1, evidence=evidence, run_id="killed")
        await killer

    asyncio.run(asyncio.wait_for(go(), 45))
    return evidence


def test_a_gateway_that_dies_during_a_step_is_unreachable_for_it_and_for_all_that_follow(broken_off: Path) -> None:
    results = judge(read_evidence(broken_off))
    assert results.exit_code == Exit.UNREACHABLE
    assert [v.outcome for v in results.verdicts] == ["error", "error"]
    for verdict in results.verdicts:
        (trouble,) = [f for f in verdict.findings if f.id == "unreachable"]
        assert trouble.where
        assert "gateway.log" in trouble.fix
        assert not any(claim.proven for claim in verdict.claims)
    assert "ended with code -9" in next(f.message for f in results.verdicts[0].findings if f.id == "unreachable")


def test_what_was_seen_until_then_is_kept(broken_off: Path) -> None:
    records = read_evidence(broken_off)
    steps = [(r.step, r.trouble is None) for r in records if isinstance(r, StepRecord) and r.item.startswith("FIRST")]
    assert steps[:2] == [("before", True), ("hold", True)]
    under_way = next(r for r in records if isinstance(r, ClientExchange) and r.step == "under-way")
    assert under_way.result is None
    assert under_way.transport_error or under_way.error
    ends = [r for r in records if isinstance(r, PlanItemRecord) and r.phase == "end"]
    assert len(ends) == 2, "each item came to an end of its own, however short"
    dispatched = [r for r in records if r.kind == "provider_exchange" and r.exchange.tool == "add_memory"]
    assert len(dispatched) == 1, "the witness outlives the gateway and still says what it saw"


def test_no_child_outlives_the_run(broken_off: Path) -> None:
    ready = next(r for r in read_evidence(broken_off) if isinstance(r, ProcessRecord))
    assert not psutil.pid_exists(int(ready.detail["pid"]))
    assert no_child_is_left()
