"""Compact JSON text, fast: what the gateway sends and stores.

orjson writes what it can write exactly. What it refuses (integers beyond 64 bits, halves of surrogate pairs, nesting beyond its own
bound) the standard library writes digit for digit and in pure ASCII, so that whatever came in goes out the same.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

_CAREFUL = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


def packed(value: Any) -> bytes:
    """`value` as one line of JSON without spaces, keys in their own order. Raises ValueError and RecursionError.

    Numbers that no double carries must have been refused before: what reads strangers' text does so (`wire.decode`, `arguments_digest`).
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return _CAREFUL.encode(value).encode("ascii")


def sorted_keys(value: Any) -> bytes:
    """As `packed`, the keys of every object in order of their characters. Raises TypeError for what orjson refuses."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
