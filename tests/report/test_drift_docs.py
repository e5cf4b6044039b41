"""docs/drift.md and docs/drift.schema.json say what the code says; the action and the hook call what exists."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from harness.cli.main import main
from harness.drift.rules import TABLE
from harness.fleet.config import parse_config
from harness.fleet.rules import rule_ids
from harness.fleet.servers import load_servers
from harness.waiver.load import parse_waivers

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "drift.md").read_text(encoding="utf-8")


def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_drift_docs", ROOT / "tools" / "make_drift_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_generated_parts_are_current() -> None:
    assert [path.name for path, _ in tool().stale()] == [], "run `make docs`"


def test_every_rule_has_exactly_one_section() -> None:
    headings = re.findall(r"^### (.+)$", PAGE, flags=re.MULTILINE)
    assert sorted(headings) == sorted(rule_ids())
    assert {rule.id for rule in TABLE} < set(headings)


@pytest.mark.parametrize("block", re.findall(r"^```yaml\n(.*?)^```$", PAGE, flags=re.DOTALL | re.MULTILINE))
def test_files_shown_can_be_read(block: str, tmp_path: Path) -> None:
    if block.startswith("severities"):
        assert parse_config(block, tmp_path / "drift.yaml", rule_ids()).severities
    elif block.startswith("servers"):
        (tmp_path / "servers.yaml").write_text(block, encoding="utf-8")
        assert len(load_servers(tmp_path / "servers.yaml")) == 2
    else:
        assert parse_waivers(block, "w.yaml")


def test_the_action_passes_its_inputs_as_variables_only() -> None:
    action: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    assert action["runs"]["using"] == "composite"
    script = (ROOT / "tools" / "drift_action.sh").read_text(encoding="utf-8")
    given = {name for step in action["runs"]["steps"] for name in step.get("env", {}) if name.startswith("DRIFT_")}
    assert given == set(re.findall(r"\bDRIFT_[A-Z_]+", script))
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(action["inputs"])


def test_the_action_s_script_reports_and_fails_as_the_command_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import os
    import sys

    for name, tools in (("old.json", '[{"name": "a", "inputSchema": {}}]'), ("new.json", "[]")):
        (tmp_path / name).write_text(f'{{"tools": {tools}}}', encoding="utf-8")
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "DRIFT_OLD": "old.json",
        "DRIFT_NEW": "new.json",
        "DRIFT_SARIF": "drift.sarif",
        "RUNNER_TEMP": str(tmp_path / "out"),
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary"),
    }
    script = ["bash", str(ROOT / "tools" / "drift_action.sh")]
    ended = subprocess.run(script, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 6, ended.stderr
    assert {"exit-code=6", "verdict=drift"} <= set((tmp_path / "outputs").read_text(encoding="utf-8").splitlines())
    assert "tool-removed" in (tmp_path / "summary").read_text(encoding="utf-8")
    assert (tmp_path / "drift.sarif").is_file()


def test_the_hook_calls_a_command_that_exists(tmp_path: Path) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"].split()[0] == "harness"
    assert main([*hook["entry"].split()[1:], "mem0", "mem0"]) == 0
