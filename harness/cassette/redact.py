"""Known secrets never reach a file: each is replaced by a marker, in every spelling we look for, before anything is written."""

from __future__ import annotations

import base64
import binascii
import html
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from harness.model.secret import MARKER, marker

SHORTEST = 6
"""A secret shorter than this would turn ordinary text into markers; such a one is refused."""

GRAM = 6
_RUN = re.compile(rf"[A-Za-z0-9]{{{GRAM},}}")
_NUL = re.compile(r"\x00|\\u0000|%00|&#x?0+;")
_BREAK = r"[\\\r\n](?:(?<=\\)\\*(?:r\\+)?n|(?<=\r)\n?|(?<=\n))"
_SEAM = re.compile(rf"{_BREAK}(?:{_BREAK})*(?:[0-9A-Fa-f]{{1,8}}{_BREAK})?(?:data:)?[ \t]*")
"""Where a text may be torn in two: a line break (as it is, or escaped), a chunk's size line, the next `data:` line of an event, a folded header."""
_PACKED = re.compile(
    r"(?<![A-Za-z0-9+_-])(?:H4sI|eJ|eN|eA|eF)(?:[A-Za-z0-9+/_-]|\\/){14,}={0,2}"
    r"|(?:1[fF]8[bB]08|789[cC]|78[dD][aA]|7801)[0-9a-fA-F]{16,}"
)
_PACKED_BEGINS = ("H4sI", "eJ", "eN", "eA", "eF", "1f8b", "1F8B", "789c", "789C", "78da", "78DA", "7801")
_UNPACKED_BOUND = 8 * 1024 * 1024
_JSON_LETTERS = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}


def spellings(secret: str) -> Iterator[str]:
    """What a secret may be written as before any escaping: itself, backwards, hex, base64 and base64url at each offset; the same of its UTF-16."""
    yield secret
    yield secret[::-1]
    if not secret.isascii():  # bytes that are no UTF-8 are read one character a byte
        yield from (raw.decode("latin-1") for raw in (secret.encode(), secret.encode()[::-1]))
    for raw in (secret.encode(), secret.encode("utf-16-le")):
        yield raw.hex()
        yield raw.hex().upper()
        for offset in range(3):
            yield from (core for core in _inner_base64(raw, offset) if len(core) >= SHORTEST)


def wide(secret: str) -> Iterator[str]:
    """Its UTF-16 of either byte order, read as one character a byte; what is common to both where it is ASCII."""
    if secret.isascii():
        yield "\0".join(secret)
    else:
        yield from (secret.encode(form).decode("latin-1") for form in ("utf-16-le", "utf-16-be"))


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

    @property
    def pattern(self) -> re.Pattern[str]:
        if self.compiled is None:
            self.compiled = re.compile(self.source)
        return self.compiled

    def replaced(self, text: str) -> str:
        return self.pattern.sub(lambda _: marker(self.name), text)


