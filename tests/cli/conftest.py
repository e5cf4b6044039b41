"""One real run for all tests that read one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.cli.main import main

VERSION = "2026-07-28"


@dataclass(frozen=True)
class Run:
    code: int
    folder: Path


@pytest.fixture(scope="session")
def good_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    reports = tmp_path_factory.mktemp("good") / "reports"
    code = main(["run", "MEM-1", "DISCOVER-MEM0", "--protocol", VERSION, "--reports-dir", str(reports)])
    return Run(code, reports / "latest")


@pytest.fixture(scope="session")
def broken_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    reports = tmp_path_factory.mktemp("broken") / "reports"
    code = main(["run", "MEM-1", "--protocol", VERSION, "--defect", "skip-approval", "--reports-dir", str(reports)])
    return Run(code, reports / "latest")
