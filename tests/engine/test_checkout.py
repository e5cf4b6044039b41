"""Which commit a run came from: of a checkout, of a changed one, and of what is none or cannot be asked."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.engine.checkout import NOT_A_CHECKOUT, checkout

GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *words: str) -> str:
    return subprocess.run([*GIT, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a").write_text("1", encoding="utf-8")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    return tmp_path


def test_the_commit_is_named_and_whether_the_tree_is_as_committed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert checkout(repository) == {"commit": commit, "tree": "clean"}
    (repository / "b").write_text("not known to git", encoding="utf-8")
    assert checkout(repository) == {"commit": commit, "tree": "dirty: 1 file differs"}
    (repository / "a").write_text("2", encoding="utf-8")
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # the caller's own settings lead to no other repository
    assert checkout(repository) == {"commit": commit, "tree": "dirty: 2 files differ"}


def test_a_folder_inside_somebody_elses_checkout_is_none(repository: Path) -> None:
    (repository / "site-packages").mkdir()
    assert checkout(repository / "site-packages") == {"commit": NOT_A_CHECKOUT}


def test_what_cannot_be_told_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(tmp_path, "init", "--quiet")
    assert checkout(tmp_path) == {"commit": "unknown: there is no commit yet"}
    (tmp_path / ".git" / "HEAD").write_text("nonsense", encoding="utf-8")
    assert checkout(tmp_path)["commit"].startswith("unknown: fatal")
    monkeypatch.setenv("PATH", "")
    assert checkout(tmp_path)["commit"].startswith("unknown: git cannot be asked")
