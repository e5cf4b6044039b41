"""A word's parameters against its pydantic model, with every complaint put where the writer can see it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails

from harness.model.location import Location
from harness.model.scenario import Word
from harness.registry import suggest
from harness.scenario.problems import Problems
from harness.scenario.variables import has_template, references, strings
from harness.yaml_nodes import MapNode, Node, SeqNode, locate

Path = tuple[str | int, ...]
_SCALAR_TYPES = ("bool_type", "int_type", "float_type", "string_type")


def expectation_input(value: Any) -> Mapping[str, Any]:
    """What an expectation's model is given: a mapping as it is, anything else `x` as {"value": x}."""
    return value if isinstance(value, Mapping) else {"value": value}


@dataclass(frozen=True, slots=True)
class Given:
    """Parameters as data, and where they stand. `roots` maps a top-level name to its node; other paths start at `whole`."""

    data: Mapping[str, Any]
    whole: Node
    roots: Mapping[str, Node]
    marks: Mapping[str, Location]
    siblings: tuple[str, ...] = ()  # keys that may stand beside the model's own, worth suggesting
    verb: str = ""  # how the model's `target` is written


def validated(model: type[BaseModel], data: Mapping[str, Any]) -> BaseModel:
    """The model of `data`; no text passes for a number, and `yes` not for true. Raises ValidationError.

    Strictness is for single values only: once a model has reshaped its input, pydantic's strict mode refuses a list for a tuple.
    """
    found = model.model_validate(data)
    try:
        model.model_validate_json(json.dumps(data), strict=True)
    except ValidationError as error:
        if coerced := [e for e in error.errors(include_url=False) if e["type"] in _SCALAR_TYPES and not isinstance(e["input"], (dict, list))]:
            again = [InitErrorDetails(type=e["type"], loc=e["loc"], input=e["input"]) for e in coerced]
            raise ValidationError.from_exception_data(model.__name__, again, input_type="json") from None
    return found


def check_params(word: Word, given: Given, what: str, problems: Problems) -> None:
    """Add a problem for whatever the word's model refuses. Values that hold a template are judged once rendered, not here."""
    try:
        validated(word.params, given.data)
    except ValidationError as error:
        errors = [e for e in error.errors(include_url=False) if not _may_still_fit(e)]
        for at, details in _deepest(errors, given).items():
            what_is_wrong, fix = _explain(details, word, given, what)
            problems.add(at, what_is_wrong, fix)


def check_model(model: type[BaseModel], node: MapNode, what: str, problems: Problems) -> BaseModel | None:
    """The node as `model`, or None after its problems have been added."""
    given = Given(node.plain(), node, node.entries, node.keys)
    try:
        return validated(model, given.data)
    except ValidationError as error:
        word = Word(id=what, summary="", params=model)
        for at, details in _deepest(error.errors(include_url=False), given).items():
            problems.add(at, *_explain(details, word, given, what))
        return None


def _may_still_fit(error: ErrorDetails) -> bool:
    """A refusal that a variable's value may yet settle: of a text that holds one, or of a whole by a rule of its own."""
    if error["type"] in ("value_error", "assertion_error"):
        return any(references(text) for text in strings(error["input"]))
    return error["type"] not in ("missing", "extra_forbidden") and has_template(error["input"])


def _known_path(loc: Iterable[str | int], given: Given) -> Path:
    """The part of a pydantic location that the document has: union tags and validators' names drop out."""
    path: list[str | int] = []
    node: Node | None = None
    for index, part in enumerate(loc):
        name = part.removesuffix("_") if isinstance(part, str) and part.endswith("_") else part
        if index == 0:
            node = given.roots.get(str(part)) or given.roots.get(str(name))
            if node is not None:
                path.append(part if str(part) in given.roots else name)
        elif isinstance(node, MapNode) and isinstance(part, str) and part in node.entries:
            node = node.entries[part]
            path.append(part)
        elif isinstance(node, SeqNode) and isinstance(part, int) and 0 <= part < len(node.items):
            node = node.items[part]
            path.append(part)
    return tuple(path)


