"""Every expectation kind holds on its passing specimen and not on its failing one."""

from __future__ import annotations

from typing import Any

import pytest

from harness.engine.vocabulary import kinds
from harness.expect.base import Place, Specimen
from harness.model.finding import Finding
from harness.scenario.params import expectation_input
from harness.yaml_nodes import parse_yaml


def judged(word: str, specimen: Specimen) -> list[Finding]:
    node: Any = parse_yaml(specimen.yaml, "specimen").plain()
    kind = kinds()[word]
    return kind.judge(kind.params.model_validate(expectation_input(node[word])), Place("e", specimen.step, "specimen:1:1"), specimen.view)


@pytest.mark.parametrize("word", list(kinds()))
def test_the_passing_specimen_holds(word: str) -> None:
    assert judged(word, kinds()[word].specimens()[0]) == []


@pytest.mark.parametrize("word", list(kinds()))
def test_the_failing_specimen_fails(word: str) -> None:
    found = judged(word, kinds()[word].specimens()[1])
    assert found
    assert all(f.where == "specimen:1:1" and f.expectation == "e" and f.message for f in found)
    assert any(f.severity in ("fail", "drift") for f in found)


@pytest.mark.parametrize("word", list(kinds()))
def test_a_kind_declares_itself(word: str) -> None:
    kind = kinds()[word]
    assert kind.id == word
    assert kind.summary
    assert kind.scopes <= {"step", "run"}
    assert kind.scopes


@pytest.mark.parametrize("word", [w for w in kinds() if "step" in kinds()[w].scopes])
def test_a_step_without_a_call_is_never_a_pass(word: str) -> None:
    """What could not be looked at is an error, not silence."""
    kind = kinds()[word]
    specimen = kind.specimens()[0]
    node: Any = parse_yaml(specimen.yaml, "specimen").plain()
    params = kind.params.model_validate(expectation_input(node[word]))
    assert [f.severity for f in kind.judge(params, Place("e", "never-ran", "x"), specimen.view)] != []
