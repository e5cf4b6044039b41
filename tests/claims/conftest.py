"""Two real runs, small and whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main

VERSION = "2026-07-28"


@pytest.fixture(scope="session")
def shards(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of a run of MEM-1 and of one of DISCOVER-MEM0."""
    found = []
    for scenario in ("MEM-1", "DISCOVER-MEM0"):
        reports = tmp_path_factory.mktemp("shard") / "reports"
        assert main(["run", scenario, "--protocol", VERSION, "--report", "none", "--reports-dir", str(reports)]) == 0
        found.append((reports / "latest").resolve())
    return found[0], found[1]


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose gateway was broken on purpose."""
    reports = tmp_path_factory.mktemp("broken") / "reports"
    words = ["run", "DISCOVER-MEM0", "--protocol", VERSION, "--defect", "skip-approval", "--report", "none", "--reports-dir", str(reports)]
    main(words)
    return (reports / "latest").resolve()