def _position(details: ErrorDetails, given: Given) -> Location:
    path = _known_path(details["loc"], given)
    if not path:
        return given.whole.location
    root = given.roots[str(path[0])]
    by_key = details["type"] == "extra_forbidden"
    if by_key and len(path) == 1:
        return given.marks.get(str(path[0]), root.location)
    return locate(root, path[1:], key=by_key)


def _deepest(errors: Sequence[ErrorDetails], given: Given) -> Mapping[Location, ErrorDetails]:
    """One error a place. A union's refusals at an ancestor of a place that has one only repeat it less exactly."""
    placed = [(details, _known_path(details["loc"], given)) for details in errors]
    chosen: dict[Location, ErrorDetails] = {}
    paths: list[Path] = []
    for details, path in sorted(placed, key=lambda p: -len(p[1])):
        at = _position(details, given)
        of_keys = details["type"] in ("missing", "extra_forbidden")
        vaguer = not of_keys and any(len(path) < len(other) and other[: len(path)] == path for other in paths)
        if at not in chosen and not vaguer:
            chosen[at] = details
            paths.append(path)
    return chosen


def _explain(details: ErrorDetails, word: Word, given: Given, what: str) -> tuple[str, str]:
    path = _known_path(details["loc"], given)
    last = str(details["loc"][-1]) if details["loc"] else ""
    place = _named(path, given, what)
    if details["type"] == "extra_forbidden":
        known = [name for name in _fields(word.params, path[:-1]) if name not in ("target", "value")]
        known += given.siblings if len(path) <= 1 else ()
        return f"unknown key {last!r} in {what}", suggest(last, known) if known else "remove it"
    if details["type"] == "missing":
        name = last.removesuffix("_")
        return f"{place} needs {name!r}", f"add {name}: …"
    value = details["input"]
    bare = given.data.get("value") if not path and not isinstance(given.whole, MapNode) and value == given.data else value
    if details["type"] == "literal_error":
        expected = str(details.get("ctx", {}).get("expected", ""))
        choices = [_as_yaml(choice) for choice in expected.replace(" or ", ", ").split(", ")]
        return f"{place} may not be {_shown(bare)}", suggest(str(bare), choices)
    message, _, listed = (
        details["msg"]
        .removeprefix("Value error, ")
        .replace("Input should", "it should")
        .replace(", unable to parse string as an integer", "")
        .partition("; use one of: ")
    )
    fix = suggest(str(bare), listed.split(", ")) if listed else _remedy(details["type"])
    return f"{place} may not be {_shown(bare)}: {message}", fix


def _named(path: Path, given: Given, what: str) -> str:
    """A place as the writer knows it: a bare value has no name of its own, and a verb's value has the verb's."""
    if not isinstance(given.whole, MapNode):
        path = path[1:]
    parts = [given.verb if given.verb and index == 0 and part == "target" else str(part) for index, part in enumerate(path)]
    return f"{'.'.join(parts)} of {what}" if parts else what


def _as_yaml(python: str) -> str:
    return {"True": "true", "False": "false", "None": "null"}.get(python, python.strip("'"))


def _remedy(kind: str) -> str:
    if kind.startswith("string"):
        return "write text, in quotes if it looks like a number, a date or true/false"
    if kind.startswith(("int", "float", "decimal")):
        return "write a number without quotes"
    if kind.startswith("bool"):
        return "write true or false"
    if kind.startswith(("dict", "model", "mapping")):
        return "write `name: value` entries"
    if kind.startswith(("list", "tuple", "set")):
        return "write a list, one `- ` an entry"
    return "see the word in the language's documentation"


def _shown(value: Any) -> str:
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def field_names(model: type[BaseModel]) -> Mapping[str, Any]:
    """Names as they are written in YAML → annotation. A trailing underscore only keeps Python's keywords apart."""
    return {(field.alias or name.removesuffix("_")): field.annotation for name, field in model.model_fields.items()}


def _fields(model: type[BaseModel], path: Path) -> Iterable[str]:
    """The names that a mapping at `path` below `model` may have; empty when that is open or cannot be told."""
    models = [model]
    for part in path:
        inner: list[type[BaseModel]] = []
        for each in models:
            fields = field_names(each)
            if isinstance(part, str) and part in fields:
                inner += _models_in(fields[part])
        models = inner or models if isinstance(part, int) else inner
    return dict.fromkeys(name for each in models for name in field_names(each))


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in _models_in(part)]
