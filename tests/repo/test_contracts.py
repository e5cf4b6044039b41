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


def broken_contracts(folder: Path, *contracts: str) -> tuple[int, str]:
    """Exit code and words of the linter in `folder`."""
    chosen = [word for name in contracts for word in ("--contract", name)]
    # The console script's own module; -S and the like are not needed, but the copy must win over the installed checkout.
    program = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; lint_imports_command()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "--no-logo", "--no-cache", *chosen],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    for package in ("harness", "reference_gateway"):
        shutil.copytree(root / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "_data"))
    shutil.copy(root / ".importlinter", tmp_path)
    return tmp_path


def test_every_contract_is_kept(copy: Path) -> None:
    code, said = broken_contracts(copy)
    assert code == 0, said


def test_every_contract_has_a_control(root: Path) -> None:
    parser = ConfigParser()
    parser.read(root / ".importlinter", encoding="utf-8")
    assert {section.rpartition(":")[2] for section in parser.sections() if ":contract:" in section} == set(PLANTED)


@pytest.mark.parametrize("contract", sorted(PLANTED))
def test_a_forbidden_import_is_found(copy: Path, contract: str) -> None:
    for file, module in PLANTED[contract]:
        with (copy / file).open("a", encoding="utf-8") as source:
            source.write(f"\nimport {module}\n")
    code, said = broken_contracts(copy, contract)
    assert code == 1, said
    for file, module in PLANTED[contract]:
        importer = file.removesuffix(".py").replace("/", ".")
        if contract == "cycles":
            assert "No cycles are allowed in harness.model" in said
        else:
            assert f"{importer} -> {module}" in said
