"""Canonical JSON text and its SHA-256, exact for numbers.

Recipe (operator/v1, Approvals): RFC 8785, except that integers are written digit for digit whatever their size, so that
two calls which differ in the last digit of a 20-digit id never share a digest.
"""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from typing import Any

_MAX_INT_DIGITS = 4300  # CPython's own limit for int(str); longer literals are kept as Decimal, digit for digit

_encode_string = json.JSONEncoder(ensure_ascii=False).encode  # RFC 8785 escapes exactly what this escapes, in the same spelling


class NotCanonical(ValueError):
    """The value has no canonical text: a number that a double cannot carry, a lone surrogate, a key that is no string."""


def loads_exact(text: str | bytes | bytearray, *, unique: bool = False) -> Any:
    """Parse JSON keeping every integer exact. Raises ValueError (NaN, Infinity, bad text, nesting too deep for the parser).

    `unique`: also for an object that names a member twice. What is said twice has no one reading, so it proves nothing.
    """
    pairs = _members if unique else None
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=pairs)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except json.JSONDecodeError:
        raise
    except ValueError as problem:
        if "integer string conversion" not in str(problem):
            raise
        return json.loads(text, parse_constant=_refuse_constant, parse_int=_wide_int, object_pairs_hook=pairs)


def canonical_text(value: Any) -> str:
    """The canonical JSON text of a JSON value. Raises NotCanonical."""
    parts: list[str] = []
    try:
        _write(value, parts)
        text = "".join(parts)
        text.encode()  # a lone surrogate has no UTF-8, so no digest
    except RecursionError:
        raise NotCanonical("nested too deeply") from None
    except UnicodeEncodeError:
        raise NotCanonical("a string holds a lone surrogate") from None
    return text


def text_digest(text: str) -> str:
    """Lower-case hex SHA-256 of the text's UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def json_digest(value: Any) -> str:
    """Lower-case hex SHA-256 of the canonical text. Raises NotCanonical."""
    return text_digest(canonical_text(value))


def arguments_digest(arguments: dict[str, Any] | None) -> str:
    """The digest that approvals and the witness share; absent arguments are the empty object. Raises NotCanonical."""
    return json_digest({} if arguments is None else arguments)


def _write(value: Any, out: list[str]) -> None:
    if value is None:
        out.append("null")
    elif value is True:
        out.append("true")
    elif value is False:
        out.append("false")
    elif isinstance(value, str):
        out.append(_encode_string(value))
    elif isinstance(value, int):
        out.append(_int_text(value))
    elif isinstance(value, float):
        out.append(_float_text(value))
    elif isinstance(value, Decimal):
        out.append(_decimal_text(value))
    elif isinstance(value, dict):
        _write_object(value, out)
    elif isinstance(value, (list, tuple)):
        separator = "["
        for item in value:
            out.append(separator)
            _write(item, out)
            separator = ","
        out.append("]" if separator == "," else "[]")
    else:
        raise NotCanonical(f"{type(value).__name__} is not JSON")


def _write_object(value: dict[Any, Any], out: list[str]) -> None:
    if not all(isinstance(key, str) for key in value):
        raise NotCanonical("an object key is not a string")
    separator = "{"
    for key in sorted(value, key=_utf16_order):
        out.append(separator)
        out.append(_encode_string(key))
        out.append(":")
        _write(value[key], out)
        separator = ","
    out.append("}" if separator == "," else "{}")


def _utf16_order(key: str) -> bytes:
    # RFC 8785 sorts by UTF-16 code unit, which differs from code point order beyond the basic plane.
    return key.encode("utf-16-be", "surrogatepass")


def _int_text(value: int) -> str:
    try:
        return int.__repr__(value)
    except ValueError:
        return str(Decimal(value))  # beyond CPython's digit limit


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite() or value != value.to_integral_value():
        raise NotCanonical("a decimal that is not an integer")
    return format(value, "f")


def _float_text(value: float) -> str:
    """ECMAScript's Number::toString: shortest digits that round-trip, plain between 1e-7 and 1e21."""
    if not math.isfinite(value):
        raise NotCanonical("a number that a double cannot carry")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))  # where the decimal point stands in `digits`
    digits = digits.rstrip("0")
    count = len(digits)
    if count <= point <= 21:
        return f"{sign}{digits}{'0' * (point - count)}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    head = digits if count == 1 else f"{digits[0]}.{digits[1:]}"
    return f"{sign}{head}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def _wide_int(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MAX_INT_DIGITS else Decimal(text)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object names a member twice")
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
