"""Matching in linear time: RE2 on our own reading of a pattern, so that classes, dots and anchors mean what ECMA-262 says."""

from __future__ import annotations

import functools
from collections.abc import Callable

import re2  # type: ignore[import-untyped]  # the wheel ships no stubs

from harness.drift.regex import NotRegular, parse, re2_text

_MEMORY = 4 * 1024 * 1024


@functools.lru_cache(maxsize=512)
def matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a text holds a match. Raises NotRegular for what is not regular, or needs too much memory."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        found = re2.compile(re2_text(parse(pattern)), options)
    except re2.error as error:
        raise NotRegular(f"too expensive: {str(error)[:80]}") from error
    return lambda text: found.search(text) is not None
