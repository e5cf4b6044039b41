"""The import contracts hold, and each of them can fail: a forbidden import planted in a copy is found by the contract meant for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest

PLANTED = {
    "strangers": [("reference_gateway/ids.py", "harness.errors"), ("harness/expect/text.py", "reference_gateway.ids")],
    "layers": [("harness/model/tool.py", "harness.engine.run"), ("harness/tap/link.py", "harness.fake.kit")],
    "report": [("harness/report/base.py", "harness.engine.run")],
    "fakes": [("harness/fake/zep.py", "harness.inventory.store")],
    "pure": [("harness/expect/base.py", "asyncio"), ("harness/engine/evaluate.py", "httpx2")],
    "model": [("harness/model/tool.py", "socket")],
    "cycles": [("harness/model/finding.py", "harness.model.verdict")],
}


NAMES = {
    "strangers": "The harness and the reference gateway share no code",
    "layers": "Imports in the harness point down",
    "report": "Reports see the model only",
    "fakes": "Stand-ins know nothing of what is expected of them",
    "pure": "Judging does no I/O",
    "model": "The model depends on nothing that acts",
    "cycles": "No cycles",
}
# The linter's own command; the copy that it stands in must win over the installed checkout.
PROGRAM = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; lint_imports_command()"


@pytest.fixture(scope="module")
def said(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Contract → what the linter says of it, in a copy where every contract is broken (one run: each takes seconds)."""
    copy = tmp_path_factory.mktemp("planted")
    for package in ("harness", "reference_gateway"):
        shutil.copytree(root / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    shutil.copy(root / ".importlinter", copy)
    for file, module in (plant for plants in PLANTED.values() for plant in plants):
        with (copy / file).open("a", encoding="utf-8") as source:
            source.write(f"\nimport {module}\n")
    command = [sys.executable, "-c", PROGRAM, "--no-logo", "--no-cache"]
    ended = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 1, ended.stderr
    _, _, details = ended.stdout.partition("\nBroken contracts\n")
    places = {key: details.find(f"\n{name}\n---") for key, name in NAMES.items()}
    ends = sorted([*places.values(), len(details)])
    return {key: details[at : ends[ends.index(at) + 1]] if at >= 0 else "" for key, at in places.items()}


def test_every_contract_has_a_control(root: Path) -> None:
    parser = ConfigParser()
    parser.read(root / ".importlinter", encoding="utf-8")
    assert {s.rpartition(":")[2]: parser[s]["name"] for s in parser.sections() if ":contract:" in s} == NAMES
    assert set(PLANTED) == set(NAMES)


@pytest.mark.parametrize("contract", sorted(set(PLANTED) - {"cycles"}))
def test_a_forbidden_import_is_found(said: dict[str, str], contract: str) -> None:
    for file, module in PLANTED[contract]:
        importer = file.removesuffix(".py").replace("/", ".")
        assert f"{importer} -> {module} (" in said[contract]


def test_a_cycle_is_found(said: dict[str, str]) -> None:
    assert "No cycles are allowed in harness.model" in said["cycles"]
