"""Each public case this project answers for is held by the tests that the index names, and the index names none that is not there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

INDEX = Path(__file__).parent / "README.md"
TESTS = Path(__file__).parents[1]
CASES = {"b01", "b02", "b05", "b06", "b07", "b08", "b09", "c03", "c05", "c06", "c07", "c08", "d05", "d06", "d07", "d08", "e05", "e06", "e07", "e08"}


def rows() -> dict[str, list[str]]:
    """Case → test ids, from the index's table."""
    found: dict[str, list[str]] = {}
    for line in INDEX.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| ([a-z]\d\d) \|", line):
            found.setdefault(match[1], []).extend(re.findall(r"`([\w/]+\.py::\w+)`", line))
    return found


def test_every_case_has_its_row() -> None:
    assert set(rows()) == CASES
    assert all(tests for tests in rows().values())


def test_every_named_test_is_there() -> None:
    for tests in rows().values():
        for test in tests:
            path, _, name = test.partition("::")
            tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
            names = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
            assert name in names, test
