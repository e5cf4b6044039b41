"""Hashes of a tool's parts. Recipe `input-schema/jcs-sha256/1`: SHA-256 of the RFC 8785 text of `inputSchema`, nothing else.

A hash identifies a schema, never a tool: key by provider and tool name.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import rfc8785

from harness.errors import Incomplete
from harness.inventory.jsontext import parse_json
from harness.inventory.shape import prose_parts, seal_defaults, shape
from harness.inventory.walk import escape
from harness.model.inventory import RECIPE, Components
from harness.model.tool import Tool

__all__ = [
    "RECIPE",
    "NotCanonical",
    "canonical_bytes",
    "component_hashes",
    "exact_bytes",
    "json_equal",
    "json_hash",
    "parse_json",
    "prose",
    "schema_hash",
    "seal_defaults",
    "shape",
    "shape_hash",
    "text_hash",
]

_SAFE_INTEGER = 2**53 - 1


class NotCanonical(Incomplete):
    """A value has no RFC 8785 text: `pointer` says where, `reason` why. Not drift; we cannot tell."""

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(
            f"not canonicalisable at {pointer or '/'}: {reason}",
            where=pointer,
            fix="use numbers that a double can carry and text without lone surrogates",
        )
        self.pointer = pointer
        self.reason = reason


def canonical_bytes(value: Any) -> bytes:
    """RFC 8785 text as UTF-8; integers beyond 2^53 as the double that JavaScript would print. Raises NotCanonical."""
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        pass  # legal JSON that the library refuses on principle; JavaScript would round it, and so does the recipe
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise _locate(value, error) from error
    try:
        return rfc8785.dumps(_as_doubles(value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError, OverflowError) as error:
        raise _locate(value, error) from error


def exact_bytes(value: Any) -> bytes:
    """As `canonical_bytes`, but integers that a double cannot carry keep every digit: for comparing, never for a hash. Raises NotCanonical."""
    try:
        return rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        return canonical_bytes(_digit_for_digit(value))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError) as error:
        raise _locate(value, error) from error


def json_hash(value: Any) -> str:
    """Lower-case hex SHA-256 of the canonical text. Raises NotCanonical."""
    return hashlib.sha256(canonical_bytes(value)).hexdigest()


def text_hash(value: Any) -> str:
    """SHA-256 of a text's UTF-8 bytes; of the canonical JSON when the value is no text. Raises NotCanonical."""
    if not isinstance(value, str):
        return json_hash(value)
    try:
        return hashlib.sha256(value.encode("utf-8")).hexdigest()
    except UnicodeEncodeError as error:
        raise NotCanonical("", "lone surrogate") from error


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: 1 equals 1.0 but not true, integers digit for digit. Values without canonical text are equal only to their twins."""
    try:
        return exact_bytes(left) == exact_bytes(right)
    except NotCanonical:
        return repr(left) == repr(right)


def schema_hash(input_schema: Any) -> str:
    """The published hash. An absent or non-object schema hashes as `{}`. Raises NotCanonical."""
    return json_hash(input_schema if isinstance(input_schema, Mapping) else {})


def shape_hash(schema: Any) -> str:
    """Hash of the prose-free shape, string defaults in clear. Raises NotCanonical."""
    return json_hash(shape(schema))


def prose(schema: Any) -> dict[str, str]:
    """JSON pointer → SHA-256 of what `shape` removed there. Raises NotCanonical with the pointer."""
    return {pointer: _hash_at(pointer, value) for pointer, value in prose_parts(schema)}


def component_hashes(tool: Tool) -> Components:
    """Hashes of the parts that a gateway may rename, reorder or decorate; None where the tool has no such part."""
    parts = {
        "output_schema": tool.wire.get("outputSchema"),
        "annotations": tool.wire.get("annotations"),
        "title": tool.wire.get("title"),
        "description": tool.wire.get("description"),
    }
    return Components(**{name: None if value is None else _hash_at(f"/{name}", value) for name, value in parts.items()})


def _hash_at(pointer: str, value: Any) -> str:
    try:
        return text_hash(value)
    except NotCanonical as error:
        raise NotCanonical(pointer + error.pointer, error.reason) from error


def _as_doubles(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE_INTEGER:
        return float(value)
    if isinstance(value, Mapping):
        return {key: _as_doubles(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_doubles(child) for child in value]
    return value


def _digit_for_digit(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _SAFE_INTEGER:
        try:
            near = float(value)
        except OverflowError:
            return {"\0integer": f"{value:x}"}
        return near if int(near) == value else {"\0integer": f"{value:x}"}  # 10**21 is 1e21
    if isinstance(value, Mapping):
        return {key: _digit_for_digit(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_digit_for_digit(child) for child in value]
    return value


def _locate(value: Any, error: Exception) -> NotCanonical:
    """Walk once more to name the place; only after a failure, so the good path pays nothing."""
    if isinstance(error, RecursionError):
        return NotCanonical("", "nested too deep")
    stack: list[tuple[str, Any]] = [("", value)]
    while stack:
        pointer, node = stack.pop()
        if reason := _scalar_problem(node):
            return NotCanonical(pointer, reason)
        if isinstance(node, Mapping):
            for key, child in node.items():
                if not isinstance(key, str) or _scalar_problem(key):
                    return NotCanonical(pointer, f"key {key!r} is no well-formed text")
                stack.append((f"{pointer}/{escape(key)}", child))
        elif isinstance(node, (list, tuple)):
            stack.extend((f"{pointer}/{index}", child) for index, child in enumerate(node))
    return NotCanonical("", str(error))


def _scalar_problem(node: Any) -> str:
    if isinstance(node, str):
        return "lone surrogate" if any("\ud800" <= char <= "\udfff" for char in node) else ""
    if isinstance(node, bool) or node is None or isinstance(node, (Mapping, list, tuple)):
        return ""
    if isinstance(node, float):
        return "" if math.isfinite(node) else "a number that a double cannot carry"
    if isinstance(node, int):
        try:
            float(node)
        except OverflowError:
            return "an integer that a double cannot carry"
        return ""
    return f"{type(node).__name__} is no JSON value"
