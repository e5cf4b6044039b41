"""How a text differs from what was written: named, placed and shown in escaped form."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

WINDOW = 12


@dataclass(frozen=True, slots=True)
class Difference:
    """`kind`: truncated, trimmed, line-endings, normalised, re-encoded, characters-dropped or different. Lengths in code points."""

    kind: str
    position: int
    sent: int
    got: int
    window: str

    def __str__(self) -> str:
        return f"{self.kind} at code point {self.position} (sent {self.sent} code points, got {self.got}): {self.window}"


def difference(sent: str, got: str) -> Difference | None:
    """None when equal, code point for code point."""
    if sent == got:
        return None
    position = next((i for i, (a, b) in enumerate(zip(sent, got, strict=False)) if a != b), min(len(sent), len(got)))
    return Difference(_kind(sent, got), position, len(sent), len(got), _window(sent, got, position))


def _kind(sent: str, got: str) -> str:
    if sent.rstrip() == got and sent != got:
        return "trimmed"
    if sent.replace("\r\n", "\n") == got:
        return "line-endings"
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        if unicodedata.normalize(form, sent) == got:
            return "normalised"
    cut = got.rstrip("\ufffd")
    if cut and len(cut) < len(sent) and sent.startswith(_without_half(cut)):
        return "truncated"
    if any(_mojibake(sent, codec) == got for codec in ("latin-1", "cp1252")) or "\ufffd" in got:
        return "re-encoded"
    if len(got) < len(sent) and _subsequence(got, sent):
        return "characters-dropped"
    return "different"


def _without_half(text: str) -> str:
    """Without a trailing lone surrogate: a cut in UTF-16 units may split a pair."""
    return text[:-1] if text and "\ud800" <= text[-1] <= "\udfff" else text


def _mojibake(text: str, codec: str) -> str | None:
    try:
        return text.encode("utf-8").decode(codec)
    except UnicodeDecodeError:
        return None


def _subsequence(short: str, long: str) -> bool:
    rest = iter(long)
    return all(character in rest for character in short)


def _window(sent: str, got: str, position: int) -> str:
    start = max(0, position - WINDOW)
    return f"sent ...{escaped(sent[start : position + WINDOW])}... got ...{escaped(got[start : position + WINDOW])}..."


def escaped(text: str) -> str:
    """ASCII only, so that invisible characters, bidi marks and lone surrogates can be seen and stored."""
    return text.encode("ascii", "backslashreplace").decode("ascii").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
