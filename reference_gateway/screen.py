"""Does a result look as if it were meant to instruct the agent that reads it? Such a result is flagged, never blocked.

Blocking would make a good recall look like a failed one, since anybody may store such a sentence. The flags are hints for whoever reads
the audit or the result; that none is raised proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_VERB = r"(?:ignore|disregard|forget|override)"
_OLD = r"(?:previous|prior|above|earlier|preceding|all)"
_RULES = r"(?:instructions?|rules|directions|prompts?|guidelines)"

_SECRET = r"(?:secrets?|credentials?|passwords?|api[ _-]?keys?|tokens?|private\s{1,5}keys?)"
_GAP = r"[^.\n]{0,40}"
"""Bounded, so that the time taken grows no faster than the text."""

_PATTERNS: Mapping[str, re.Pattern[str]] = {
    "ignores_instructions": re.compile(rf"\b{_VERB}\b{_GAP}\b{_OLD}\b{_GAP}\b{_RULES}\b"),
    "reveals_prompt": re.compile(
        rf"\b(?:reveal|print|show|repeat|output)\b{_GAP}\b(?:system|developer|hidden)\s{{1,5}}(?:prompt|message|instructions?)\b"
    ),
    "new_instructions": re.compile(
        r"\b(?:new|updated|revised)\s{1,5}(?:system|developer)\s{1,5}(?:instructions?|prompt|message)\b|<\s?/?\s?system\s?>"
    ),
    "exfiltrates": re.compile(rf"\b(?:exfiltrate|leak|steal|send|upload|forward)\b{_GAP}\b{_SECRET}\b"),
}
_HINTS = (
    "instruction", "rules", "direction", "prompt", "guideline", "message", "system", "developer",
    "secret", "credential", "password", "key", "token",
)  # fmt: skip
"""Every pattern needs one of these words, and most texts hold none: that is found out fast."""

_UNSEEN = "".join(map(chr, [0x00AD, 0x180E, *range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF]))
_REMOVED = str.maketrans("", "", _UNSEEN)
# Overrides of reading direction, and the tag characters that mirror ASCII without being shown.
_HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")


def suspicions(result: Any) -> tuple[str, ...]:
    """Flags in a fixed order, of any text that the result holds; never raises."""
    found: set[str] = set()
    for text in _texts(result):
        if not text.isascii():
            if _HIDDEN.search(text):
                found.add("hidden_text")
            text = text.translate(_REMOVED)
        lower = text.lower()
        if not any(word in lower for word in _HINTS):
            continue
        found.update(name for name, pattern in _PATTERNS.items() if name not in found and pattern.search(lower))
    return tuple(name for name in (*_PATTERNS, "hidden_text") if name in found)


def _texts(value: Any) -> Iterator[str]:
    """Iterative: results may be nested deeply."""
    waiting = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            yield here
        elif isinstance(here, dict):
            waiting.extend(here)
            # Binary content is no text, however it reads.
            waiting.extend(item for key, item in here.items() if not (key in ("data", "blob") and isinstance(item, str)))
        elif isinstance(here, list):
            waiting.extend(here)
