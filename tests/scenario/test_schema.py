"""The published JSON Schema: it knows the vocabulary, and never refuses what the loader takes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import LoadErrors
from harness.model.scenario import Scenario, Vocabulary
from harness.scenario.schema import scenario_json_schema, schema_text, write_schema
from harness.yaml_nodes import parse_yaml


@pytest.fixture(scope="session")
def schema(vocabulary: Vocabulary) -> dict[str, Any]:
    return scenario_json_schema(vocabulary)


@pytest.fixture(scope="session")
def accepts(schema: dict[str, Any]) -> Callable[[Any], bool]:
    return jsonschema_rs.Draft202012Validator(schema).is_valid


def test_it_is_a_schema_and_takes_the_example(schema: dict[str, Any], accepts: Callable[[Any], bool], example: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)
    assert accepts(parse_yaml(example, "x").plain())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("title:", "titel:"),
        ("call: mem0.add_memory", "cal: mem0.add_memory"),
        ("with: {query", "wiht: {query"),
        ("pending: approval", "pendign: approval"),
        ("pending: approval", "pending: aproval"),
        ("count: 1", "count: many"),
        ("count: 1", "cuont: 1"),
        ("is: approved_success", "is: aproved_success"),
        ("grant: personal", "grant: persnal"),
        ("within: 30s", "within: 30"),
        ("nothing_else: true", "recalled: {text: x}"),
        ("as: operator", "as: operator\n    eventually: 3s"),
        ("by: [exact]", "by: []"),
        ("tags:", 'protocols: ["2025-11-26"]\ntags:'),
        ("/results/0/id", "results"),
    ],
)
def test_an_editor_sees_what_the_loader_would_refuse(old: str, new: str, example: str, accepts: Callable[[Any], bool]) -> None:
    assert old in example
    assert not accepts(parse_yaml(example.replace(old, new, 1), "x").plain())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dispatched: 0", 'dispatched: "${n}"'),
        ("count: 1", 'count: "${n}"'),
        ("{grant: personal, permissions: {add_memory: ask_first}}", "null"),
        ("tags:", "protocols: all\nwhen: {level: fake}\nexclusive: true\ntags:"),
        ("eventually: {within: 30s}", "eventually: 30s"),
        ("as: operator", ""),
    ],
)
def test_an_editor_takes_other_ways_to_write_it(old: str, new: str, example: str, accepts: Callable[[Any], bool]) -> None:
    assert old in example
    assert accepts(parse_yaml(example.replace(old, new, 1), "x").plain())


WORDS = ["mem0", "write", "all", "fake", "30s", "${fact}", "approval", "success", "", "x"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(WORDS),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["id", "count", "within", *WORDS[:4]]), inner, max_size=2),
    max_leaves=4,
)


@given(data=st.data(), value=VALUES)
@settings(max_examples=300, deadline=None)
def test_whatever_the_loader_takes_the_schema_takes(
    data: st.DataObject, value: Any, example: str, load: Callable[[str], Scenario], accepts: Callable[[Any], bool]
) -> None:
    document = parse_yaml(example, "x").plain()
    here: Any = document
    while True:
        place = data.draw(st.sampled_from(list(here) if isinstance(here, dict) else list(range(len(here)))))
        inner = here[place]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 3)) == 0:
            here[place] = value
            break
        here = inner
    try:
        load(json.dumps(document))
    except LoadErrors:
        return
    assert accepts(document)


def test_the_file_is_the_schema_as_text(tmp_path: Path, vocabulary: Vocabulary, schema: dict[str, Any]) -> None:
    path = tmp_path / "scenario.schema.json"
    write_schema(path, vocabulary)
    assert path.read_text(encoding="utf-8") == schema_text(vocabulary)
    assert json.loads(path.read_text(encoding="utf-8")) == schema
