"""Values worth trying: everything that two schemas name, and what lies just beside it. No randomness, so that a search repeats itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.drift.document import Document, Schema
from harness.drift.guard import below
from harness.drift.language import Automaton, automaton, finite_texts, outside, texts
from harness.drift.regex import NotRegular
from harness.inventory.canonical import NotCanonical, exact_bytes

_MANY = 80
_FEW = 64
MAX_COUNT = 2_000
_EACH = {"number": 4, "string": 4}
FORMATS = {
    "email": ["a@example.com"],
    "uri": ["https://example.com/a"],
    "url": ["https://example.com/a"],
    "uri-reference": ["/a"],
    "date-time": ["2026-01-01T00:00:00Z"],
    "date": ["2026-01-01"],
    "time": ["00:00:00Z"],
    "uuid": ["00000000-0000-4000-8000-000000000000"],
    "ipv4": ["192.0.2.1"],
    "ipv6": ["2001:db8::1"],
    "hostname": ["example.com"],
    "json-pointer": ["/a"],
    "regex": ["a"],
    "duration": ["P1D"],
}


@dataclass(frozen=True, slots=True)
class Pool:
    """`by_type` holds scalars by JSON type, `literals` members of `enum` and `const`, `names` property names, `counts` list lengths."""

    by_type: Mapping[str, tuple[Any, ...]]
    literals: tuple[Any, ...]
    names: tuple[str, ...]
    counts: tuple[int, ...]

    @property
    def mixed(self) -> tuple[Any, ...]:
        """A few of every type, for places where all of them would be too many."""
        return tuple(value for word, values in self.by_type.items() for value in values[: _EACH.get(word, 2)])

    @property
    def scalars(self) -> tuple[Any, ...]:
        return tuple(value for values in self.by_type.values() for value in values)


def size_of(value: Any) -> tuple[int, bytes]:
    """Order of smallness: length of the canonical text, then the text."""
    try:
        text = exact_bytes(value)
    except NotCanonical:
        text = repr(value).encode("utf-8", "surrogatepass")
    return len(text), text


def distinct(values: Iterator[Any] | list[Any], limit: int = _MANY) -> list[Any]:
    """In order, each once by its JSON text."""
    seen: set[bytes] = set()
    out = []
    for value in values:
        key = size_of(value)[1]
        if key not in seen:
            seen.add(key)
            out.append(value)
            if len(out) >= limit:
                break
    return out


def pool_of(old: Document, new: Document) -> Pool:
    """What the nodes of both documents name."""
    nodes = [*nodes_of(old), *nodes_of(new)]
    numbers, lengths, counts, literals, names, patterns, formats = [], [], [], [], [], [], []
    for node in nodes:
        numbers += [node[word] for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf") if _number(node.get(word))]
        lengths += [node[word] for word in ("minLength", "maxLength") if _number(node.get(word))]
        counts += [
            node[word] for word in ("minItems", "maxItems", "minContains", "maxContains", "minProperties", "maxProperties") if _number(node.get(word))
        ]
        literals += [*(node["enum"] if isinstance(node.get("enum"), list) else []), *([node["const"]] if "const" in node else [])]
        names += [*node.get("properties", {}), *node.get("required", []), *node.get("dependentRequired", {}), *node.get("dependentSchemas", {})]
        patterns += [node["pattern"]] if isinstance(node.get("pattern"), str) else []
        patterns += list(node.get("patternProperties", {}))
        formats += FORMATS.get(str(node.get("format")), [])
    samples = list(pattern_samples(list(dict.fromkeys(patterns)), sum(isinstance(value, str) for value in literals)))
    strings = [*samples, *formats, *_strings([int(length) for length in lengths])]
    by_type = {
        "null": (None,),
        "boolean": (True, False),
        "number": tuple(distinct(_near(numbers))),
        "string": tuple(distinct(sorted(strings, key=lambda text: (len(text), text)), 2 * _MANY)),
        "array": ([],),
        "object": ({},),
    }
    around = sorted({max(0, int(count) + step) for count in counts for step in (-1, 0, 1)} | {0, 1, 2})
    names += [*_told_names(nodes), *[text for text in samples if len(text) < 40][:8]]
    return Pool(
        by_type,
        tuple(distinct(literals, 2 * _MANY)),
        tuple(dict.fromkeys([*map(str, names), "x", "extra", "longer_name", ""])),
        tuple(n for n in around if n <= MAX_COUNT),
    )


def _told_names(nodes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Property names that `propertyNames` lists, or lengths of names that it draws a line at."""
    stack = [node["propertyNames"] for node in nodes if isinstance(node.get("propertyNames"), dict)]
    while stack:
        node = stack.pop()
        listed = [*(node["enum"] if isinstance(node.get("enum"), list) else []), *([node["const"]] if "const" in node else [])]
        yield from (name for name in listed if isinstance(name, str))
        for word in ("minLength", "maxLength"):
            if _number(node.get(word)) and 0 <= node[word] < 100:
                yield from ("n" * length for length in range(max(0, int(node[word]) - 1), int(node[word]) + 2))
        stack += [child for _, child in below(node) if isinstance(child, dict)]


def pattern_samples(patterns: list[str], named: int = 0) -> Iterator[str]:
    """For each pattern all texts that match, if they are few, else some: more than the `named` ones that a list of words can hold.

    For each pair of patterns the shortest text that only the first matches.
    """
    for one in patterns[:16]:
        try:
            yield from some_texts([automaton(one)], named)
            for other in patterns[:16]:
                if other != one and isinstance(found := outside([automaton(one)], automaton(other)), str):
                    yield found
        except NotRegular:
            continue


def some_texts(parts: Sequence[Automaton], named: int) -> Iterator[str]:
    """All texts of a small language, or the shortest of a large one."""
    all_of_them = finite_texts(parts, _FEW)
    if all_of_them is not None:
        yield from all_of_them
        return
    wanted = min(6 + named, _FEW)
    yield from texts(parts, wanted, visits=2 + wanted // 4)


def nodes_of(document: Document) -> Iterator[Mapping[str, Any]]:
    """Every schema object of a document."""
    stack: list[Schema] = [document.root, *document.defs.values()]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack += [child for _, child in below(node)]


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _near(numbers: list[Any]) -> Iterator[Any]:
    yield from (0, 1, -1, 0.5)
    for number in distinct(numbers):
        yield from (number, number + 1, number - 1, number + 0.5, number - 0.5, number * 2, number * 3, number / 2)
    for number in distinct(numbers, 8):
        for other in distinct(numbers, 8):
            if _number(number * other):
                yield from (number * other, number + other)
    yield from (2, 3, 7, 10, 100, 1000, -1000, 1e6)


def _strings(lengths: list[int]) -> Iterator[str]:
    yield from ("", "a", "0", "x", "A", "-", " ", "ab", "a b", "é", "\n")
    for length in sorted({max(0, found + step) for found in lengths for step in (-1, 0, 1)}):
        if length <= 300_000:
            yield "a" * length