class Redactor:
    """Secrets by name. `clean` is a pure function of the secrets known so far.

    A long run knows hundreds of secrets, so a text is first looked through for six characters of each spelling that nobody escapes.
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._grams: dict[str, list[_Spelling]] = {}
        self._always: list[_Spelling] = []
        self._wide: list[_Spelling] = []

    @property
    def known(self) -> Mapping[str, str]:
        """Secret → its name."""
        return dict(self._names)

    def know(self, secrets: Mapping[str, str]) -> None:
        """From now on these are replaced. Raises ValueError for one too short to be told from ordinary text."""
        for name, secret in secrets.items():
            if len(secret) < SHORTEST:
                raise ValueError(f"the secret {name!r} is shorter than {SHORTEST} characters")
            if secret in self._names:
                continue
            self._names[secret] = name
            self._wide += [_Spelling(name, len(written), as_text(written)) for written in wide(secret)]
            for written in spellings(secret):
                spelling = _Spelling(name, len(secret), as_text(written))
                run = max(_RUN.findall(written), key=len, default="")
                if run:
                    self._grams.setdefault(run[-GRAM:], []).append(spelling)
                else:
                    self._always.append(spelling)

    def clean(self, text: str) -> str:
        if not self._names:
            return text
        suspects = self._suspects(_RUN.findall(text), self._always)
        for spelling in suspects:  # the longest wins where one secret holds another
            text = spelling.replaced(text)
        if _NUL.search(text):
            for spelling in self._wide:
                text = spelling.replaced(text)
        if any(begin in text for begin in _PACKED_BEGINS):
            text = _PACKED.sub(self._unpacked, text)
        return self._mended(text, suspects)

    def _suspects(self, tokens: Iterable[str], more: Iterable[_Spelling] = ()) -> list[_Spelling]:
        """The spellings that one of these runs of letters and digits may belong to, longest first."""
        found = {id(spelling): spelling for spelling in more}
        for token in set(tokens):
            for at in range(len(token) - GRAM + 1):
                for spelling in self._grams.get(token[at : at + GRAM], ()):
                    found[id(spelling)] = spelling
        return sorted(found.values(), key=lambda s: (-s.length, s.name))

    def _unpacked(self, packed: re.Match[str]) -> str:
        """A compressed text that holds a secret is replaced as a whole."""
        inner = unpacked(packed.group())
        if inner is None:
            return packed.group()
        cleaned = self.clean(inner)
        return packed.group() if cleaned == inner else marker(_named(cleaned))

    def _mended(self, text: str, suspects: Iterable[_Spelling]) -> str:
        """Secrets that a line or chunk boundary tears in two. Found in the text without its seams, replaced with what stands between."""
        seams = list(_SEAM.finditer(text))
        across = (text[max(0, s.start() - GRAM + 1) : s.start()] + text[s.end() : s.end() + GRAM - 1] for s in seams)
        suspects = self._suspects((run for near in across for run in _RUN.findall(near)), suspects)
        if not seams or not suspects:
            return text
        ends, begins = [*(s.start() for s in seams), len(text)], [0, *(s.end() for s in seams)]
        pieces = [(begin, text[begin:end]) for begin, end in zip(begins, ends, strict=True)]
        joined = "".join(piece for _, piece in pieces)
        torn = [(m.start(), m.end(), s.name) for s in suspects for m in s.pattern.finditer(joined)]
        if not torn:
            return text
        starts, at = [], 0
        for start, piece in pieces:
            starts.append((at, start))
            at += len(piece)
        free = len(joined)
        for first, last, name in sorted(torn, key=lambda t: (-t[1], t[0])):
            if last > free:
                continue  # inside one that was replaced already
            free = first
            begin = max(start + first - offset for offset, start in starts if offset <= first)
            stop = max(start + last - 1 - offset for offset, start in starts if offset <= last - 1) + 1
            text = text[:begin] + marker(name) + text[stop:]
        return text


def unpacked(packed: str) -> str | None:
    """What gzip or zlib made into this base64 or hexadecimal, one character a byte; None when it is nothing of the kind."""
    try:
        raw = bytes.fromhex(packed) if packed[0] in "17" else base64.b64decode(_padded(packed.replace("\\/", "/")), altchars=None)
    except (ValueError, binascii.Error):
        return None
    return inflated(raw)


def inflated(raw: bytes) -> str | None:
    """gzip or zlib, by its header, as far as it goes and is bounded."""
    try:
        plain = zlib.decompressobj(47).decompress(raw, _UNPACKED_BOUND)
    except zlib.error:
        return None
    try:
        return plain.decode("utf-8")
    except UnicodeDecodeError:
        return plain.decode("latin-1")


def _padded(text: str) -> str:
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    return text[: len(text) - 1] if len(text) % 4 == 1 else text + "=" * (-len(text) % 4)


def _named(cleaned: str) -> str:
    start = cleaned.index(MARKER[0]) + len(MARKER[0])
    return cleaned[start : cleaned.index(MARKER[1], start)]
