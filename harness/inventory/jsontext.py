"""Strict JSON: duplicate keys, NaN and unbounded input are refused, so that a hash never speaks of something else than was read."""

from __future__ import annotations

import json
from typing import Any

from harness.errors import LoadError

MAX_BYTES = 8 * 1024 * 1024
MAX_DEPTH = 128


class _DuplicateKey(ValueError):
    pass


class _Constant(ValueError):
    pass


def parse_json(text: str | bytes, *, where: str = "", max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH) -> Any:
    """The JSON value of `text` (UTF-8 when bytes). Raises LoadError with a position where the parser knows one.

    An exponent that overflows becomes infinity here and is refused, with its pointer, when it is to be hashed.
    """
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > max_bytes:
        raise LoadError(f"JSON of {size} bytes is larger than {max_bytes} bytes", where=where, fix="send less, or split it into pages")
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
        value = json.loads(decoded, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise LoadError(f"not UTF-8 at byte {error.start}", where=where, fix="send UTF-8") from error
    except json.JSONDecodeError as error:
        place = f"{where}:{error.lineno}:{error.colno}" if where else ""
        raise LoadError(f"not JSON: {error.msg}", where=place, fix="send one JSON value", excerpt=_excerpt(decoded, error.pos)) from error
    except (_DuplicateKey, _Constant) as error:
        raise LoadError(str(error), where=where, fix="remove it: readers disagree on what it means") from error
    except ValueError as error:  # an integer with more digits than the interpreter converts
        raise LoadError(f"not usable JSON: {error}", where=where, fix="use a number that JSON readers can carry") from error
    except RecursionError as error:
        raise LoadError(f"nested more than {max_depth} deep", where=where, fix="flatten it") from error
    if depth_over(value, max_depth):
        raise LoadError(f"nested more than {max_depth} deep", where=where, fix="flatten it")
    return value


def depth_over(value: Any, limit: int) -> bool:
    """Whether containers nest more than `limit` deep. Iterative: hostile input must not choose our stack depth."""
    level = [value]
    for _ in range(limit):
        level = [child for node in level if isinstance(node, (dict, list)) for child in (node.values() if isinstance(node, dict) else node)]
        if not level:
            return False
    return any(isinstance(node, (dict, list)) for node in level)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKey(f"key {key!r} stands twice in one object")
            seen.add(key)
    return found


def _refuse_constant(word: str) -> Any:
    raise _Constant(f"{word} is not JSON")


def _excerpt(text: str, position: int) -> str:
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    return line if len(line) <= 120 else line[:117] + "..."
