"""Two validators that share nothing: jsonschema-rs, and jsonschema with RE2 for patterns. A witness counts when both agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import jsonschema
import jsonschema_rs
from jsonschema.exceptions import ValidationError
from referencing import Registry

from harness.drift.document import Schema
from harness.drift.linear import matcher
from harness.drift.regex import NotRegular

Check = Callable[[Any], bool]
_EMPTY: Registry[Any] = Registry()


def _pattern(_validator: Any, pattern: str, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not matcher(pattern)(instance):
        yield ValidationError(f"does not match {pattern!r}")


def _names(instance: dict[str, Any], pattern: str) -> Iterator[str]:
    matches = matcher(pattern)
    return (name for name in instance if matches(name))


def _pattern_properties(validator: Any, patterns: dict[str, Any], instance: Any, _schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        for pattern, schema in patterns.items():
            for name in _names(instance, pattern):
                yield from validator.descend(instance[name], schema, path=name, schema_path=pattern)


def _additional(validator: Any, extra: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(instance, dict):
        known = set(schema.get("properties", {})).union(*(_names(instance, pattern) for pattern in schema.get("patternProperties", {})))
        for name in instance.keys() - known:
            yield from validator.descend(instance[name], extra, path=name)


def _multiple_of(_validator: Any, divisor: Any, instance: Any, _schema: Any) -> Iterator[ValidationError]:
    """By the decimal text of both numbers, since 0.3 is a multiple of 0.1 on the wire, whatever doubles make of it."""
    if not isinstance(instance, (int, float)) or isinstance(instance, bool):
        return
    if not math.isfinite(instance) or Fraction(str(instance)) % Fraction(str(divisor)):
        yield ValidationError(f"no multiple of {divisor}")


_SECOND = jsonschema.validators.extend(  # type: ignore[no-untyped-call]  # the stubs leave it bare
    jsonschema.Draft202012Validator,
    {"pattern": _pattern, "patternProperties": _pattern_properties, "additionalProperties": _additional, "multipleOf": _multiple_of},
)


def first_opinion(schema: Schema, *, formats: bool = False) -> Check:
    """jsonschema-rs. Raises ValueError for what is no schema."""
    return jsonschema_rs.Draft202012Validator(schema, validate_formats=formats, offline=True).is_valid


def second_opinion(schema: Schema) -> Check:
    """jsonschema, formats not asserted. Its answers raise RecursionError or NotRegular where it cannot tell."""
    found = _SECOND(schema, registry=_EMPTY)
    return lambda value: bool(found.is_valid(value))


class Judges:
    """Both opinions on one schema."""

    def __init__(self, schema: Schema) -> None:
        self.quick = first_opinion(schema)
        self._slow = second_opinion(schema)

    def agree(self, value: Any, valid: bool) -> bool:
        """Whether both say that `value` is valid, or that it is not. One that cannot tell does not agree."""
        try:
            return self.quick(value) is valid and self._slow(value) is valid
        except (NotRegular, RecursionError, ValueError, jsonschema.exceptions.SchemaError):
            return False
