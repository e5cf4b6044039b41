"""Canonical JSON (RFC 8785) and the three hashes that rest on it: of a schema, of arguments, of an audit record.

They differ only in how far a number may go, and in whether refusing is allowed:

* a schema is somebody else's text: its hash is total, and prints what JavaScript would print for the same text;
* arguments are what a person approves: integers digit for digit, and what a double cannot carry is refused;
* an audit record is ours: strict RFC 8785.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Mapping
from json.encoder import encode_basestring
from typing import Any

import rfc8785

from reference_gateway.errors import GatewayError
from reference_gateway.packing import sorted_keys

MAX_DEPTH = 256
"""Levels of nesting. Far beyond any real call, far below Python's own recursion limit."""

_SAFE = 2**53 - 1
_LONE = re.compile("[\ud800-\udfff]")


class NotCarried(GatewayError):
    """A value that canonical JSON cannot carry exactly: an infinite number, a lone surrogate, nesting without end."""

    http_status = 422

    def __init__(self, message: str) -> None:
        super().__init__("invalid_arguments", message, fix="send finite numbers and well-formed text")


def schema_hash(input_schema: object) -> str:
    """SHA-256 hex of a tool's input schema; anything that is not an object counts as `{}`.

    Raises NotCarried only for nesting deeper than MAX_DEPTH.
    """
    schema = input_schema if isinstance(input_schema, Mapping) else {}
    return _sha256(_text(schema, _javascript_int, _javascript_float, _javascript_string))


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """SHA-256 hex of validated arguments, integers digit for digit whatever their size.

    Raises NotCarried for an overflowed number, NaN, a lone surrogate or too deep nesting.
    """
    if (quick := _quick(arguments)) is not None:
        return hashlib.sha256(quick).hexdigest()
    return _sha256(_text(arguments, _exact_int, _finite_float, _whole_string))


def canonical_bytes(value: object) -> bytes:
    """Strict RFC 8785 text of `value`. Raises NotCarried for what has no such text."""
    if (quick := _quick(value)) is not None:
        return quick
    return _text(value, _safe_int, _finite_float, _whole_string).encode()


def _quick(value: object) -> bytes | None:
    """The text as a much faster writer is bound to print it too; None for a value with which one has to be careful."""
    if not _ordinary(value, 8):
        return None
    try:
        return sorted_keys(value)
    except TypeError:  # half a surrogate pair: the careful writer says so
        return None


def _ordinary(value: object, depth: int) -> bool:
    """Whether every writer of compact JSON prints the very same text: no floats, no large integers, ASCII keys."""
    members: Iterable[Any]
    if type(value) is dict:
        members = value.values()
        try:
            if not "".join(value).isascii():
                return False
        except TypeError:
            return False
    elif type(value) is list:
        members = value
    else:
        return False
    for item in members:
        kind = type(item)
        if kind is str or item is None or kind is bool or (kind is int and -_SAFE <= item <= _SAFE):
            continue
        if not depth or not _ordinary(item, depth - 1):
            return False
    return True


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _text(value: object, ints: Callable[[int], str], floats: Callable[[float], str], strings: Callable[[str], str]) -> str:
    out: list[str] = []

    def write(item: object, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise NotCarried(f"nested deeper than {MAX_DEPTH} levels")
        if isinstance(item, str):
            out.append(strings(item))
        elif item is None:
            out.append("null")
        elif isinstance(item, bool):
            out.append("true" if item else "false")
        elif isinstance(item, int):
            out.append(ints(item))
        elif isinstance(item, float):
            out.append(floats(item))
        elif isinstance(item, Mapping):
            write_object(item, depth)
        elif isinstance(item, (list, tuple)):
            mark = "["
            for member in item:
                out.append(mark)
                write(member, depth + 1)
                mark = ","
            out.append("]" if item else "[]")
        else:
            raise NotCarried(f"{type(item).__name__} is not a JSON value")

    def write_object(item: Mapping[Any, Any], depth: int) -> None:
        mark = "{"
        for key in sorted(item, key=_utf16_units):
            out.append(mark + strings(key) + ":")
            write(item[key], depth + 1)
            mark = ","
        out.append("}" if item else "{}")

    write(value, 0)
    return "".join(out)


def _utf16_units(key: object) -> bytes:
    if not isinstance(key, str):
        raise NotCarried("object keys must be text")
    return key.encode("utf-16-be", "surrogatepass")


def _exact_int(number: int) -> str:
    try:
        return str(int(number))
    except ValueError as error:  # the interpreter's own bound on digits, which a JSON reader hits first
        raise NotCarried("an integer has too many digits") from error


def _safe_int(number: int) -> str:
    if abs(number) > _SAFE:
        raise NotCarried("an integer lies beyond what RFC 8785 carries (2^53)")
    return str(int(number))


def _javascript_int(number: int) -> str:
    if abs(number) <= _SAFE:
        return str(int(number))
    try:
        return _javascript_float(float(number))
    except OverflowError:
        return "null"


def _finite_float(number: float) -> str:
    if not math.isfinite(number):
        raise NotCarried("a number is too large for a double, or not a number")
    return rfc8785.dumps(number).decode()


def _javascript_float(number: float) -> str:
    # JSON.stringify writes null for the infinities that JSON.parse makes of an overflowing literal.
    return rfc8785.dumps(number).decode() if math.isfinite(number) else "null"


def _whole_string(text: str) -> str:
    if _LONE.search(text):
        raise NotCarried("text holds half a surrogate pair")
    return encode_basestring(text)


def _javascript_string(text: str) -> str:
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", encode_basestring(text))
