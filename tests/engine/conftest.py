"""Running plans in tests: the public door (plan, run, judge) on a real gateway process, real stand-ins and a real tap."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.model.evidence import EvidenceRecord
from harness.model.verdict import Results
from harness.scenario.files import data_root

NEWEST = "2026-07-28"


@dataclass(frozen=True)
class Ran:
    results: Results
    records: list[EvidenceRecord]
    evidence: Path

    def found(self) -> set[str]:
        """Every finding that is no warning, as "id @ scenario / expectation"."""
        return {
            f"{f.id} @ {v.scenario} / {f.expectation or '-'}"
            for v in self.results.verdicts
            for f in v.findings
            if f.severity in ("fail", "drift", "error")
        }


@cache
def shipped() -> dict[str, Path]:
    """Scenario id → its file, by the file's first line: a run of one scenario need not read all of them."""
    return {
        line.removeprefix("scenario: "): file
        for file in sorted((data_root() / "scenarios").rglob("*.yaml"))
        if (line := file.read_text(encoding="utf-8").partition("\n")[0]).startswith("scenario: ")
    }


def files_of(select: Sequence[str]) -> list[Path]:
    """Nothing where a word is no scenario's id: then the plan looks among all."""
    return [shipped()[word] for word in select] if set(select) <= set(shipped()) else []


class Runner:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs = 0

    def __call__(
        self,
        *select: str,
        defects: Sequence[str] = (),
        protocol: str | None = NEWEST,
        paths: Sequence[Path] = (),
        jobs: int = 2,
        level: str = "fake",
    ) -> Ran:
        self.runs += 1
        paths = paths or files_of(select)
        plan = make_plan(select, protocol=protocol, paths=paths, level=level)
        evidence = self.folder / str(self.runs) / "evidence.jsonl"
        asyncio.run(run_plan(plan, jobs=jobs, evidence=evidence, run_id=f"test-{self.runs}", defects=defects))
        records = read_evidence(evidence)
        return Ran(judge(records), records, evidence)

    def scenario(self, text: str, **options: object) -> Ran:
        """Run one scenario given as text."""
        path = self.folder / f"scenario-{self.runs}.yaml"
        path.write_text(text, encoding="utf-8")
        return self(paths=[path], **options)  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Runner:
    return Runner(tmp_path)
