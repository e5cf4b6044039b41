"""The history: bounded, whole or not at all, and clear about a disk that refuses."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.errors import LoadError, UsageError
from harness.history.rows import ItemRow, Leftover, RunRow, Stored, VisibleRow
from harness.history.store import NAME, History
from harness.history.summary import spread
from harness.nightly.flaky import flaky_steps


def a_run(number: int, *, outcome: str = "pass", steps: tuple[str, ...] = (), seconds: float = 1.0, left: bool = False) -> Stored:
    name = f"r{number:03}"
    item = ItemRow("S[fake]", "S", "fake", True, ("mem0",), outcome, 1.5, steps, ("result",) if steps else (), "", 12.0)
    seen = VisibleRow("S[fake]", "find", "mem0", "search_memories", "raw", "fake", seconds, 2, outcome == "pass")
    leftovers = (Leftover("mem0", "memory", f"id-{number}", ("harness-0123456789",), "add_memory", "live"),) if left else ()
    return Stored(RunRow(name, f"2026-11-01T00:00:{number:02}Z", "nightly", 0, "Evidence level: fake"), (item,), (seen,), leftovers)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    with History(tmp_path / NAME) as history:
        history.add(a_run(1, left=True))
        history.add(a_run(1, left=True))  # the same run again replaces itself
    with History(tmp_path / NAME, read_only=True) as history:
        assert [run.run for run in history.runs(10)] == ["r001"]
        ((_, _, item),) = history.items()
        assert item == a_run(1).items[0]
        ((_, _, seen),) = history.visible(provider="mem0")
        assert seen == a_run(1).visible[0]
        assert history.visible(provider="zep") == []
        (left,) = history.leftovers()
        assert (left.identity, left.run) == ("id-1", "r001")


def test_old_runs_go_and_what_they_left_stays_until_it_is_removed(tmp_path: Path) -> None:
    with History(tmp_path / NAME, keep=3) as history:
        for number in range(8):
            history.add(a_run(number, left=number == 0))
        assert [run.run for run in history.runs(10)] == ["r007", "r006", "r005"]
        assert len(history.items()) == len(history.visible()) == 3
        (left,) = history.leftovers()
        history.removed([left], "2026-12-01T00:00:00Z")
        assert history.leftovers() == []


def test_several_writers_wait_for_one_another(tmp_path: Path) -> None:
    def write(number: int) -> None:
        with History(tmp_path / NAME) as history:
            history.add(a_run(number))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(24)))
    with History(tmp_path / NAME, read_only=True) as history:
        assert len(history.runs(100)) == 24


@pytest.mark.parametrize("content", [b"not a database, and long enough to be looked at" * 40, b"SQLite format 3\0" + b"\1" * 4096])
def test_another_file_is_not_taken_for_a_history_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(LoadError), History(tmp_path / NAME):
        raise AssertionError("opened")
    assert (tmp_path / NAME).read_bytes() == content


def test_a_history_of_another_format_is_refused(tmp_path: Path) -> None:
    import apsw

    db = apsw.Connection(str(tmp_path / NAME))
    db.execute("PRAGMA user_version = 7; CREATE TABLE run(x)")
    db.close()
    with pytest.raises(LoadError), History(tmp_path / NAME):
        raise AssertionError("opened")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 128 KiB, in a mount namespace's place: real, and full soon."""
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(history: History, written: list[int]) -> None:
    for number in range(10_000):
        history.add(a_run(number, steps=tuple(f"step-{n}" for n in range(200))))
        written.append(number)


def test_a_full_disk_keeps_what_was_whole_and_says_so(small_disk: Path) -> None:
    written: list[int] = []
    with History(small_disk / NAME) as history:
        with pytest.raises(UsageError) as caught:
            fill(history, written)
        assert "cannot be used" in caught.value.what
        assert caught.value.exit_code == 2
        assert len(history.runs(10_000)) == len(history.items(limit=10_000)) == len(written) > 0


def test_a_read_only_disk_is_an_error_and_reading_still_works(small_disk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with History(small_disk / NAME) as history:
        history.add(a_run(1))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(UsageError), History(small_disk / NAME) as history:
        history.add(a_run(2))
    assert main(["history", "--reports-dir", str(small_disk)]) == 0
    assert "r001" in capsys.readouterr().out


def test_the_command_shows_each_of_its_things(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with History(tmp_path / NAME) as history:
        history.add(a_run(1, left=True))
        history.add(a_run(2, outcome="fail", steps=("find",), seconds=30.0))
    for what, shown in (("runs", "r002"), ("scenarios", "S[fake]"), ("visible", "search_memories"), ("leftovers", "id-1")):
        assert main(["history", what, "--reports-dir", str(tmp_path)]) == 0
        assert shown in capsys.readouterr().out
        assert main(["history", what, "--json", "--reports-dir", str(tmp_path)]) == 0
        assert '"schema": "history/v1"' in capsys.readouterr().out


def test_without_a_history_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["history", "--reports-dir", str(tmp_path)]) == 2
    assert "there is no history yet" in capsys.readouterr().err


def test_a_spread_counts_what_was_never_seen_apart() -> None:
    rows = [a_run(1, seconds=1.0), a_run(2, seconds=3.0), a_run(3, outcome="fail", seconds=30.0)]
    (found,) = spread([row for run in rows for row in run.visible])
    assert (found.seen, found.never, found.least, found.middle, found.most) == (2, 1, 1.0, 2.0, 3.0)


@pytest.mark.parametrize(
    ("nights", "flaky"), [("pfpfp", True), ("ppppf", False), ("ffppp", False), ("fffff", False), ("pppfp", False), ("pfppfp", True)]
)
def test_flaky_is_what_goes_to_and_fro(nights: str, flaky: bool) -> None:
    rows = [a_run(n, outcome="fail" if c == "f" else "pass", steps=("find",) if c == "f" else ()) for n, c in enumerate(nights)]
    found = flaky_steps([(r.run.run, r.run.at, r.items[0]) for r in reversed(rows)])
    assert [(f.scenario, f.step) for f in found] == ([("S", "find")] if flaky else [])
