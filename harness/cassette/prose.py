"""Texts that a vendor wrote, replaced by their hashes: descriptions, titles, instructions. What a tool takes and answers stays."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

PREFIX = "sha256:"
_ANNOTATIONS = frozenset({"$comment", "title", "description", "markdownDescription", "deprecationMessage", "errorMessage"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset(
    {
        "items", "additionalItems", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems",
        "unevaluatedProperties", "contentSchema",
    }
)  # fmt: skip


def hashed(text: str) -> str:
    """Hashing what is already a hash changes nothing."""
    if text.startswith(PREFIX) and len(text) == len(PREFIX) + 64:
        return text
    return PREFIX + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def without_prose(message: Any) -> Any:
    """A JSON-RPC message or its result; anything that is neither a handshake nor a list is returned as it is."""
    if not isinstance(message, dict):
        return message
    if isinstance(message.get("result"), dict):
        return {**message, "result": _result(message["result"])}
    return message


def _result(result: dict[str, Any]) -> dict[str, Any]:
    changed = dict(result)
    if isinstance(result.get("instructions"), str) and ("serverInfo" in result or "supportedVersions" in result or "capabilities" in result):
        changed["instructions"] = hashed(result["instructions"])
    if isinstance(result.get("serverInfo"), dict):
        changed["serverInfo"] = _described(result["serverInfo"], keep=("name", "version"))
    for kind in ("tools", "prompts", "resources", "resourceTemplates"):
        if isinstance(result.get(kind), list):
            changed[kind] = [_tool(one) for one in result[kind]]
    meta = result.get("_meta")
    if isinstance(meta, dict):
        changed["_meta"] = {k: _described(v, keep=("name", "version")) if isinstance(v, dict) else v for k, v in meta.items()}
    return changed


def _described(block: Mapping[str, Any], keep: tuple[str, ...]) -> dict[str, Any]:
    hide = {"title", "description"} - set(keep)
    return {key: hashed(value) if isinstance(value, str) and key in hide else value for key, value in block.items()}


def _tool(tool: Any) -> Any:
    if not isinstance(tool, dict):
        return tool
    changed = _described(tool, keep=())
    for schema in ("inputSchema", "outputSchema"):
        if isinstance(tool.get(schema), dict):
            changed[schema] = schema_without_prose(tool[schema])
    if isinstance(tool.get("annotations"), dict):
        changed["annotations"] = _described(tool["annotations"], keep=())
    if isinstance(tool.get("arguments"), list):
        changed["arguments"] = [_described(a, keep=()) if isinstance(a, dict) else a for a in tool["arguments"]]
    return changed


def schema_without_prose(schema: Any) -> Any:
    """Aware of position: a property that is *named* `title` stays, the schema's own title does not. Examples and texts of defaults go too."""
    if not isinstance(schema, dict):
        return schema
    changed: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _ANNOTATIONS and isinstance(value, str):
            changed[key] = hashed(value)
        elif key in ("examples", "example", "default"):
            changed[key] = _texts_hashed(value)
        elif key in _MAPS and isinstance(value, dict):
            changed[key] = {name: schema_without_prose(one) for name, one in value.items()}
        elif key in _LISTS and isinstance(value, list):
            changed[key] = [schema_without_prose(one) for one in value]
        elif key in _SCHEMAS:
            changed[key] = [schema_without_prose(one) for one in value] if isinstance(value, list) else schema_without_prose(value)
        else:
            changed[key] = value
    return changed


def _texts_hashed(value: Any) -> Any:
    if isinstance(value, str):
        return hashed(value) if value else value
    if isinstance(value, list):
        return [_texts_hashed(one) for one in value]
    if isinstance(value, dict):
        return {key: _texts_hashed(one) for key, one in value.items()}
    return value
