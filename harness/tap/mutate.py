"""Catalog mutations: pure functions from one tools/list result, or one tool, to a changed one. Inputs are never changed.

A tool is the wire object (`name`, `inputSchema`, …). A kind that cannot be carried out on a tool gives None; nothing is added first
so that it can be changed afterwards. Where the plain form finds nothing to change, these nearest forms are taken, in this order:

* `enum-narrowed`: a parameter without an enumeration gets one (its values narrow to a few);
* `parameter-required`: a nested property becomes required;
* an open object (no `additionalProperties`, or true) accepts undeclared parameters, so they stand in for declared ones:
  `parameter-removed` closes it, `parameter-retyped` types them, `enum-narrowed` enumerates them, `parameter-required` requires one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.registry import suggest

Tool = dict[str, Any]
Schema = dict[str, Any]

ADDED_PARAMETER = "harness_added"
UNDECLARED_PARAMETER = "harness_required"
ADDED_TOOL = "harness_added_tool"
LOOP_CURSOR = "harness-loop"
"""The cursor of `cursor-loop`: the proxy strips it from requests, so that the provider serves its first page for ever."""

SIX_KINDS = ("parameter-added", "parameter-removed", "parameter-retyped", "parameter-required", "enum-narrowed", "description-changed")

_TYPES = ("integer", "boolean", "string", "array", "object", "number", "null")
_SAMPLES: dict[str, list[Any]] = {
    "string": ["a", "b"], "integer": [1, 2], "number": [1, 2], "boolean": [True], "array": [[]], "object": [{}], "null": [None],
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """`tool` None means every tool (pages have none). `parameter` picks one; else the first in name order that can be changed.

    `name` is the new name of `tool-renamed` and the name of `tool-added`; `hint` is the annotation that `hint-flipped` turns round.
    """

    kind: str
    tool: str | None = None
    parameter: str | None = None
    name: str | None = None
    hint: str = "readOnlyHint"

    def __post_init__(self) -> None:
        if self.kind not in MUTATION_KINDS:
            raise UsageError(f"unknown mutation {self.kind!r}", fix=suggest(self.kind, sorted(MUTATION_KINDS)))


def apply(tools_list_result: dict[str, Any], mutations: Iterable[Mutation]) -> dict[str, Any]:
    """One page of tools/list, mutated in the order given."""
    page = dict(tools_list_result)
    for mutation in mutations:
        if mutation.kind in _PAGE_KINDS:
            _PAGE_KINDS[mutation.kind](page, mutation)
        elif isinstance(page.get("tools"), list):
            page["tools"] = list(_mutated_tools(page["tools"], mutation))
    return page


def mutate_tool(tool: Tool, kind: str, *, parameter: str | None = None, hint: str = "readOnlyHint", name: str | None = None) -> Tool | None:
    """A changed copy of `tool`, always different from it, or None where `kind` does not apply. Raises UsageError for an unknown kind."""
    mutation = Mutation(kind=kind, parameter=parameter, hint=hint, name=name)
    if kind not in _TOOL_KINDS:
        raise UsageError(f"mutation {kind!r} changes a page, not a tool", fix=suggest(kind, sorted(_TOOL_KINDS)))
    changed = copy.deepcopy(tool)
    return changed if _TOOL_KINDS[kind](changed, mutation) and changed != tool else None


def _mutated_tools(tools: list[Any], mutation: Mutation) -> Iterator[Any]:
    for tool in tools:
        if not isinstance(tool, dict) or mutation.tool not in (None, tool.get("name")):
            yield tool
            continue
        changed = copy.deepcopy(tool)
        yield changed if _TOOL_KINDS[mutation.kind](changed, mutation) else tool


# Kinds that change one tool in place; False when not applicable.


def _parameter_added(tool: Tool, mutation: Mutation) -> bool:
    schema = _object(tool, "inputSchema")
    properties = _object(schema, "properties")
    name = mutation.parameter or ADDED_PARAMETER
    while name in properties:
        name += "_"
    properties[name] = {"type": "string"}
    return True


def _parameter_removed(tool: Tool, mutation: Mutation) -> bool:
    schema, properties = _parameters(tool)
    for name in _candidates(properties, mutation):
        del properties[name]
        if isinstance(schema.get("required"), list):
            schema["required"] = [other for other in schema["required"] if other != name]
            if not schema["required"]:
                del schema["required"]
        return True
    return _undeclared(schema, mutation, False)


def _parameter_retyped(tool: Tool, mutation: Mutation) -> bool:
    schema, properties = _parameters(tool)
    for name in _candidates(properties, mutation):
        before = properties[name]
        accepted = _accepted(before, schema)
        # A type that was not accepted before, so that every value which was right is now wrong; for "anything goes", one type.
        new = next((kind for kind in _TYPES if kind not in accepted), "string") if accepted else "integer"
        kept = {key: before[key] for key in ("title", "description") if key in before} if isinstance(before, dict) else {}
        properties[name] = {**kept, "type": new}
        return True
    return _undeclared(schema, mutation, {"type": "integer"})


def _parameter_required(tool: Tool, mutation: Mutation) -> bool:
    schema, properties = _parameters(tool)
    if _require_one(schema, list(_candidates(properties, mutation))):
        return True
    if mutation.parameter is not None:
        return False
    for nested in _nested_objects(schema):
        if _require_one(nested, sorted(nested["properties"])):
            return True
    return _is_open(schema) and _require_one(schema, [UNDECLARED_PARAMETER])


def _undeclared(schema: Schema, mutation: Mutation, narrowed: Any) -> bool:
    """The nearest form for a tool that declares no parameter: what it lets pass undeclared is narrowed."""
    if mutation.parameter is not None or not _is_open(schema):
        return False
    schema["additionalProperties"] = narrowed
    return True


def _is_open(schema: Schema) -> bool:
    return schema.get("additionalProperties", True) in (True, {})


def _require_one(schema: Schema, names: list[str]) -> bool:
    required = _listed(schema, "required")
    for name in names:
        if name not in required:
            schema["required"] = [*required, name]
            return True
    return False


def _enum_narrowed(tool: Tool, mutation: Mutation) -> bool:
    schema, properties = _parameters(tool)
    names = list(_candidates(properties, mutation))
    for name in names:
        for part in _subschemas(properties[name]):
            values = part.get("enum")
            if isinstance(values, list) and len(values) > 1:
                part["enum"] = values[:-1]
                return True
    for name in names:
        parameter = properties[name]
        if isinstance(parameter, dict) and "enum" not in parameter and "const" not in parameter:
            accepted = _accepted(parameter, schema)
            kind = next((known for known in _SAMPLES if known in accepted), "string")
            parameter["enum"] = list(_SAMPLES[kind])
            return True
    return _undeclared(schema, mutation, {"enum": list(_SAMPLES["string"])})


def _description_changed(tool: Tool, mutation: Mutation) -> bool:
    owner: Any = tool
    if mutation.parameter is not None:
        owner = _parameters(tool)[1].get(mutation.parameter)
        if not isinstance(owner, dict):
            return False
    owner["description"] = f"{owner.get('description') or ''} Changed on the wire.".strip()
    return True


def _hint_flipped(tool: Tool, mutation: Mutation) -> bool:
    annotations = _object(tool, "annotations")
    annotations[mutation.hint] = annotations.get(mutation.hint) is not True
    return True


def _output_schema_changed(tool: Tool, _: Mutation) -> bool:
    schema = _object(tool, "outputSchema")
    schema.setdefault("type", "object")
    properties = _object(schema, "properties")
    name = "harness_output"
    while name in properties:
        name += "_"
    properties[name] = {"type": "string"}
    return True


def _tool_renamed(tool: Tool, mutation: Mutation) -> bool:
    tool["name"] = mutation.name or f"{tool.get('name')}_renamed"
    return True


# Kinds that change the page.


def _tool_removed(page: dict[str, Any], mutation: Mutation) -> None:
    if isinstance(page.get("tools"), list):
        page["tools"] = [tool for tool in page["tools"] if not (isinstance(tool, dict) and mutation.tool in (None, tool.get("name")))]


def _tool_added(page: dict[str, Any], mutation: Mutation) -> None:
    if page.get("nextCursor") is None and isinstance(page.get("tools"), list):  # on the last page only, hence once in the list
        name = mutation.name or mutation.tool or ADDED_TOOL
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        page["tools"] = [*page["tools"], {"name": name, "description": "Added on the wire.", "inputSchema": schema}]


def _cursor_dropped(page: dict[str, Any], _: Mutation) -> None:
    page.pop("nextCursor", None)


def _cursor_loop(page: dict[str, Any], _: Mutation) -> None:
    page["nextCursor"] = LOOP_CURSOR


_TOOL_KINDS: dict[str, Callable[[Tool, Mutation], bool]] = {
    "parameter-added": _parameter_added,
    "parameter-removed": _parameter_removed,
    "parameter-retyped": _parameter_retyped,
    "parameter-required": _parameter_required,
    "enum-narrowed": _enum_narrowed,
    "description-changed": _description_changed,
    "hint-flipped": _hint_flipped,
    "output-schema-changed": _output_schema_changed,
    "tool-renamed": _tool_renamed,
}
_PAGE_KINDS: dict[str, Callable[[dict[str, Any], Mutation], None]] = {
    "tool-removed": _tool_removed,
    "tool-added": _tool_added,
    "cursor-dropped": _cursor_dropped,
    "cursor-loop": _cursor_loop,
}
MUTATION_KINDS = frozenset(_TOOL_KINDS) | frozenset(_PAGE_KINDS)
"""Every kind's word."""


