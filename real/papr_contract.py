"""Run by the Python of .real/papr: what the vendor's own SDK states of seven REST operations, as a tool list in JSON on standard output.

Each operation is one entry: `inputSchema` is its parameters (path, query and body together, under their names on the wire), `outputSchema`
its response model. Only names, types, words of an enumeration and what is required; no text of the vendor's. In parameters `null` beside another
type is dropped: the SDK means by it what the bridge means by leaving the field out.
"""

from __future__ import annotations

import collections.abc
import datetime
import inspect
import json
import sys
import types
import typing
from typing import Any

import pydantic
import typing_extensions
from papr_memory import types as sdk  # type: ignore[import-not-found]  # lives in the venv that runs this
from papr_memory._version import __version__  # type: ignore[import-not-found]
from papr_memory.types import (  # type: ignore[import-not-found]
    memory_add_batch_params,
    memory_add_params,
    memory_delete_all_params,
    memory_delete_params,
    memory_get_params,
    memory_search_params,
    memory_update_params,
)

OPERATIONS = {
    "add_memory": ((), memory_add_params.MemoryAddParams, sdk.AddMemoryResponse),
    "update_memory": (("memory_id",), memory_update_params.MemoryUpdateParams, sdk.MemoryUpdateResponse),
    "delete_memory": (("memory_id",), memory_delete_params.MemoryDeleteParams, sdk.MemoryDeleteResponse),
    "get_memory": (("memory_id",), memory_get_params.MemoryGetParams, sdk.SearchResponse),
    "add_memory_batch": ((), memory_add_batch_params.MemoryAddBatchParams, sdk.BatchMemoryResponse),
    "delete_all_memories": ((), memory_delete_all_params.MemoryDeleteAllParams, sdk.BatchMemoryResponse),
    "search_memory": ((), memory_search_params.MemorySearchParams, sdk.SearchResponse),
}
PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
HEADERS = ("Accept-Encoding",)


def schema_of(kind: Any) -> dict[str, Any]:
    """JSON Schema of a type as the SDK's models use them. Raises TypeError for one that was never met: it must not be passed over."""
    if kind in PLAIN:
        return {"type": PLAIN[kind]}
    if kind in (object, Any):
        return {}
    if kind is datetime.datetime:
        return {"type": "string"}
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Annotated, typing_extensions.Required, typing_extensions.NotRequired):
        return schema_of(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return union_of([schema_of(each) for each in arguments])
    if origin in (typing.Literal, typing_extensions.Literal):
        return {"type": "string", "enum": list(arguments)}
    if origin in (dict, collections.abc.Mapping):
        inner = schema_of(arguments[1])
        return {"type": "object", "additionalProperties": inner} if inner else {"type": "object"}
    if isinstance(origin, type) and issubclass(origin, collections.abc.Iterable):
        return {"type": "array", "items": schema_of(arguments[0])}
    if typing_extensions.is_typeddict(kind):
        return dict_of(kind)
    if inspect.isclass(kind) and issubclass(kind, pydantic.BaseModel):
        return model_of(kind)
    if hasattr(kind, "__value__"):  # a named alias of another type
        return schema_of(kind.__value__)
    raise TypeError(f"no schema for {kind!r}")


def union_of(parts: list[dict[str, Any]]) -> dict[str, Any]:
    unique = [part for index, part in enumerate(parts) if part not in parts[:index]]
    return unique[0] if len(unique) == 1 else {} if {} in unique else {"anyOf": unique}


def without_null(schema: dict[str, Any]) -> dict[str, Any]:
    return union_of([part for part in schema["anyOf"] if part != {"type": "null"}]) if "anyOf" in schema else schema


def dict_of(kind: Any) -> dict[str, Any]:
    """Of a TypedDict, which in the SDK always are parameters."""
    properties, required = {}, []
    for name, hint in typing_extensions.get_type_hints(kind, include_extras=True).items():
        wire = alias_of(hint) or name
        properties[wire] = without_null(schema_of(hint))
        # Not `__required_keys__`: under postponed annotations that set is empty.
        if typing.get_origin(hint) is typing_extensions.Required:
            required.append(wire)
    return {"type": "object", "properties": properties, **({"required": sorted(required)} if required else {})}


def alias_of(hint: Any) -> str | None:
    """A field's name on the wire, which stands beside its type, however deep."""
    for each in getattr(hint, "__metadata__", ()):
        if getattr(each, "alias", None):
            return str(each.alias)
    return next((found for each in typing.get_args(hint) if not isinstance(each, str) and (found := alias_of(each))), None)


def model_of(kind: type[pydantic.BaseModel]) -> dict[str, Any]:
    properties = {field.alias or name: schema_of(field.annotation) for name, field in kind.model_fields.items()}
    required = sorted(field.alias or name for name, field in kind.model_fields.items() if field.is_required())
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def operation(name: str) -> dict[str, Any]:
    path, parameters, response = OPERATIONS[name]
    schema = dict_of(parameters)
    for header in HEADERS:
        schema["properties"].pop(header, None)
    schema["properties"] = {**{each: {"type": "string"} for each in path}, **schema["properties"]}
    if path or "required" in schema:
        schema["required"] = [*path, *schema.get("required", [])]
    return {"name": name, "inputSchema": schema, "outputSchema": model_of(response)}


def main() -> None:
    json.dump({"sdk": __version__, "tools": [operation(name) for name in OPERATIONS]}, sys.stdout)


if __name__ == "__main__":
    main()
