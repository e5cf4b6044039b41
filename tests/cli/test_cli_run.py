"""`harness run` and `harness judge` from end to end, on real wires."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from harness.cli.crash import report_crash
from harness.cli.main import main
from harness.errors import Exit

SCENARIO = """\
scenario: {id}
title: A search for what was never stored finds nothing
connections: {{mem0: {{}}}}
let: {{user: "harness-${{run.id}}"}}
steps:
  - id: look
    call: mem0.search_memories
    with: {{query: "what was never said", filters: {{user_id: "${{user}}"}}}}
    expect:
      - {{id: trail, audited: {outcome}}}
proves:
  - {{claim: a search is audited, by: [trail]}}
"""


def results_of(folder: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return data


def write_scenario(folder: Path, name: str, outcome: str = "success") -> Path:
    area = folder / "scenarios" / "memory"
    area.mkdir(parents=True, exist_ok=True)
    path = area / f"{name}.yaml"
    path.write_text(SCENARIO.format(id=name, outcome=outcome), encoding="utf-8")
    return path


def test_a_good_run_is_accepted_and_reported(good_run: Any) -> None:
    assert good_run.code == 0
    data = results_of(good_run.folder)
    assert {v["item"]: v["outcome"] for v in data["verdicts"]} == {
        "DISCOVER-MEM0[fake,reference,2026-07-28]": "pass",
        "MEM-1[fake,reference,2026-07-28]": "pass",
    }
    assert all(claim["proven"] for v in data["verdicts"] for claim in v["claims"])
    assert {path.name for path in good_run.folder.iterdir()} >= {"evidence.jsonl", "results.json", "junit.xml", "summary.md", "report.html"}
    cases = list(ET.parse(good_run.folder / "junit.xml").iter("testcase"))
    assert len(cases) == len(data["verdicts"])


def test_judge_gives_the_same_bytes_in_an_empty_folder(good_run: Any, broken_run: Any, tmp_path: Path) -> None:
    for run in (good_run, broken_run):
        done = subprocess.run(
            [sys.executable, "-m", "harness", "judge", str(run.folder.resolve() / "evidence.jsonl"), "--json"],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        assert done.returncode == run.code
        assert done.stdout == (run.folder / "results.json").read_bytes()
        assert list(tmp_path.iterdir()) == []


def test_judge_can_write_reports_again(good_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["judge", str(good_run.folder), "--output", str(tmp_path / "again")]) == 0
    assert "Accepted" in capsys.readouterr().out
    for name in ("results.json", "junit.xml", "summary.md", "report.html"):
        assert (tmp_path / "again" / name).read_bytes() == (good_run.folder / name).read_bytes()


def test_a_broken_gateway_fails_for_a_named_reason(broken_run: Any) -> None:
    assert broken_run.code == Exit.FAILED
    data = results_of(broken_run.folder)
    assert data["exit_code"] == 1
    assert data["verdicts"][0]["outcome"] == "fail"
    assert any(f["expectation"] == "not-dispatched" for f in data["verdicts"][0]["findings"])
    assert data["exit_reasons"]
    summary = (broken_run.folder / "summary.md").read_text(encoding="utf-8")
    assert summary.index("What stands in the way") < summary.index("## Findings")


def test_json_is_results_json_alone(tmp_path: Path) -> None:
    path = write_scenario(tmp_path, "LOOK")
    command = [sys.executable, "-m", "harness", "run", str(path), "--json", "--reports-dir", str(tmp_path / "reports")]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "reports" / "latest" / "results.json").read_bytes()
    assert done.stderr == b"", "no progress where nobody watches"


def test_only_the_named_reports_are_written(tmp_path: Path) -> None:
    path = write_scenario(tmp_path, "LOOK")
    assert main(["run", str(path), "--report", "junit", "--reports-dir", str(tmp_path / "some")]) == 0
    assert main(["run", str(path), "--report", "none", "--reports-dir", str(tmp_path / "none")]) == 0
    ours = {"results.json", "junit.xml", "summary.md", "report.html"}
    assert ours & {p.name for p in (tmp_path / "some" / "latest").iterdir()} == {"junit.xml"}
    assert ours & {p.name for p in (tmp_path / "none" / "latest").iterdir()} == set()
    assert (tmp_path / "none" / "latest" / "evidence.jsonl").exists()


def test_one_invalid_file_among_valid_ones_and_nothing_is_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_scenario(tmp_path, "GOOD")
    bad = write_scenario(tmp_path, "BAD")
    bad.write_text(bad.read_text(encoding="utf-8").replace("audited:", "auditted:"), encoding="utf-8")
    code = main(["run", str(tmp_path / "scenarios"), "--reports-dir", str(tmp_path / "reports")])
    said = capsys.readouterr().err
    assert code == Exit.USAGE
    assert "BAD.yaml:10:" in said
    assert "did you mean 'audited'" in said
    assert "Traceback" not in said
    data = results_of(tmp_path / "reports" / "latest")
    assert data["exit_code"] == 2
    assert data["verdicts"] == []
    assert any("auditted" in reason for reason in data["exit_reasons"])
    assert not (tmp_path / "reports" / "latest" / "evidence.jsonl").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["MEM-01"], Exit.USAGE, "did you mean 'MEM-1'"),
        (["NOTHING-*"], Exit.INCOMPLETE, "nothing is selected"),
        (["--provider", "mem1"], Exit.USAGE, "did you mean 'mem0'"),
        (["--target", "referense"], Exit.USAGE, "did you mean 'reference'"),
        (["--protocol", "2025-06-17"], Exit.USAGE, "2025-06-18"),
        (["nowhere/x.yaml"], Exit.USAGE, "nowhere/x.yaml"),
    ],
)
def test_what_cannot_be_planned(arguments: list[str], code: Exit, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", *arguments, "--reports-dir", str(tmp_path)]) == code
    captured = capsys.readouterr()
    assert said in captured.err
    assert "fix:" in captured.err
    data = results_of(tmp_path / "latest")
    assert data["exit_code"] == code
    assert data["level_line"].startswith("Evidence level: none")


def test_a_level_that_cannot_be_had_is_red_and_never_another_level(tmp_path: Path) -> None:
    """Live without a credential: there is nothing to run with, and no stand-in takes its place."""
    nothing = ["--home", str(tmp_path / "home"), "--env-file", str(tmp_path / "none.env")]
    code = main(["run", "MEM-1", "--level", "live", "--protocol", "2026-07-28", "--reports-dir", str(tmp_path / "reports"), *nothing])
    data = results_of(tmp_path / "reports" / "latest")
    assert code == data["exit_code"] == Exit.CREDENTIALS
    assert data["verdicts"][0]["outcome"] == "error"
    assert not any(claim["proven"] for claim in data["verdicts"][0]["claims"])


def test_an_interrupt_leaves_reports_and_no_traceback(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "run", "--reports-dir", str(tmp_path), "--jobs", "1"]
    child = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a job in the background of a shell inherits it ignored
    )
    try:
        while not any('"plan_item"' in path.read_text() for path in tmp_path.glob("*/evidence.jsonl")):
            with contextlib.suppress(subprocess.TimeoutExpired):
                pytest.fail(f"ended before it began: {child.wait(timeout=0.05)}")
        os.kill(child.pid, signal.SIGINT)
        out, err = child.communicate(timeout=60)
    finally:
        child.kill()
    assert child.returncode == Exit.INCOMPLETE
    assert "interrupted" in err
    assert "Traceback" not in err
    assert "interrupted" in out
    data = results_of(tmp_path / "latest")
    assert data["exit_code"] == Exit.INCOMPLETE
    assert any("interrupted" in reason for reason in data["exit_reasons"])


@pytest.mark.parametrize("content", ["", "not json\n", '{"kind":"run"}\n', "\x00\x01"])
def test_evidence_that_is_none(content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "evidence.jsonl"
    path.write_text(content, encoding="utf-8")
    assert main(["judge", str(path)]) == Exit.USAGE
    assert "Traceback" not in capsys.readouterr().err
    assert main(["judge", str(tmp_path / "missing.jsonl")]) == Exit.USAGE


def test_a_fault_of_our_own_is_one_line_and_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report_crash(ZeroDivisionError("division\nby zero"), ["run", "--reports-dir", str(tmp_path)]) == Exit.INCOMPLETE
    said = capsys.readouterr().err
    assert "ZeroDivisionError: division" in said
    assert "Traceback" not in said
    (kept,) = tmp_path.glob("crash-*.txt")
    assert str(kept) in said
    assert "ZeroDivisionError" in kept.read_text(encoding="utf-8")


def test_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    table = capsys.readouterr().out
    assert main(["list", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    ids = [scenario["id"] for scenario in data["scenarios"]]
    assert {"MEM-1", "MEM-2", "MEM-3", "MEM-4", "MEM-5"} <= set(ids)
    assert all(f"\n{name} " in table for name in ids)
