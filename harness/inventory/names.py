"""Names taken apart into words, so that a rename can be told from a removal."""

from __future__ import annotations

import re

_BORDER = re.compile(r"[^\w]+|_+|(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def words(name: str) -> tuple[str, ...]:
    """The lower-case words of a name in any of the usual spellings: `whoAmI`, `who_am_i`, `Who-am-I`."""
    return tuple(word.lower() for word in _BORDER.split(name) if word)


def stems(name: str) -> tuple[str, ...]:
    """Words with a plural `s` taken off."""
    return tuple(re.sub(r"(?<=[a-z]{2})ies$", "y", word) if word.endswith("ies") else re.sub(r"(?<=[a-rt-z])s$", "", word) for word in words(name))


def overlap(one: str, other: str) -> float:
    """Shared stems over all stems, 0 to 1."""
    left, right = set(stems(one)), set(stems(other))
    return len(left & right) / len(left | right) if left | right else 0.0
