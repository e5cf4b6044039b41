"""Where a gateway of somebody else comes from: its pinned list, once, and said aloud. Nothing here asks a package index."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
import zipfile
from pathlib import Path

import pytest

from harness.errors import Exit, Unreachable, UsageError
from harness.scenario.files import data_root
from harness.target.installed import Installation, installation

LISTED = "lab-gateway==1.2.3 \\\n    --hash=sha256:" + "0" * 64 + "\n"


def made(folder: Path, text: str = LISTED) -> Installation:
    lock = folder / "requirements.txt"
    lock.write_text(text, encoding="utf-8")
    return Installation("lab", "lab-gateway", folder / "venvs" / "lab", lock)


def test_one_that_is_there_is_not_installed_again(tmp_path: Path) -> None:
    found = made(tmp_path)
    (found.home / "bin").mkdir(parents=True)
    found.python.symlink_to(sys.executable)
    assert not found.is_current()
    shutil.copyfile(found.lock, found.home / ".locked")
    said: list[str] = []
    asyncio.run(found.ensure(said.append))
    assert (found.label, said) == ("lab 1.2.3", [])


def test_another_list_means_another_installation(tmp_path: Path) -> None:
    found = made(tmp_path)
    (found.home / "bin").mkdir(parents=True)
    found.python.symlink_to(sys.executable)
    (found.home / ".locked").write_text(LISTED.replace("1.2.3", "1.2.2"), encoding="utf-8")
    assert not found.is_current()


def test_one_that_needs_a_newer_python_is_unreachable_by_name_and_version(tmp_path: Path) -> None:
    wheel = wheel_for(tmp_path, ">=9.0")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    found = made(tmp_path, f"--no-index\n--find{'-'}links {tmp_path}\nlab-gateway==1.2.3 --hash=sha256:{digest}\n")
    said: list[str] = []
    with pytest.raises(Unreachable, match=r"lab 1\.2\.3 could not be installed: .*Python.*9\.0") as caught:
        asyncio.run(found.ensure(said.append))
    assert caught.value.exit_code == Exit.UNREACHABLE
    assert said[0].startswith("installing lab 1.2.3 into venvs/lab")
    assert not found.is_current()


def test_a_list_that_pins_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not pinned"):
        _ = made(tmp_path, "lab-gateway>=1\n").version


PINNED = [
    ("fastmcp", "fastmcp"),
    ("mcp_proxy", "mcp-proxy"),
    ("ctrlrun", "ctrlrun"),
    ("contextforge", "mcp-contextforge-gateway"),
    ("litellm", "litellm"),
]


@pytest.mark.parametrize(("name", "package"), PINNED)
def test_every_gateway_is_pinned_by_hash(name: str, package: str) -> None:
    found = installation(name, package)
    text = found.lock.read_text(encoding="utf-8")
    asked = (data_root() / "targets" / name / "requirements.in").read_text(encoding="utf-8")
    assert f"=={found.version}" in asked
    pinned = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert len(pinned) > 5
    assert all("==" in line and line.rstrip().endswith("\\") for line in pinned), "each is pinned, and its hashes follow"
    assert "http" not in "".join(line for line in text.splitlines() if line.startswith("-"))


def wheel_for(folder: Path, requires: str) -> Path:
    """The smallest wheel there is; nothing is in it."""
    info = "lab_gateway-1.2.3.dist-info"
    made = folder / "lab_gateway-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: lab-gateway\nVersion: 1.2.3\nRequires-Python: {requires}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return made
