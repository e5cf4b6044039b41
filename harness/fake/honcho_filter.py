"""Honcho's filter objects, as much as the stand-in understands.

A filter is an object whose keys must all hold: a field with a value, a field with operators (`{"gte": …}`), a metadata
object, or `AND` / `OR` / `NOT` with a list of filters. What is not understood is refused, never ignored: an ignored
filter would answer with items that the caller had excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

Fields = Mapping[str, Any]


class FilterError(ValueError):
    """A filter that the stand-in does not understand; the text says which part."""


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Values of different kinds are not in order, so they do not match (rather than fail)."""

    def safe(have: Any, want: Any) -> bool:
        numbers = isinstance(have, (int, float)) and isinstance(want, (int, float))
        return (numbers or (isinstance(have, str) and isinstance(want, str))) and compare(have, want)

    return safe


_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gte": _ordered(lambda have, want: bool(have >= want)),
    "lte": _ordered(lambda have, want: bool(have <= want)),
    "gt": _ordered(lambda have, want: bool(have > want)),
    "lt": _ordered(lambda have, want: bool(have < want)),
    "ne": lambda have, want: bool(have != want),
    "in": lambda have, want: isinstance(want, list) and have in want,
    "contains": lambda have, want: isinstance(have, str) and isinstance(want, str) and want in have,
    "icontains": lambda have, want: isinstance(have, str) and isinstance(want, str) and want.lower() in have.lower(),
}


def matches(fields: Fields, condition: Mapping[str, Any]) -> bool:
    """Whether an item with these fields passes. Raises FilterError for an unknown field or operator."""
    # Every part is evaluated, so that a bad part is refused even where an earlier one already decides.
    parts = [_part(fields, key, wanted) for key, wanted in condition.items()]
    return all(parts)


def _part(fields: Fields, key: str, wanted: Any) -> bool:
    if key in ("AND", "OR", "NOT"):
        if not isinstance(wanted, list) or not all(isinstance(part, dict) for part in wanted):
            raise FilterError(f"{key} needs a list of filters")
        parts = [matches(fields, part) for part in wanted]
        return {"AND": all(parts), "OR": any(parts), "NOT": not any(parts)}[key]
    if key not in fields:
        raise FilterError(f"unknown field {key!r}")
    if key == "metadata":
        if not isinstance(wanted, dict):
            raise FilterError("metadata needs an object")
        values = [_value((fields["metadata"] or {}).get(name), value) for name, value in wanted.items()]
        return all(values)
    return _value(fields[key], wanted)


def _value(have: Any, wanted: Any) -> bool:
    if wanted == "*":
        return True
    if not isinstance(wanted, dict):
        return bool(have == wanted)
    unknown = [name for name in wanted if name not in _OPERATORS]
    if unknown:
        raise FilterError(f"unknown operator {unknown[0]!r}")
    return all(_OPERATORS[name](have, value) for name, value in wanted.items())


def check(condition: Mapping[str, Any], fields: Iterable[str]) -> None:
    """Raises FilterError unless the filter can be put to items with these fields; needed where there may be no item."""
    matches(dict.fromkeys(fields), condition)
