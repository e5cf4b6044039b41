"""The one writer: whole files or none, and never silence about a file that is missing."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

import pytest

from harness.errors import Exit, UsageError
from harness.model.verdict import Results
from harness.report.base import choose_reports
from harness.report.write import point_latest, run_folder, write_bytes, write_reports


class Escaping:
    id = "escaping"
    summary = "tries to leave its folder"
    by_default = False

    def __init__(self, name: str) -> None:
        self.name = name

    def files(self, results: Results) -> Mapping[str, bytes]:
        return {self.name: b"x"}


def test_reports_are_written_and_latest_points_there(tmp_path: Path, mixed: Results) -> None:
    folder = run_folder(tmp_path / "reports", "r1")
    written = write_reports(mixed, choose_reports(()), folder)
    point_latest(tmp_path / "reports", "r1")
    assert {path.name for path in written} == {"results.json", "junit.xml", "summary.md", "report.html"}
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.name for path in written), "no temporary file stays"
    assert (tmp_path / "reports" / "latest" / "results.json").read_bytes() == (folder / "results.json").read_bytes()


def test_latest_moves_on(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        run_folder(tmp_path, run)
        point_latest(tmp_path, run)
    assert os.readlink(tmp_path / "latest") == "r2"


def test_latest_is_a_text_file_where_there_are_no_links(tmp_path: Path) -> None:
    (tmp_path / ".latest.r1").mkdir()  # the place of the temporary link is taken, as good as a disk that refuses links
    point_latest(tmp_path, "r1")
    assert (tmp_path / "latest").read_text() == "r1\n"


def test_latest_as_a_real_folder_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    with pytest.raises(UsageError, match="real folder"):
        point_latest(tmp_path, "r1")


def test_an_old_run_is_never_written_over(tmp_path: Path) -> None:
    run_folder(tmp_path, "r1")
    with pytest.raises(UsageError, match="already has a folder"):
        run_folder(tmp_path, "r1")


def test_a_place_that_cannot_be_written_is_a_usage_error(tmp_path: Path, mixed: Results) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(UsageError, match="cannot be written") as caught:
        run_folder(tmp_path / "file", "r1")
    assert caught.value.exit_code is Exit.USAGE
    assert caught.value.fix
    assert str(tmp_path) in caught.value.where
    (tmp_path / "run" / "junit.xml").mkdir(parents=True)
    with pytest.raises(UsageError, match="cannot be written"):
        write_reports(mixed, choose_reports(("junit",)), tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["junit.xml"], "the temporary file is gone"


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "a\\b"])
def test_a_format_stays_inside_its_folder(tmp_path: Path, mixed: Results, name: str) -> None:
    with pytest.raises(UsageError, match="outside its folder"):
        write_reports(mixed, [Escaping(name)], tmp_path)


def test_a_disk_that_takes_no_more_is_said_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "junit.xml"
    write_bytes(path, b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
    try:
        with pytest.raises(UsageError, match="cannot be written") as caught:
            write_bytes(path, b"x" * 2_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.exit_code is Exit.USAGE
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
