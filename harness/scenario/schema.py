"""The published JSON Schema (2020-12) of scenario files, made from the vocabulary, for completion and checks in editors.

It is a little more generous than the loader: what needs the whole file (ids, variables, claims) only the loader can judge.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from harness.model.scenario import LEVELS, PLACES, PROTOCOLS, ConnectionSpec, Vocabulary, Word
from harness.scenario.durations import PATTERN as DURATION
from harness.scenario.load import TOP_KEYS
from harness.scenario.names import CONNECTION_PATTERN, ID_PATTERN, LET_PATTERN, SCENARIO_PATTERN

Schema = dict[str, Any]

_TEMPLATE: Schema = {"$ref": "#/$defs/template"}
_ID: Schema = {"type": "string", "pattern": ID_PATTERN}
_TEXT: Schema = {"type": "string", "minLength": 1}


def scenario_json_schema(vocabulary: Vocabulary) -> Schema:
    """Everything a scenario may hold; each verb and expectation with the schema of its own parameters."""
    models = _Models(vocabulary)
    verbs = [_step(word, models) for word in _sorted(vocabulary.verbs)]
    cleanup = [_step(word, models, cleanup=True) for word in _sorted(vocabulary.verbs)]
    defs: Schema = {
        "template": {"type": "string", "pattern": r"\$\{", "description": "a variable: ${name} or ${step.capture}"},
        "duration": {"type": "string", "pattern": DURATION, "examples": ["30s", "200ms", "5m"]},
        "step": {"type": "object", "anyOf": verbs},
        "cleanup": {"type": "object", "anyOf": cleanup},
        "step_expectation": {
            "type": "object",
            "anyOf": [_expectation(w, models) for w in _sorted(vocabulary.expectations) if "step" in w.scopes],
        },
        "run_expectation": {
            "type": "object",
            "anyOf": [_expectation(w, models) for w in _sorted(vocabulary.expectations) if "run" in w.scopes],
        },
        "connection": _connection(models, vocabulary.providers),
    }
    properties = _top_level()
    assert set(properties) == set(TOP_KEYS)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Scenario",
        "description": "A declarative acceptance scenario for an MCP tool gateway",
        "type": "object",
        "required": ["scenario", "title"],
        "additionalProperties": False,
        "properties": properties,
        "$defs": defs | models.defs,
    }


def write_schema(path: Path, vocabulary: Vocabulary) -> None:
    """Write the schema as the repository keeps it; a test compares the two."""
    path.write_text(schema_text(vocabulary), encoding="utf-8")


def schema_text(vocabulary: Vocabulary) -> str:
    return json.dumps(scenario_json_schema(vocabulary), indent=1, ensure_ascii=False, sort_keys=False) + "\n"


def _sorted(words: Mapping[str, Word]) -> list[Word]:
    return [words[name] for name in sorted(words)]


def _top_level() -> Schema:
    texts = {"anyOf": [_TEXT, {"type": "array", "items": _TEXT}]}
    protocol: Schema = {"enum": [*PROTOCOLS]}
    level = {"enum": [*LEVELS]}
    claim = {
        "type": "object",
        "required": ["claim", "by"],
        "additionalProperties": False,
        "properties": {"claim": _TEXT, "by": {"anyOf": [_TEXT, {"type": "array", "items": _TEXT, "minItems": 1}]}},
    }
    named = {"type": "object", "propertyNames": {"pattern": CONNECTION_PATTERN}, "additionalProperties": {"$ref": "#/$defs/connection"}}
    when = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"level": {"anyOf": [level, {"type": "array", "items": level}]}, "target": texts},
    }
    return {
        "scenario": {"type": "string", "pattern": SCENARIO_PATTERN, "description": "the id, unique among all scenarios"},
        "title": _TEXT | {"description": "one sentence on what it shows"},
        "connections": {"anyOf": [named, {"type": "array", "items": {"type": "string", "pattern": CONNECTION_PATTERN}}]},
        "tags": texts,
        "formerly": texts | {"description": "ids it had before: earlier runs under them are its own"},
        "protocols": {"anyOf": [{"const": "all"}, protocol, {"type": "array", "items": protocol, "minItems": 1}]},
        "when": when | {"description": "where it applies; elsewhere it is not_applicable"},
        "place": {"enum": [*PLACES], "description": "where the agent stands; sandbox: in namespaces of its own, calling through the relay"},
        "exclusive": {"type": "boolean", "description": "true: it gets a bench of its own"},
        "let": {"type": "object", "propertyNames": {"pattern": LET_PATTERN}, "description": "variables, resolved once per run"},
        "steps": {"type": "array", "items": {"$ref": "#/$defs/step"}},
        "expect": {"type": "array", "items": {"$ref": "#/$defs/run_expectation"}, "description": "judged on the whole run"},
        "proves": {"type": "array", "items": claim},
        "does_not_prove": texts,
        "cleanup": {"type": "array", "items": {"$ref": "#/$defs/cleanup"}, "description": "always runs; judged apart"},
    }


def _step(word: Word, models: _Models, *, cleanup: bool = False) -> Schema:
    properties, required = models.properties(word.params)
    target = properties.pop("target", {})
    required = [word.id if name == "target" else name for name in required]
    shared: Schema = {"id": _ID}
    if not cleanup:
        pointer = {"type": "string", "pattern": "^(/.*)?$", "description": "JSON pointer into the answer"}
        capture = {
            "type": "object",
            "required": ["at"],
            "additionalProperties": False,
            "properties": {"from": {"const": "result"}, "at": pointer},
        }
        shared["capture"] = {"type": "object", "propertyNames": {"pattern": LET_PATTERN}, "additionalProperties": capture}
        shared["expect"] = {"type": "array", "items": {"$ref": "#/$defs/step_expectation"}}
    if word.id == "call" and not cleanup:
        duration: Schema = {"$ref": "#/$defs/duration"}
        long = {
            "type": "object",
            "required": ["within"],
            "additionalProperties": False,
            "properties": {"within": duration, "every": duration},
        }
        shared["eventually"] = {"anyOf": [duration, long]}
    return {
        "type": "object",
        "required": list(dict.fromkeys([word.id, *required])),
        "additionalProperties": False,
        "properties": {word.id: target | {"description": word.summary}, **properties, **shared},
    }


def _expectation(word: Word, models: _Models) -> Schema:
    properties, required = models.properties(word.params)
    short = properties.get("value")
    if short is not None and set(properties) == {"value"}:
        value = dict(short)
    else:
        value = {"type": "object", "additionalProperties": False, "properties": properties, "required": required}
        if _reshapes(word.params):  # a bare value, or another spelling, that the model puts right itself
            value = {"anyOf": [value | {"required": []}, {"type": ["string", "number", "boolean"]}]}
    return {
        "type": "object",
        "required": [word.id],
        "additionalProperties": False,
        "properties": {"id": _ID, word.id: value | {"description": word.summary}},
    }


def _reshapes(model: type[BaseModel]) -> bool:
    validators = model.__pydantic_decorators__.model_validators.values()
    return any(validator.info.mode == "before" for validator in validators)


def _connection(models: _Models, providers: tuple[str, ...]) -> Schema:
    properties, _ = models.properties(ConnectionSpec)
    properties["provider"] = {"enum": [*providers], "description": "the manifest's id; the connection's own name when left out"}
    return {"anyOf": [{"type": "null"}, {"type": "object", "additionalProperties": False, "properties": properties}]}


class _Models:
    """Every parameter model's schema, with shared definitions under one roof and room for a variable in each value."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        words = [*vocabulary.verbs.values(), *vocabulary.expectations.values()]
        models: list[type[BaseModel]] = list(dict.fromkeys([*(word.params for word in words), ConnectionSpec]))
        by_model, top = models_json_schema([(model, "validation") for model in models], ref_template="#/$defs/{model}")
        every: Schema = top.get("$defs", {})
        self._own = {model: every[str(by_model[(model, "validation")]["$ref"]).removeprefix("#/$defs/")] for model in models}
        used = _reachable(list(self._own.values()), every)
        self.defs: Schema = {name: _open(every[name]) for name in sorted(used)}

    def properties(self, model: type[BaseModel]) -> tuple[Schema, list[str]]:
        """(properties, required), spelled as in YAML."""
        schema = _open(self._own[model])
        return dict(schema.get("properties", {})), list(schema.get("required", []))


