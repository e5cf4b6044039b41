"""Public case e07: several kinds of failure in one run end in one exit code, and every reason is in the JSON."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.cli.session import nothing_run, with_trouble
from harness.clock import TestClock
from harness.errors import PRECEDENCE, Exit, HarnessError, Incomplete, LoadError, LoadErrors, Unreachable, UsageError, fold_exit
from harness.inventory.canonical import schema_hash
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


def fails_with(record: dict[str, Any], kind: str) -> dict[str, Any]:
    """A record of a good run, changed so that its scenario fails in one way and no other."""
    at_end = record["kind"] == "plan_item" and record["phase"] == "end"
    if kind == "A" and record.get("action") == "access":
        return record | {"data": record["data"] | {"allowed": 10}}
    if kind == "B" and at_end:
        return record | {"trouble": {"type": "Unreachable", "what": "the provider does not answer", "exit_code": 4}}
    if kind == "C" and record.get("action") == "catalog":
        return record | {"data": record["data"] | {"tools": [drifted(tool) for tool in record["data"]["tools"]]}}
    if kind == "D" and at_end:
        return record | {"trouble": {"type": "Incomplete", "what": "the cassette is stale", "exit_code": 5}}
    return record


def drifted(tool: dict[str, Any]) -> dict[str, Any]:
    if tool["name"] != "add_memory":
        return tool
    schema = json.loads(json.dumps(tool["input_schema"]))
    schema["properties"]["brand_new"] = {"type": "string"}
    return tool | {"input_schema": schema, "schema_hash": schema_hash(schema)}


def spliced(evidence: Path, scenarios: str) -> str:
    """Evidence of a run in which DISCOVER-MEM0 ran once for each letter, and failed in that letter's way."""
    lines = []
    for line in evidence.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["kind"] == "run" and record["phase"] == "start":
            planned = [f"{kind}[fake,reference,2026-07-28]" for kind in scenarios]
            lines.append(record | {"options": record["options"] | {"items": planned}})
        elif record["kind"] in ("run", "process"):
            lines.append(record)
        elif record.get("item", "").startswith("DISCOVER-MEM0"):
            lines += [fails_with(record, kind) | {"item": f"{kind}[fake,reference,2026-07-28]"} for kind in scenarios]
    return "\n".join(json.dumps(line) for line in lines) + "\n"


@pytest.mark.parametrize(("scenarios", "code"), [("A", 1), ("B", 4), ("C", 6), ("D", 5), *TABLE])
def test_from_evidence_to_exit_code(scenarios: str, code: int, good_run: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "evidence.jsonl").write_text(spliced(good_run.folder / "evidence.jsonl", scenarios), encoding="utf-8")
    assert main(["judge", str(tmp_path), "--json"]) == code
    data = json.loads(capsys.readouterr().out)
    assert data["exit_code"] == code
    assert {v["item"][0]: v["exit_code"] for v in data["verdicts"]} == {name: FAILS_WITH[name] for name in scenarios}
    for name in scenarios:
        assert any(reason.startswith(f"{name}[") for reason in data["exit_reasons"]), "every reason is listed"
