"""Modules of at most 400 lines, functions of at most 60. Data in Python files counts too: it would otherwise be where the lines go."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

MODULE_LINES = 400
FUNCTION_LINES = 60

LARGER: Mapping[str, str] = {}
"""`path` or `path::function` → why it may be larger. An entry that is not needed any more is an error."""


def sizes(name: str, source: str) -> Iterator[tuple[str, int, int]]:
    """(what, lines, limit) of a module and of each function in it; a decorator belongs to its function."""
    yield name, len(source.splitlines()), MODULE_LINES
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            yield f"{name}::{node.name}", (node.end_lineno or first) - first + 1, FUNCTION_LINES


def oversized(name: str, source: str) -> dict[str, str]:
    return {what: f"{lines} lines, at most {limit}" for what, lines, limit in sizes(name, source) if lines > limit}


def test_no_module_and_no_function_is_too_large(root: Path) -> None:
    found: dict[str, str] = {}
    for package in ("harness", "reference_gateway"):
        for path in sorted((root / package).rglob("*.py")):
            found |= oversized(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
    assert {what: said for what, said in found.items() if what not in LARGER} == {}
    assert set(LARGER) <= set(found), "these are small enough by now: remove them from LARGER"


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("x = 1\n" * 401, "m.py"),
        ("def f():\n" + "    x = 1\n" * 60, "m.py::f"),
        ("class C:\n    @property\n    async def g(self):\n" + "        x = 1\n" * 59, "m.py::g"),
    ],
)
def test_what_is_too_large_is_found(source: str, what: str) -> None:
    assert list(oversized("m.py", source)) == [what]


def test_what_is_just_small_enough_passes() -> None:
    assert oversized("m.py", "def f():\n" + "    x = 1\n" * 59 + "x = 1\n" * 340) == {}
