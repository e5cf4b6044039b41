"""The real vocabulary: the published schema is current, and everything this project writes in the language is accepted by it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pytest

from harness.engine.vocabulary import kinds, load_vocabulary, verbs
from harness.model.scenario import Vocabulary
from harness.scenario.files import data_root, scenarios_folder
from harness.scenario.load import load_scenario, scenario_files
from harness.scenario.schema import scenario_json_schema, schema_text
from harness.yaml_nodes import parse_yaml

PUBLISHED = data_root() / "docs" / "scenario.schema.json"
FILES = scenario_files([scenarios_folder()])

STEP_EXPECTATION = """\
scenario: S
title: t
connections: [mem0]
steps:
  - id: act
    call: add_memory
    expect:
{entry}
  - {{id: write, call: add_memory}}
  - {{id: allow, approve: write}}
"""
RUN_EXPECTATION = """\
scenario: S
title: t
connections: [mem0]
steps:
  - {{id: act, call: add_memory}}
expect:
{entry}
"""
VERB = """\
scenario: S
title: t
connections: [mem0, cognee]
steps:
  - {{id: write, call: mem0.add_memory}}
  - {{id: other, call: cognee.recall}}
  - id: act
{entry}
expect: [{{no_secret: true}}]
"""


@pytest.fixture(scope="session")
def real() -> Vocabulary:
    return load_vocabulary()


@pytest.fixture(scope="session")
def schema(real: Vocabulary) -> dict[str, Any]:
    return scenario_json_schema(real)


def accepted(text: str, vocabulary: Vocabulary, schema: dict[str, Any]) -> bool:
    load_scenario(text, "f.yaml", vocabulary)
    return jsonschema_rs.Draft202012Validator(schema).is_valid(parse_yaml(text, "f.yaml").plain())


def test_the_published_schema_is_current(real: Vocabulary) -> None:
    """When this fails, write it anew: `write_schema(path, load_vocabulary())` of harness.scenario.schema."""
    assert PUBLISHED.read_text(encoding="utf-8") == schema_text(real)


def test_the_published_schema_is_one(schema: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_every_scenario_of_this_project_is_accepted(path: Path, real: Vocabulary, schema: dict[str, Any]) -> None:
    assert accepted(path.read_text(encoding="utf-8"), real, schema)


@pytest.mark.parametrize("word", sorted(kinds()))
def test_every_expectations_specimen_is_accepted(word: str, real: Vocabulary, schema: dict[str, Any]) -> None:
    frame = STEP_EXPECTATION if "step" in kinds()[word].scopes else RUN_EXPECTATION
    for specimen in kinds()[word].specimens():
        entry = textwrap.indent("- " + textwrap.indent(specimen.yaml, "  ").lstrip(), "      " if frame is STEP_EXPECTATION else "  ")
        assert accepted(frame.format(entry=entry), real, schema)


@pytest.mark.parametrize("word", sorted(verbs()))
def test_every_verbs_example_is_accepted(word: str, real: Vocabulary, schema: dict[str, Any]) -> None:
    assert accepted(VERB.format(entry=textwrap.indent(verbs()[word].example, "    ")), real, schema)
