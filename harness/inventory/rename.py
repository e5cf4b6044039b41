"""Likely renames: a tool or parameter that went and one that came, too alike to be chance. A suggestion, never a substitute for the facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.inventory.canonical import json_equal
from harness.inventory.names import overlap, stems, words
from harness.inventory.side import ToolView

_MOST_PAIRS = 4_000


@dataclass(frozen=True, slots=True)
class Rename:
    """`score` orders suggestions, 0 to 1; it is no probability. `why` completes "likely renamed: …"."""

    old: str
    new: str
    score: float
    why: str


def likely_renames(gone: Sequence[ToolView], come: Sequence[ToolView]) -> Iterator[Rename]:
    """At most one suggestion per tool, the most alike first. Tools alike to several others equally are left alone."""
    if len(gone) * len(come) > _MOST_PAIRS:
        return  # another list altogether; nothing in it is a rename
    yield from _matched([found for before in gone for after in come if (found := _tools(before, after)) is not None])


def _matched(pairs: list[Rename]) -> Iterator[Rename]:
    taken: set[tuple[str, str]] = set()
    for pair in sorted(pairs, key=lambda found: (-found.score, found.old, found.new)):
        rivals = [other for other in pairs if other is not pair and other.score >= pair.score and (other.old == pair.old) != (other.new == pair.new)]
        mine = {("old", pair.old), ("new", pair.new)}
        if not rivals and not mine & taken:
            taken |= mine
            yield pair


def _tools(before: ToolView, after: ToolView) -> Rename | None:
    def found(score: float, why: str) -> Rename:
        return Rename(before.name, after.name, score, why)

    if words(before.name) == words(after.name):
        return found(0.95, "the same words, spelt differently")
    if sorted(stems(before.name)) == sorted(stems(after.name)):
        return found(0.9, "the same words in another order or number")
    same_shape = before.shape is not None and after.shape is not None and json_equal(dict(before.shape), dict(after.shape))
    text = before.components is not None and after.components is not None and before.components.description is not None
    same_text = (
        text and before.components is not None and after.components is not None and before.components.description == after.components.description
    )
    if same_text and (same_shape or overlap(before.name, after.name) > 0.3):
        return found(0.85, "the same description")
    count = len((before.shape or {}).get("properties") or {})
    one, other = set(stems(before.name)), set(stems(after.name))
    if same_shape and count and (one < other or other < one):
        return found(0.8, "the same parameters, and one name holds the other")
    if same_shape and count >= 2 and overlap(before.name, after.name) >= 0.5:
        return found(0.7, "the same parameters and mostly the same words")
    same_names = bool(before.parameters) and set(before.parameters or ()) == set(after.parameters or ())
    if same_names and min(len(one), len(other)) >= 2 and (one < other or other < one):
        return found(0.65, "parameters of the same names, and one name holds the other")
    return None


def renamed_parameters(gone: Mapping[str, Any], come: Mapping[str, Any], types: Any) -> Iterator[Rename]:
    """The same for properties of one object. `types` says which JSON types a schema admits; they must not have changed."""
    pairs: list[Rename] = []
    if len(gone) * len(come) > _MOST_PAIRS:
        return
    for old, before in gone.items():
        for new, after in come.items():
            one, other = set(stems(old)), set(stems(new))
            if words(old) == words(new):
                pairs.append(Rename(old, new, 0.95, "the same words, spelt differently"))
            elif sorted(stems(old)) == sorted(stems(new)) and types(before) == types(after):
                pairs.append(Rename(old, new, 0.85, "the same words in another order or number"))
            elif (one < other or other < one) and types(before) == types(after):
                pairs.append(Rename(old, new, 0.75, "the same type, and one name holds the other"))
    yield from _matched(pairs)
