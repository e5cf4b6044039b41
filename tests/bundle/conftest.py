"""One real run, bundled once, and the tool that tampers with it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from harness.cli.main import main

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def real_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one run of MEM-1."""
    reports = tmp_path_factory.mktemp("bundled") / "reports"
    assert main(["run", "MEM-1", "--protocol", "2026-07-28", "--report", "results_json", "--reports-dir", str(reports)]) == 0
    return reports / "latest"


@pytest.fixture(scope="session")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("torture_bundles", ROOT / "tools" / "torture_bundles.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look names up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def genuine(tool: ModuleType, real_run: Path) -> Any:
    """The bundle of that run, taken apart: see `Bench` in the tool."""
    return tool.bench((real_run / "evidence.jsonl").read_bytes())
