"""Folder discovery: a plug-in is one file that declares itself; a duplicate or unknown id is refused loudly."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from types import ModuleType
from typing import Generic, TypeVar

from harness.errors import UsageError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Id → plug-in, in order of id."""

    def __init__(self, kind: str, items: Mapping[str, T]) -> None:
        self.kind = kind
        self._items = dict(sorted(items.items()))

    def __getitem__(self, key: str) -> T:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def need(self, key: str, *, where: str = "") -> T:
        """The plug-in, or a UsageError with a suggestion."""
        if key in self._items:
            return self._items[key]
        raise UsageError(f"unknown {self.kind} {key!r}", where=where, fix=suggest(key, list(self._items)))


def suggest(word: str, known: list[str]) -> str:
    """"did you mean …" when something is close, else the known words."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f"did you mean {close[0]!r}?" if close else f"use one of: {', '.join(sorted(known))}"


def discover_plugins(package: ModuleType, attribute: str, kind: str, entry_point_group: str = "") -> Registry[T]:
    """Import each module of `package`, collect its `attribute` (an object with `.id`), then third parties' entry points."""
    found: dict[str, T] = {}
    origin: dict[str, str] = {}

    def add(plugin: T, source: str) -> None:
        key: str = plugin.id  # type: ignore[attr-defined]  # every plug-in kind declares an id; checked by its own contract test
        if key in found:
            raise UsageError(f"{kind} {key!r} is declared twice", where=f"{origin[key]} and {source}", fix="rename or remove one of them")
        found[key], origin[key] = plugin, source

    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        if hasattr(module, attribute):
            add(getattr(module, attribute), module.__name__)
    if entry_point_group:
        for point in entry_points(group=entry_point_group):
            add(point.load(), point.value)
    return Registry(kind, found)
