"""The repository itself as the thing under test."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NOT_OURS = {
    ".git",
    ".venv",
    ".mypy_cache",
    ".ruff_cache",
    ".hypothesis",
    ".pytest_cache",
    ".import_linter_cache",
    ".mutants",
    ".real",
    ".targets",
    "__pycache__",
    "build",
    "dist",
    "allure-results",
    "reports",
}
"""Folders that Git ignores, and reports, of which only one page is committed. No Git is needed to run the tests."""


def _ours(folder: Path) -> Iterator[Path]:
    for path, folders, files in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in NOT_OURS and not f.endswith(".egg-info"))
        yield from (Path(path) / file for file in sorted(files))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def our_files() -> list[Path]:
    """Every file that belongs to the repository."""
    return [*_ours(ROOT), ROOT / "reports" / "README.md"]
