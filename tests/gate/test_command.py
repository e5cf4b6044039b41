"""`harness gate` on stored runs: text, Markdown, JSON, and what bad input gets."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from harness.cli.main import main
from harness.errors import Exit
from harness.gate.answer import json_schema

ROOT = Path(__file__).parents[2]
POLICY = "policy: p\nrequire: [DISCOVER-MEM0]\nproviders: {any: {level: fake}}\n"


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    reports = tmp_path_factory.mktemp("gate") / "reports"
    assert main(["run", "DISCOVER-MEM0", "--protocol", "2026-07-28", "--report", "none", "--reports-dir", str(reports)]) == 0
    return reports


def policy(folder: Path, text: str = POLICY) -> str:
    path = folder / "p.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_yes_in_every_form(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["gate", "--policy", policy(tmp_path), "--reports-dir", str(stored)]
    assert main(words) == 0
    assert capsys.readouterr().out.startswith("Evidence level: fake\nYES: policy p")
    assert main([*words, "--format", "markdown"]) == 0
    assert "| Rule | Holds | Why |" in capsys.readouterr().out
    assert main([*words, "--format", "json", "--output", str(tmp_path / "gate.json")]) == 0
    printed = capsys.readouterr().out
    assert (tmp_path / "gate.json").read_text(encoding="utf-8") == printed
    jsonschema.validate(json.loads(printed), json_schema())


def test_the_shipped_policy_refuses_a_run_on_fakes(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gate", "--policy", str(ROOT / "release.yaml"), "--explain", str(stored / "latest")]) == Exit.INCOMPLETE
    said = capsys.readouterr().out
    assert "the best evidence of mem0 is fake, live is the least that counts" in said
    assert "to turn it green: harness run --provider mem0 --level live" in said


def test_an_unknown_rule_is_exit_2_with_its_place(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = policy(tmp_path, POLICY + "coverge: []\n")
    assert main(["gate", "--policy", bad, "--reports-dir", str(stored)]) == Exit.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{bad}:4:1: unknown rule 'coverge'" in said.err
    assert "did you mean 'coverage'?" in said.err


def test_a_log_cut_short_is_a_broken_rule_and_the_answer_is_whole(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "evidence.jsonl").write_bytes((stored / "latest" / "evidence.jsonl").read_bytes()[:-9])
    words = ["gate", "--policy", policy(tmp_path), "--format", "json", str(stored / "latest"), str(cut)]
    assert main(words) == Exit.INCOMPLETE
    answer = json.loads(capsys.readouterr().out)
    assert [rule["rule"] for rule in answer["rules"] if not rule["holds"]] == ["evidence"]
    assert "cut short" in answer["rules"][0]["broken"][0]


@pytest.mark.parametrize("waivers", ["- finding: x\n", "nonsense: [\n"])
def test_bad_waivers_are_exit_2(stored: Path, tmp_path: Path, waivers: str) -> None:
    (tmp_path / "w.yaml").write_text(waivers, encoding="utf-8")
    assert main(["gate", "--policy", policy(tmp_path, POLICY + "waivers: w.yaml\n"), "--reports-dir", str(stored)]) == Exit.USAGE


def test_waivers_are_read_beside_the_policy(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry = "- {finding: tool-removed, where: {scenario: DISCOVER-MEM0}, owner: jane, reason: r, issue: i, expires: '9999-12-31'}\n"
    (tmp_path / "w.yaml").write_text(entry, encoding="utf-8")
    assert main(["gate", "--policy", policy(tmp_path, POLICY + "waivers: w.yaml\n"), "--reports-dir", str(stored)]) == Exit.FAILED
    assert "unused: DISCOVER-MEM0 now passes" in capsys.readouterr().out


def test_an_answer_that_cannot_be_written_is_exit_2(stored: Path, tmp_path: Path) -> None:
    assert main(["gate", "--policy", policy(tmp_path), "--reports-dir", str(stored), "--output", "/proc/gate.json"]) == Exit.USAGE


def test_no_run_and_no_policy(tmp_path: Path) -> None:
    assert main(["gate", "--policy", policy(tmp_path), "--reports-dir", str(tmp_path)]) == Exit.USAGE
    assert main(["gate", "--policy", str(tmp_path / "none.yaml")]) == Exit.USAGE


def test_the_published_schema_is_current() -> None:
    assert json.loads((ROOT / "docs" / "gate.schema.json").read_text(encoding="utf-8")) == json_schema()
