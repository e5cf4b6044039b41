"""ECMA-262 patterns as JSON Schema means them, read into a small tree. Only what is regular is read.

Lookaround, back-references and word boundaries have no place in a finite automaton, and are what makes matching blow up:
they raise `NotRegular`. The tree serves three readers: automata (language.py), RE2 text for matching in linear time, and samples.
"""

from __future__ import annotations

import functools
import unicodedata
from dataclasses import dataclass
from itertools import groupby

Ranges = tuple[tuple[int, int], ...]
TOP = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)
_MAX_REPEAT = 1000
_MAX_PATTERN = 2000
_MAX_NESTING = 60


class NotRegular(ValueError):
    """This pattern is not read here; the message says why."""


@dataclass(frozen=True, slots=True)
class Chars:
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` None means without end."""

    body: Node
    least: int
    most: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """`^` when `start`, else `$`: the end of the text, never a place before a final newline."""

    start: bool


Node = Chars | Seq | Alt | Repeat | Anchor


def merged(ranges: Ranges | list[tuple[int, int]]) -> Ranges:
    """Sorted, disjoint, without surrogates (no JSON text that we judge holds one)."""
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(out[-1][1], high))
        else:
            out.append((low, high))
    return tuple(out)


def inverted(ranges: Ranges) -> Ranges:
    out, at = [], 0
    for low, high in merged([*ranges, _SURROGATES]):
        if at < low:
            out.append((at, low - 1))
        at = high + 1
    if at <= TOP:
        out.append((at, TOP))
    return tuple(out)


DIGIT: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_MORE_SPACE: Ranges = ((0x3000, 0x3000), (0xFEFF, 0xFEFF))
SPACE: Ranges = merged(
    [(9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), *_MORE_SPACE]
)
DOT: Ranges = inverted(((10, 10), (13, 13), (0x2028, 0x2029)))
ANY: Ranges = inverted(())
_CLASSES = {"d": DIGIT, "w": WORD, "s": SPACE, "D": inverted(DIGIT), "W": inverted(WORD), "S": inverted(SPACE)}
_CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11, "0": 0}


@functools.lru_cache(maxsize=1)
def _categories() -> tuple[tuple[str, int, int], ...]:
    """(category, first, last) of each run of characters alike."""
    out, at = [], 0
    for name, run in groupby(map(unicodedata.category, map(chr, range(TOP + 1)))):
        size = sum(1 for _ in run)
        out.append((name, at, at + size - 1))
        at += size
    return tuple(out)


@functools.lru_cache(maxsize=32)
def category(name: str) -> Ranges:
    """The characters of a Unicode general category (`L`, `Lu`, …). Raises NotRegular for any other property."""
    if not (1 <= len(name) <= 2 and name[0] in "LMNPSZC" and name.isalpha()):
        raise NotRegular(f"the property {name!r} is not known here")
    return merged([(first, last) for found, first, last in _categories() if found.startswith(name) and found != "Cs"])


@functools.lru_cache(maxsize=512)
def parse(pattern: str) -> Node:
    """The tree of a pattern. Raises NotRegular."""
    if len(pattern) > _MAX_PATTERN:
        raise NotRegular(f"longer than {_MAX_PATTERN} characters")
    reader = _Reader(pattern)
    node = reader.alternatives(0)
    if reader.at < len(pattern):
        raise NotRegular(f"unbalanced ')' at {reader.at}")
    return node


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise NotRegular("the pattern ends too early")
        self.at += 1
        return char

    def skip(self, word: str) -> bool:
        found = self.text.startswith(word, self.at)
        self.at += len(word) if found else 0
        return found

    def alternatives(self, depth: int) -> Node:
        if depth > _MAX_NESTING:
            raise NotRegular("groups nested too deep")
        options = [self.sequence(depth)]
        while self.skip("|"):
            options.append(self.sequence(depth))
        return options[0] if len(options) == 1 else Alt(tuple(options))

    def sequence(self, depth: int) -> Node:
        parts: list[Node] = []
        while self.peek() not in ("", "|", ")"):
            parts.append(self.quantified(depth))
        return parts[0] if len(parts) == 1 else Seq(tuple(parts))

    def quantified(self, depth: int) -> Node:
        node = self.atom(depth)
        bounds = self.bounds()
        if bounds is None:
            return node
        if isinstance(node, Anchor):
            raise NotRegular("a repeated anchor")
        least, most = bounds
        if max(least, most or 0) > _MAX_REPEAT or (most is not None and most < least):
            raise NotRegular(f"repetition {{{least},{most}}} is out of bounds")
        self.skip("?")  # lazy matches the same texts
        return Repeat(node, least, most)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, found in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.skip(sign):
                return found
        if self.peek() != "{":
            return None
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : end].partition(",")
        if end < 0 or not _decimal(low) or (high and not _decimal(high)):
            raise NotRegular("a literal '{' must be escaped")
        self.at = end + 1
        return int(low), (int(high) if high else None if comma else int(low))

    def atom(self, depth: int) -> Node:
        char = self.take()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return Chars(self.bracket())
        if char == ".":
            return Chars(DOT)
        if char in "^$":
            return Anchor(char == "^")
        if char == "\\":
            return Chars(self.escaped(in_class=False))
        if char in "*+?{":
            raise NotRegular(f"nothing to repeat at {self.at - 1}")
        return Chars(_one(ord(char)))

    def group(self, depth: int) -> Node:
        if self.skip("?"):
            if self.skip("<") and self.peek() not in ("=", "!"):
                end = self.text.find(">", self.at)
                if end < 0:
                    raise NotRegular("an unclosed group name")
                self.at = end + 1
            elif not self.skip(":"):
                raise NotRegular("lookaround or an inline flag")
        node = self.alternatives(depth + 1)
        if not self.skip(")"):
            raise NotRegular("an unclosed group")
        return node

    def bracket(self) -> Ranges:
        negated = self.skip("^")
        out: list[tuple[int, int]] = []
        while not self.skip("]"):
            low = self.member()
            if self.peek() == "-" and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                if not _single(low):
                    out += low
                    continue
                mark = self.at
                self.at += 1
                high = self.member()
                if not _single(high):  # `[a-\d]`: the hyphen is itself
                    self.at = mark
                    out += [*low, (0x2D, 0x2D)]
                    self.at += 1
                    continue
                if high[0][0] < low[0][0]:
                    raise NotRegular("a range out of order")
                out.append((low[0][0], high[0][0]))
            else:
                out += low
        ranges = merged(out)
        return inverted(ranges) if negated else ranges

    def member(self) -> Ranges:
        char = self.take()
        return self.escaped(in_class=True) if char == "\\" else _one(ord(char))

    def escaped(self, *, in_class: bool) -> Ranges:
        char = self.take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in "pP" and self.skip("{"):
            end = self.text.find("}", self.at)
            name, self.at = self.text[self.at : end], end + 1
            found = category(name.removeprefix("gc=").removeprefix("General_Category="))
            return inverted(found) if char == "P" else found
        if char == "b" and in_class:
            return _one(8)
        if char in _CONTROLS and not (char == "0" and self.peek().isdigit()):
            return _one(_CONTROLS[char])
        if char in "xu":
            return _one(self.code(2 if char == "x" else 4, braces=char == "u"))
        if char == "c" and self.peek().isalpha():
            return _one(ord(self.take()) % 32)
        if char.isalnum():
            raise NotRegular(f"the escape \\{char}")
        return _one(ord(char))

    def code(self, width: int, *, braces: bool) -> int:
        if braces and self.skip("{"):
            end = self.text.find("}", self.at)
            digits, self.at = self.text[self.at : end], end + 1
        else:
            digits, self.at = self.text[self.at : self.at + width], self.at + width
        if not digits or len(digits) > 6 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise NotRegular("a broken character escape")
        point = int(digits, 16)
        if point > TOP or _SURROGATES[0] <= point <= _SURROGATES[1]:
            raise NotRegular("an escape that is no character")
        return point


def _decimal(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7


def _one(point: int) -> Ranges:
    return ((point, point),)


def _single(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]


def re2_text(node: Node) -> str:
    """The same language for RE2, with nothing left to its own idea of classes, dots and anchors."""
    if isinstance(node, Chars):
        if not node.ranges:
            return r"[^\x{0}-\x{10FFFF}]"
        inside = "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in node.ranges)
        return f"[{inside}]"
    if isinstance(node, Anchor):
        return r"\A" if node.start else r"\z"
    if isinstance(node, Seq):
        return "".join(re2_text(part) if not isinstance(part, Alt) else f"(?:{re2_text(part)})" for part in node.parts)
    if isinstance(node, Alt):
        return "|".join(f"(?:{re2_text(option)})" for option in node.options)
    most = "" if node.most is None else str(node.most)
    return f"(?:{re2_text(node.body)}){{{node.least},{most}}}"
