"""Scenario files for a pytest of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import hypothesis  # noqa: F401  # its plug-in would load it anew in every inner pytest
import pytest

import harness.cli.pytest_merge
import harness.engine.judge
import harness.engine.run  # noqa: F401
from harness.engine.plan import make_plan

SCENARIO = """\
scenario: {id}
title: A search for what was never stored is {outcome}
connections: {{mem0: {{}}}}
tags: [{tag}]
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


@pytest.fixture(scope="session", autouse=True)
def _loaded_once() -> None:
    """An inner pytest of this process forgets what it was first to import, and some modules cannot be loaded twice."""
    make_plan(("MEM-1",))


@pytest.fixture
def scenario(pytester: pytest.Pytester) -> Callable[..., Path]:
    """Writes scenarios/memory/<id>.yaml in the folder where the inner pytest runs."""

    def write(name: str, *, outcome: str = "success", tag: str = "quick", folder: str = "scenarios/memory") -> Path:
        area = pytester.path / folder
        area.mkdir(parents=True, exist_ok=True)
        path = area / f"{name}.yaml"
        path.write_text(SCENARIO.format(id=name, outcome=outcome, tag=tag), encoding="utf-8")
        return path

    return write
