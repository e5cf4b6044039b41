"""Known secrets never reach a file: each is replaced by a marker, in every spelling we look for, before anything is written."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.model.secret import marker

SHORTEST = 6
"""A secret shorter than this would turn ordinary text into markers; such a one is refused."""

GRAM = 6
_RUN = re.compile(rf"[A-Za-z0-9]{{{GRAM},}}")
_JSON_LETTERS = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


def spellings(secret: str) -> Iterator[str]:
    """What a secret may be written as before any escaping: itself, backwards, hex, base64 and base64url at each offset."""
    raw = secret.encode()
    yield secret
    yield secret[::-1]
    yield raw.hex()
    yield raw.hex().upper()
    for offset in range(3):
        yield from (core for core in _inner_base64(raw, offset) if len(core) >= SHORTEST)


def as_text(secret: str) -> str:
    """A pattern of it: each character as it is, JSON-escaped however often, percent- or form-encoded, an HTML entity, in any mixture."""
    return "".join(map(_character, secret))


def _character(character: str) -> str:
    if character.isascii() and character.isalnum():
        return character  # nobody escapes these
    code, plain = ord(character), re.escape(character)
    found = ["".join(f"%(?:25)*{byte:02x}" for byte in character.encode()), _json(character), rf"&(?:amp;)*#0*{code};", rf"&(?:amp;)*#x0*{code:x};"]
    if (entity := html.escape(character)) != character:
        found.append("&(?:amp;)*" + re.escape(entity.removeprefix("&").removeprefix("amp;")))
    if character in _JSON_LETTERS:
        found.append(rf"\\+{_JSON_LETTERS[character]}")
    if character == " ":
        found.append(r"\+")
    raw = r"\\+" if character == "\\" else rf"\\*{plain}" if character in "\"'/" else plain
    return f"(?:{raw}|(?i:{'|'.join(found)}))"


def _json(character: str) -> str:
    """The \\u escapes of its UTF-16 units, the backslash doubled as often as JSON stands in JSON."""
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))


def _inner_base64(raw: bytes, offset: int) -> list[str]:
    """The characters of a base64 text that depend on the secret alone, when it begins `offset` bytes into a group."""
    padded = b"\0" * offset + raw
    whole = len(padded) // 3 * 4
    skip = 0 if offset == 0 else offset + 1
    return list(dict.fromkeys(encode(padded).decode()[skip:whole] for encode in (base64.b64encode, base64.urlsafe_b64encode)))


@dataclass(slots=True)
class _Spelling:
    """One pattern of one secret; compiled only once a text may hold it."""

    name: str
    length: int
    source: str
    compiled: re.Pattern[str] | None = None

    def replaced(self, text: str) -> str:
        if self.compiled is None:
            self.compiled = re.compile(self.source)
        return self.compiled.sub(lambda _: marker(self.name), text)


class Redactor:
    """Secrets by name. `clean` is a pure function of the secrets known so far.

    A long run knows hundreds of secrets, so a text is first looked through for six characters of each spelling that nobody escapes.
    """

    def __init__(self) -> None:
        self._known: set[str] = set()
        self._grams: dict[str, list[_Spelling]] = {}
        self._always: list[_Spelling] = []

    def know(self, secrets: Mapping[str, str]) -> None:
        """From now on these are replaced. Raises ValueError for one too short to be told from ordinary text."""
        for name, secret in secrets.items():
            if len(secret) < SHORTEST:
                raise ValueError(f"the secret {name!r} is shorter than {SHORTEST} characters")
            if secret in self._known:
                continue
            self._known.add(secret)
            for written in spellings(secret):
                spelling = _Spelling(name, len(secret), as_text(written))
                run = max(_RUN.findall(written), key=len, default="")
                if run:
                    self._grams.setdefault(run[-GRAM:], []).append(spelling)
                else:
                    self._always.append(spelling)

    def clean(self, text: str) -> str:
        found = {id(spelling): spelling for spelling in self._always}
        for token in set(_RUN.findall(text)):
            for at in range(len(token) - GRAM + 1):
                for spelling in self._grams.get(token[at : at + GRAM], ()):
                    found[id(spelling)] = spelling
        for spelling in sorted(found.values(), key=lambda s: (-s.length, s.name)):  # the longest wins where one secret holds another
            text = spelling.replaced(text)
        return text
