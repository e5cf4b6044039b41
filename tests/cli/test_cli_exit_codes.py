"""Public case e07: several kinds of failure in one run end in one exit code, and every reason is in the JSON."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.cli.session import nothing_run, with_trouble
from harness.clock import TestClock
from harness.errors import PRECEDENCE, Exit, HarnessError, Incomplete, LoadError, LoadErrors, Unreachable, UsageError, fold_exit
from harness.report.results_json import document

FAILS_WITH = {"A": Exit.FAILED, "B": Exit.UNREACHABLE, "C": Exit.DRIFT, "D": Exit.INCOMPLETE}
TABLE = [("AB", 4), ("AC", 1), ("AD", 1), ("CD", 5), ("BD", 4), ("ABCD", 4)]


@pytest.mark.parametrize(("scenarios", "code"), TABLE)
def test_which_code_wins(scenarios: str, code: int) -> None:
    assert fold_exit({FAILS_WITH[name] for name in scenarios}) == code


def test_every_set_of_codes_gives_its_first_in_order() -> None:
    assert [int(code) for code in PRECEDENCE] == [2, 3, 4, 1, 5, 6]
    for size in range(len(Exit) + 1):
        for codes in combinations(Exit, size):
            expected = next((code for code in (2, 3, 4, 1, 5, 6) if code in codes), 0)
            assert fold_exit(set(codes)) == expected


def test_trouble_joins_the_results_and_is_said_once() -> None:
    clock = TestClock()
    first = nothing_run("r", Incomplete("stale cassette", where="cassettes/x.yaml"), clock)
    assert first.exit_code == 5
    both = with_trouble(first, Unreachable("no answer", where="http://127.0.0.1:1"))
    assert both.exit_code == 4
    data = json.loads(document(with_trouble(both, Unreachable("no answer", where="http://127.0.0.1:1"))))
    assert data["exit_reasons"] == ["cassettes/x.yaml: stale cassette", "http://127.0.0.1:1: no answer"]


@pytest.mark.parametrize(
    "error",
    [
        UsageError("bad", where="--x", fix="mend it"),
        LoadErrors([LoadError("one", where="a.yaml:1:1"), LoadError("two", where="b.yaml:2:1")]),
        HarnessError("plain"),
    ],
)
def test_nothing_run_lists_every_reason(error: HarnessError) -> None:
    results = nothing_run("r", error, TestClock())
    assert results.exit_code == error.exit_code
    assert all(line in "\n".join(results.exit_reasons) for line in str(error).splitlines())
    assert results.level_line.startswith("Evidence level: none")


def test_reports_that_cannot_be_written_are_never_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    assert main(["run", "--reports-dir", str(tmp_path / "file" / "reports")]) == Exit.USAGE
    said = capsys.readouterr().err
    assert "cannot be written" in said
    assert "fix:" in said