def _reachable(schemas: list[Any], every: Schema) -> set[str]:
    found: set[str] = set()
    waiting = list(schemas)
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            name = str(item.get("$ref", "")).removeprefix("#/$defs/")
            if name in every and name not in found:
                found.add(name)
                waiting.append(every[name])
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return found


def _open(schema: Schema) -> Schema:
    """A model's schema as YAML writes it: no trailing underscores, no Python docstrings, and a variable wherever a value may stand."""
    opened = {key: value for key, value in schema.items() if key not in ("title", "description", "default")}
    if "properties" in opened:
        opened["properties"] = {name.removesuffix("_"): _value(inner) for name, inner in opened["properties"].items()}
    if "required" in opened:
        opened["required"] = [name.removesuffix("_") for name in opened["required"]]
    for key in ("items", "additionalProperties"):
        if isinstance(opened.get(key), dict):
            opened[key] = _value(opened[key])
    for key in ("anyOf", "oneOf", "prefixItems"):
        if key in opened:
            opened[key] = [_open(inner) for inner in opened[key]]
    return opened


def _value(schema: Schema) -> Schema:
    opened = _open(schema)
    if not opened or opened == {"type": "string"} or opened == {"type": "string", "minLength": 1}:
        return opened
    choices = opened.pop("anyOf") if set(opened) == {"anyOf"} else [opened]
    return {"anyOf": [*choices, _TEMPLATE]}
