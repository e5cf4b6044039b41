"""Collecting what is wrong, with positions, so that a writer sees everything at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from harness.errors import LoadError, LoadErrors
from harness.model.location import Location
from harness.registry import suggest
from harness.yaml_hints import MAX_PROBLEMS, excerpt_of, source_lines
from harness.yaml_nodes import MapNode, Node, ScalarNode, SeqNode

T = TypeVar("T")


class Problems:
    """Of one file. `add` never raises; `raise_any` raises LoadErrors when something was added."""

    def __init__(self, text: str) -> None:
        self._lines = source_lines(text)
        self.errors: list[LoadError] = []

    def add(self, at: Location, what: str, fix: str) -> None:
        if len(self.errors) < MAX_PROBLEMS:
            self.errors.append(LoadError(what, where=str(at), fix=fix, excerpt=excerpt_of(self._lines, at.line, at.column)))

    def raise_any(self) -> None:
        if self.errors:
            raise LoadErrors(in_order(self.errors))

    # What follows reads one node as one kind of value; None means "it was not, and that has been said".

    def mapping(self, node: Node, what: str) -> MapNode | None:
        if isinstance(node, MapNode):
            return node
        self.add(node.location, f"{what} must be a mapping, not {kind_of(node)}", "write `name: value` entries")
        return None

    def sequence(self, node: Node, what: str) -> SeqNode | None:
        if isinstance(node, SeqNode):
            return node
        self.add(node.location, f"{what} must be a list, not {kind_of(node)}", "begin each entry with `- `")
        return None

    def text(self, node: Node, what: str) -> str | None:
        if isinstance(node, ScalarNode) and isinstance(node.value, str) and node.value.strip():
            return node.value
        fix = f'quote it: "{node.text}"' if isinstance(node, ScalarNode) and node.text else "write some text"
        self.add(node.location, f"{what} must be text, not {kind_of(node)}", fix)
        return None

    def texts(self, node: Node, what: str) -> tuple[str, ...]:
        """A list of texts, or one text alone."""
        items = node.items if isinstance(node, SeqNode) else (node,)
        found = [self.text(item, what if item is node else f"an entry of {what}") for item in items]
        return tuple(text for text in found if text is not None)

    def flag(self, node: Node, what: str) -> bool:
        if isinstance(node, ScalarNode) and isinstance(node.value, bool):
            return node.value
        self.add(node.location, f"{what} must be true or false, not {kind_of(node)}", "write true or false (yes and no are text)")
        return False

    def one_of(self, node: Node, what: str, known: Sequence[T], spell: Callable[[T], str] = str) -> T | None:
        word = self.text(node, what)
        if word is None:
            return None
        for item in known:
            if spell(item) == word:
                return item
        self.add(node.location, f"unknown {what} {word!r}", suggest(word, [spell(item) for item in known]))
        return None

    def unknown_keys(self, node: MapNode, known: Iterable[str], what: str) -> None:
        """Say of each key that `what` does not have, what it may have been meant for."""
        names = list(known)
        for key, mark in node.keys.items():
            if key not in names:
                self.add(mark, f"unknown key {key!r} in {what}", suggest(key, names))


def in_order(errors: list[LoadError]) -> list[LoadError]:
    """By file as met, then line and column, so that a writer goes through the file once."""
    files = list(dict.fromkeys(error.where.rsplit(":", 2)[0] for error in errors))

    def place(error: LoadError) -> tuple[int, int, int]:
        file, *numbers = error.where.rsplit(":", 2)
        line, column = (int(n) for n in numbers) if len(numbers) == 2 and all(n.isdigit() for n in numbers) else (0, 0)
        return files.index(file), line, column

    return sorted(errors, key=place)


def kind_of(node: Node) -> str:
    """The node's kind as a reader would call it."""
    if isinstance(node, MapNode):
        return "a mapping"
    if isinstance(node, SeqNode):
        return "a list"
    if node.value is None:
        return "nothing"
    if isinstance(node.value, bool):
        return str(node.value).lower()
    return repr(node.value) if isinstance(node.value, str) else f"the number {node.text}"
