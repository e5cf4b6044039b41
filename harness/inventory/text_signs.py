"""Signs that a text a model reads was written for the model and not for its user: hidden characters, bidi controls, instructions.

A sign is a reason to read the text, not a verdict: many honest tools say "always call this first".
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Kind = Literal["hidden", "bidirectional", "instruction"]
MAX_TEXT = 50_000
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_JOINERS = frozenset("\u200c\u200d")
_SEND = r"\b(?:send|post|upload|forward|exfiltrate|copy|include|append)\b[^.\n]{0,80}\b"
_READ = r"\b(?:read|open|cat|include|pass|send|load)\b[^.\n]{0,60}"
_BEFORE = r"(?:previous|prior|above|earlier|other|system|all) (?:\w+ )?(?:instruction|prompt|rule|message|direction|tool)"
_TELL = r"(?:tell|telling|inform|informing|mention|mentioning|reveal|notify|notifying|show|ask|asking)"
_INSTRUCTIONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.IGNORECASE))
    for name, pattern in (
        ("to ignore what was said before", r"\b(?:ignore|disregard|forget|override) (?:\w+ ){0,3}" + _BEFORE),
        (
            "to keep something from the user",
            r"\b(?:do not|don't|never|without) (?:\w+ ){0,2}" + _TELL + r" (?:\w+ ){0,3}(?:user|human|anyone|permission|confirmation)",
        ),
        (
            "to call something before or instead of another tool",
            r"\b(?:before|instead of) (?:using|calling|running|invoking) (?:\w+ ){0,3}(?:tool|function)s?\b",
        ),
        (
            "that it must always be called",
            r"\b(?:must|always) (?:\w+ ){0,2}(?:call|use|invoke|run) this (?:tool|function)"
            r"|\bthis (?:tool|function) (?:must|should) (?:always )?be (?:called|used|invoked)",
        ),
        (
            "in markup meant for a model",
            r"<\s*/?\s*(?:important|system|instructions?|secret|critical|admin)\s*>|\[\s*(?:INST|SYSTEM)\s*\]",
        ),
        (
            "to send something elsewhere",
            _SEND + r"(?:https?://|to the (?:url|endpoint|server) |webhook|conversation history|chat history|system prompt)",
        ),
        (
            "to read keys or private files",
            _READ + r"(?:~/\.|\.ssh|id_rsa|\.env\b|/etc/passwd|private key|credentials file|mcp\.json)",
        ),
        ("in the voice of a system prompt", r"\byou are now\b|\bnew instructions?:|\bsystem prompt\b|\bas an ai\b|\bact as (?:a|an|the) "),
    )
)


@dataclass(frozen=True, slots=True)
class Sign:
    """`what` completes a sentence; `where` is the offset of its first character. No text of the vendor's is repeated, only code points."""

    kind: Kind
    what: str
    where: int


def signs(text: str) -> tuple[Sign, ...]:
    """At most one sign of each kind and sort."""
    text = text[:MAX_TEXT]
    return (*_characters(text), *_instructions(text))


def _characters(text: str) -> Iterator[Sign]:
    seen: set[str] = set()
    for index, char in enumerate(text):
        if char.isascii() and (char.isprintable() or char in "\n\r\t"):
            continue
        kind: Kind | None = "bidirectional" if char in _BIDI else "hidden" if _hidden(text, index) else None
        if kind is not None and kind not in seen:
            seen.add(kind)
            yield Sign(kind, f"holds U+{ord(char):04X} {unicodedata.name(char, 'without a name')}", index)


def _hidden(text: str, index: int) -> bool:
    """A character that shows nothing: controls, format characters, tags, private use, fillers. Joiners inside emoji or script are honest."""
    char = text[index]
    point = ord(char)
    if char in _JOINERS:
        around = text[max(0, index - 2) : index] + text[index + 1 : index + 3]
        return not any(ord(near) > 0x2FF for near in around if near not in _JOINERS)
    if 0xFE00 <= point <= 0xFE0F:  # chooses the look of the emoji before it
        return index == 0 or (ord(text[index - 1]) < 0x80 and text[index - 1] not in "#*0123456789")
    if 0xE0100 <= point <= 0xE01EF or point in (0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800):
        return True
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs")


def _instructions(text: str) -> Iterator[Sign]:
    for what, pattern in _INSTRUCTIONS:
        found = pattern.search(text)
        if found is not None:
            yield Sign("instruction", f"speaks to the model: {what}", found.start())
