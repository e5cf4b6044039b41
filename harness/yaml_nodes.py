"""YAML 1.2 (core schema, JSON-like subset) with a position on every node. Nothing here knows what a document means.

PyYAML's parser (the C one where it exists) yields events; this module builds frozen nodes from them and refuses, with
file:line:column, what makes a hand-written test file lie: duplicate keys, tags, anchors and aliases, unquoted dates,
keys that are not text, several documents, and anything too big or too deep. Values follow YAML 1.2 core, not 1.1:
`no`, `on`, `1_000` and `12:30:45` stay text, `012` is 12, `0o12` is 10.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import yaml

from harness.errors import LoadError, LoadErrors
from harness.model.location import Location
from harness.yaml_hints import MAX_PROBLEMS, excerpt_of, explain_parser_error, missing_value, quoted, rest_of_value, source_lines

MAX_CHARACTERS = 1_000_000
MAX_DEPTH = 32
MAX_DIGITS = 400

FASTEST: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the C parser, about ten times faster, where it was built

Scalar = str | int | float | bool | None

_NOT_YAML = re.compile("[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_INT = re.compile(r"[-+]?[0-9]+\Z")
_OCTAL = re.compile(r"0o[0-7]+\Z")
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
_NOT_FINITE = re.compile(r"([-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))\Z")
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt\s][0-9:.,+\-Zz\s]*)?\Z")
_WORDS: Mapping[str, bool | None] = MappingProxyType(
    {"": None, "~": None, "null": None, "Null": None, "NULL": None}
    | {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
)


@dataclass(frozen=True, slots=True)
class ScalarNode:
    """`value` is what YAML 1.2 core makes of it; `text` is how it was written (without quotes)."""

    value: Scalar
    location: Location
    text: str = ""

    def plain(self) -> Scalar:
        return self.value


@dataclass(frozen=True, slots=True)
class SeqNode:
    items: tuple[Node, ...]
    location: Location

    def plain(self) -> list[Any]:
        return [item.plain() for item in self.items]


@dataclass(frozen=True, slots=True)
class MapNode:
    """`keys` says where each key stands, `entries` holds the values, both in document order."""

    entries: Mapping[str, Node]
    keys: Mapping[str, Location]
    location: Location

    def plain(self) -> dict[str, Any]:
        return {key: value.plain() for key, value in self.entries.items()}


Node = ScalarNode | SeqNode | MapNode


def locate(node: Node, path: Sequence[str | int], *, key: bool = False) -> Location:
    """The position of the longest known prefix of `path`; parts that the document does not have are passed over.

    With `key`, the mark of the last mapping key that was followed, rather than that of its value.
    """
    mark = node.location
    for part in path:
        if isinstance(node, MapNode) and isinstance(part, str) and part in node.entries:
            mark, node = node.keys[part], node.entries[part]
            mark = mark if key else node.location
        elif isinstance(node, SeqNode) and isinstance(part, int) and 0 <= part < len(node.items):
            node = node.items[part]
            mark = node.location
    return mark


def parse_yaml(text: str, name: str, *, scanner: Any = FASTEST, max_characters: int = MAX_CHARACTERS, max_depth: int = MAX_DEPTH) -> Node:
    """The one document in `text`; `name` is the file as the user wrote it. `scanner` is the PyYAML loader whose events are read.

    The bounds are those of a file that people write; what a program writes for thousands of tools has its own.

    Raises LoadError for one problem and LoadErrors for several; both carry file:line:column, what, and how to fix it.
    """
    text = text.removeprefix("\ufeff")
    lines = _readable(text, name, max_characters)
    builder = _Builder(name, lines, max_depth)
    try:
        node = builder.document(yaml.parse(text, Loader=scanner))
    except yaml.MarkedYAMLError as error:
        builder.problems.append(explain_parser_error(error, name, lines, builder.innermost()))
        node = None
    if len(builder.problems) == 1:
        raise builder.problems[0]
    if builder.problems or node is None:
        raise LoadErrors(builder.problems)
    return node


def _readable(text: str, name: str, most: int) -> list[str]:
    """The lines, or LoadError for what no YAML reader takes. Exotic line breaks are refused: readers differ on them."""
    if len(text) > most:
        raise LoadError(f"the file has {len(text):,} characters; at most {most:,} are read", where=f"{name}:1:1", fix="split it")
    lines = source_lines(text)
    if bad := _NOT_YAML.search(text):
        before = source_lines(text[: bad.start()])
        line, column = len(before), len(before[-1]) + 1
        raise LoadError(
            f"the character U+{ord(bad.group()):04X} may not stand in YAML",
            where=f"{name}:{line}:{column}",
            fix="remove it" if 0xD800 <= ord(bad.group()) < 0xE000 else f'write it as an escape in double quotes: "\\u{ord(bad.group()):04X}"',
            excerpt=ascii(excerpt_of(lines, line, column))[1:-1],
        )
    return lines


def _start(event: yaml.Event) -> tuple[int, int]:
    """Line and column from 0. Every event that a parser makes has marks; only hand-made ones do not."""
    assert event.start_mark is not None
    return event.start_mark.line, event.start_mark.column


class _Enough(Exception):
    """Ends the reading of a document whose rest would only repeat the same complaints."""


@dataclass(slots=True)
class _Open:
    """A collection that is being read. For a mapping, `pending` is the key whose value comes next."""

    location: Location
    is_map: bool
    flow: bool
    items: list[Node]
    entries: dict[str, Node]
    keys: dict[str, Location]
    pending: tuple[str, Location] | None = None
    expects_key: bool = True
    refused: bool = False


class _Builder:
    """From events to nodes, without recursion. Problems that leave the structure readable are collected."""

    def __init__(self, name: str, lines: list[str], max_depth: int) -> None:
        self.name, self.lines, self.max_depth = name, lines, max_depth
        self.problems: list[LoadError] = []
        self.stack: list[_Open] = []
        self.root: Node | None = None

    def document(self, events: Iterator[yaml.Event]) -> Node | None:
        documents = 0
        try:
            for event in events:
                if isinstance(event, yaml.DocumentStartEvent):
                    documents += 1
                    if documents > 1:
                        self._refuse(event, "a second document starts here", "one file holds one document: move the rest to its own file")
                        break
                    self._directives(event)
                elif isinstance(event, yaml.NodeEvent):
                    self._node(event)
                elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
                    self._close()
        except _Enough:
            return None
        if self.root is None and not self.problems:
            self.problems.append(LoadError("the file is empty", where=f"{self.name}:1:1", fix="write a document, or remove the file"))
        return self.root

    def innermost(self) -> tuple[int, int] | None:
        """Line and column, from 0, of the collection that is being read."""
        return (self.stack[-1].location.line - 1, self.stack[-1].location.column - 1) if self.stack else None

    def _location(self, event: yaml.Event) -> Location:
        line, column = _start(event)
        return Location(file=self.name, line=line + 1, column=column + 1)

    def _refuse(self, event: yaml.Event, what: str, fix: str) -> None:
        self._refuse_at(self._location(event), what, fix)

    def _refuse_at(self, at: Location, what: str, fix: str) -> None:
        self.problems.append(LoadError(what, where=str(at), fix=fix, excerpt=excerpt_of(self.lines, at.line, at.column)))
        if len(self.problems) >= MAX_PROBLEMS:
            raise _Enough

    def _directives(self, event: yaml.DocumentStartEvent) -> None:
        if event.version not in (None, (1, 2)) or event.tags:
            self._refuse(event, "a % directive changes how YAML is read", "remove it: files are read as YAML 1.2, without tags")

    def _node(self, event: yaml.NodeEvent) -> None:
        if isinstance(event, yaml.AliasEvent):
            written = rest_of_value(self.lines, *_start(event))
            self._refuse(event, f"aliases such as *{event.anchor} are not part of the language", f"put quotes around the value: {quoted(written)}")
            self._put(ScalarNode(None, self._location(event)), event)
            return
        if event.anchor is not None:
            self._refuse(event, f"anchors such as &{event.anchor} are not part of the language", "write the value out; quote it if it is text")
        if isinstance(event, yaml.ScalarEvent):
            self._put(self._scalar(event), event)
            return
        assert isinstance(event, yaml.CollectionStartEvent)
        if event.tag is not None:
            self._refuse_tag(event)
        if len(self.stack) >= self.max_depth:
            self._refuse(event, f"nested deeper than {self.max_depth} levels", "flatten the document")
            raise _Enough
        is_map = isinstance(event, yaml.MappingStartEvent)
        is_key = self._wants_key()
        if is_key:
            self._bad_collection_key(event)
        self.stack.append(_Open(self._location(event), is_map, bool(event.flow_style), [], {}, {}, refused=is_key))

    def _refuse_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
        shown = str(event.tag).replace("tag:yaml.org,2002:", "!!")
        self._refuse(event, f"tags such as {shown} are not part of the language", "write the plain value; quote it if it is text")

    def _wants_key(self) -> bool:
        return bool(self.stack) and self.stack[-1].is_map and self.stack[-1].expects_key

    def _bad_collection_key(self, event: yaml.NodeEvent) -> None:
        line, column = _start(event)
        if found := re.match(r"\{\s*([A-Za-z_][\w.-]*)\s*\}", self.lines[line][column:]):
            self._refuse(event, f"{found.group(0)} is a YAML mapping, not a variable", f'put quotes around the variable: "${{{found.group(1)}}}"')
        else:
            self._refuse(event, "a key must be text, not a list or a mapping", "write a plain word as the key")

    def _scalar(self, event: yaml.ScalarEvent) -> ScalarNode:
        at = self._location(event)
        if event.tag is not None:
            self._refuse_tag(event)
            return ScalarNode(event.value, at, event.value)
        if _SURROGATE.search(event.value):
            self._refuse_at(at, "half of a surrogate pair is no character", "write the whole character, or its 8-digit escape: \\UXXXXXXXX")
            return ScalarNode("", at, "")
        if not event.implicit[0]:  # quoted, or a block scalar: always text
            return ScalarNode(event.value, at, event.value)
        if _DATE.match(event.value):
            self._refuse_at(at, f"an unquoted date: YAML readers disagree on what {event.value} is", f"quote it: {quoted(event.value)}")
            return ScalarNode(event.value, at, event.value)
        return ScalarNode(self._core(event.value, at), at, event.value)

    def _core(self, text: str, at: Location) -> Scalar:
        """YAML 1.2 core schema, less what JSON cannot carry."""
        if text in _WORDS:
            return _WORDS[text]
        if _NOT_FINITE.match(text):
            self._refuse_at(at, f"{text} is not a number that JSON can carry", f"quote it if it is text: {quoted(text)}")
            return None
        if _INT.match(text) or _OCTAL.match(text) or _HEX.match(text):
            if len(text) > MAX_DIGITS:
                self._refuse_at(at, f"a number of {len(text)} digits", "quote it if it is text")
                return None
            return int(text, 10) if _INT.match(text) else int(text, 0)
        if _FLOAT.match(text):
            number = float(text)
            if math.isfinite(number):
                return number
            self._refuse_at(at, f"{text[:40]} is too large for a double", f"quote it if it is text: {quoted(text[:40])}")
            return None
        return text

    def _close(self) -> None:
        done = self.stack.pop()
        node: Node
        if done.is_map:
            node = MapNode(MappingProxyType(done.entries), MappingProxyType(done.keys), done.location)
        else:
            node = SeqNode(tuple(done.items), done.location)
        self._put(node, None)

    def _put(self, node: Node, event: yaml.NodeEvent | None) -> None:
        if not self.stack:
            self.root = node
            return
        top = self.stack[-1]
        if not top.is_map:
            top.items.append(node)
        elif top.expects_key:
            top.expects_key, top.pending = False, self._key(node, event, top)
        else:
            if top.flow and not top.refused and top.pending and isinstance(event, yaml.ScalarEvent) and not event.value and event.implicit[0]:
                self._refuse_at(top.pending[1], *missing_value(top.pending[0], len(top.entries)))
            if top.pending is not None:
                key, mark = top.pending
                top.entries[key], top.keys[key] = node, mark
            top.expects_key, top.pending = True, None

    def _key(self, node: Node, event: yaml.NodeEvent | None, top: _Open) -> tuple[str, Location] | None:
        if not isinstance(node, ScalarNode):
            return None  # refused where it began
        if not isinstance(node.value, str):
            if not isinstance(event, yaml.AliasEvent):
                self._refuse_at(node.location, f"the key {node.text or 'null'} is not text", f"quote it: {quoted(node.text)}")
            return None
        if node.value == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]:
            self._refuse_at(node.location, "merge keys (<<) are not part of the language", "write the keys out")
            return None
        if node.value in top.keys:
            first = top.keys[node.value]
            self._refuse_at(node.location, f"the key {node.value!r} stands twice (first at line {first.line})", "remove or rename one of them")
            return None
        return node.value, node.location