# Reading schemas.


def _object(owner: dict[str, Any], key: str) -> dict[str, Any]:
    """The object under `key`, put there when something else or nothing is."""
    if not isinstance(owner.get(key), dict):
        owner[key] = {}
    value: dict[str, Any] = owner[key]
    return value


def _parameters(tool: Tool) -> tuple[Schema, dict[str, Any]]:
    """The input schema and its properties, as they are; empty stand-ins when the tool has none."""
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return {}, {}
    return schema, _mapped(schema, "properties")


def _candidates(properties: dict[str, Any], mutation: Mutation) -> Iterator[str]:
    names = sorted(properties) if mutation.parameter is None else [mutation.parameter]
    return (name for name in names if name in properties)


def _subschemas(schema: Any) -> Iterator[Schema]:
    """A schema and the alternatives, items and properties inside it, outermost first."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("anyOf", "oneOf", "allOf"):
        for part in _listed(schema, key):
            yield from _subschemas(part)
    yield from _subschemas(schema.get("items"))
    for part in _mapped(schema, "properties").values():
        yield from _subschemas(part)


def _listed(schema: Schema, key: str) -> list[Any]:
    value = schema.get(key)
    return value if isinstance(value, list) else []


def _mapped(schema: Schema, key: str) -> dict[str, Any]:
    value = schema.get(key)
    return value if isinstance(value, dict) else {}


def _nested_objects(schema: Schema) -> Iterator[Schema]:
    """Objects with properties of their own below the parameters, in name order, and those under `$defs`."""
    for holder in ("properties", "$defs", "definitions"):
        for _, inner in sorted(_mapped(schema, holder).items()):
            for part in _subschemas(inner):
                if isinstance(part.get("properties"), dict):
                    yield part


def _accepted(schema: Any, root: Schema, depth: int = 8) -> set[str]:
    """The JSON types a schema names (an integer is a number); empty means that it does not say."""
    if not isinstance(schema, dict) or depth == 0:
        return set()
    named = schema.get("type")
    kinds = {named} if isinstance(named, str) else {kind for kind in named if isinstance(kind, str)} if isinstance(named, list) else set()
    for key in ("anyOf", "oneOf", "allOf"):
        for part in _listed(schema, key):
            kinds |= _accepted(part, root, depth - 1)
    values = [*_listed(schema, "enum"), *([schema["const"]] if "const" in schema else ())]
    kinds |= {_type_of(value) for value in values}
    kinds |= _accepted(_resolved(schema.get("$ref"), root), root, depth - 1)
    return kinds | {"integer"} if "number" in kinds else kinds


def _resolved(reference: Any, root: Schema) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    node: Any = root
    for step in reference[2:].split("/"):
        node = node.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(node, dict) else None
    return node


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names: dict[type, str] = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "string")
