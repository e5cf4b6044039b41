"""A value that one schema accepts and another refuses: searched for without chance, made small, and confirmed by two validators.

Tried in this order: values of the difference as the library states it; values of the old schema; the same with one part changed,
with a name added or taken away, and then with two parts changed.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from harness.drift.canonical_form import Form, difference
from harness.drift.document import Document, normalise
from harness.drift.pool import Pool, distinct, pool_of, size_of
from harness.drift.refused import Refused
from harness.drift.sampler import Sampler
from harness.drift.validators import Judges

FUEL = 60_000
_ENOUGH = 24
_MISSING = object()
Path = tuple[Any, ...]


class Question:
    """Whether something that `valid` accepts is refused by `refusing`. `forms` are the canonical forms of both, where they exist."""

    def __init__(self, valid: Document, refusing: Document, forms: tuple[Form, Form] | None) -> None:
        self.before, self.after = Judges(valid.schema), Judges(refusing.schema)
        self.forms = forms
        self.found: list[Any] = []

    def shows(self, value: Any) -> bool:
        return self.before.quick(value) and not self.after.quick(value)

    def confirmed(self, value: Any) -> bool:
        return self.before.agree(value, True) and self.after.agree(value, False)


class Search:
    """For values that answer questions about `old` and `new`, all questions at once. Values are built from these two, whatever is asked.

    `fuel` bounds the values tried, so that the same search ends the same way.
    """

    def __init__(self, old: Document, new: Document, questions: list[Question], fuel: int = FUEL) -> None:
        self.old, self.new = old, new
        self.questions = questions
        self.pool = pool_of(old, new)
        self.fuel = fuel
        self.tried = 0
        self._base: list[Any] = []

    def answers(self) -> list[Any]:
        """For each question the smallest value found; NONE when there was none."""
        for values in (self._first(), self._of_old(), self._changed()):
            for value in values:
                self.tried += 1
                for question in self.questions:
                    if len(question.found) < _ENOUGH and question.shows(value):
                        question.found.append(value)
                if all(len(question.found) >= _ENOUGH for question in self.questions):
                    break
            if all(question.found for question in self.questions):
                break
        return [self._smallest(question) for question in self.questions]

    def _smallest(self, question: Question) -> Any:
        for value in sorted(distinct(question.found), key=size_of):
            small = shrink(value, question.shows, self.pool)
            for candidate in (small, value):
                if question.confirmed(candidate):
                    return candidate
        return NONE

    def _first(self) -> Iterator[Any]:
        yield from self.pool.literals
        for question in self.questions:
            yield from self._of_difference(question.forms)

    def _of_difference(self, forms: tuple[Form, Form] | None) -> list[Any]:
        gap = difference(*forms) if forms else None
        if gap is None or gap is False:
            return []
        try:
            document = normalise(gap)
            return Sampler(document, self.pool, fuel=6_000).values(document.root)
        except (Refused, ValueError):
            return []

    def _of_old(self) -> list[Any]:
        self._base = Sampler(self.old, self.pool, fuel=self.fuel // 3, limit=48).values(self.old.root)
        return self._base

    def _changed(self) -> Iterator[Any]:
        """Neighbours of valid values: old ones, and new ones that the old schema may take as well."""
        fresh = Sampler(self.new, self.pool, fuel=self.fuel // 6).values(self.new.root)
        known = [value for value in distinct([*self._base, *fresh]) if any(question.before.quick(value) for question in self.questions)]
        starts = sorted(known, key=size_of)
        for start in starts[:24]:
            for value in neighbours(start, self.pool):
                if self.tried > self.fuel:
                    return
                yield value
        for start in starts[:6]:
            for middle in neighbours(start, self.pool):
                if any(question.before.quick(middle) for question in self.questions):
                    for value in neighbours(middle, self.pool):
                        if self.tried > self.fuel:
                            return
                        yield value


NONE = _MISSING


def paths(value: Any, at: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield at, value
    if isinstance(value, dict):
        for key, child in value.items():
            yield from paths(child, (*at, key))
    elif isinstance(value, list):
        for index, child in enumerate(value[:4]):
            yield from paths(child, (*at, index))


def put(value: Any, path: Path, new: Any) -> Any:
    """A copy with the part at `path` replaced, or taken out when `new` is NONE."""
    if not path:
        return new
    out = copy.copy(value)
    if len(path) == 1 and new is NONE:
        del out[path[0]]
    else:
        out[path[0]] = put(value[path[0]], path[1:], new)
    return out


def neighbours(value: Any, pool: Pool) -> Iterator[Any]:
    """Values that differ from `value` in one part."""
    for path, part in paths(value):
        if isinstance(part, dict):
            yield from (put(value, (*path, key), NONE) for key in part)
            for name in pool.names:
                if name not in part:
                    for extra in [*pool.mixed, *pool.literals[:6], *part.values()]:
                        yield put(value, path, {**part, name: extra})
        elif isinstance(part, list):
            yield from (put(value, (*path, index), NONE) for index in range(len(part[:4])))
            for extra in [*part[:2], *pool.mixed, *pool.literals[:6]]:
                yield put(value, path, [*part, extra])
            if part:
                yield from (put(value, path, (part * (count // len(part) + 1))[:count]) for count in pool.counts if count > len(part))
        if path:
            for other in (*pool.literals, *pool.scalars):
                yield put(value, path, other)


def shrink(value: Any, holds: Callable[[Any], bool], pool: Pool) -> Any:
    """A value no larger for which `holds` still says yes: drop parts, then put simpler ones in their place, until nothing helps."""
    simple: tuple[Any, ...] = (None, True, False, 0, 1, "", "a", "0", [], {})
    for _ in range(40):
        size = size_of(value)
        better = next((candidate for candidate in _smaller(value, simple, pool) if size_of(candidate) < size and holds(candidate)), NONE)
        if better is NONE:
            return value
        value = better
    return value


def _smaller(value: Any, simple: tuple[Any, ...], pool: Pool) -> Iterator[Any]:
    parts = list(paths(value))
    yield from (put(value, path, NONE) for path, _ in parts if path)
    for path, part in parts:
        if path and not (isinstance(part, str) and part in ("a", "0", "")):
            yield from (put(value, path, candidate) for candidate in simple if size_of(candidate) < size_of(part))
        if isinstance(part, str) and len(part) > 1:
            yield from (put(value, path, part[:length]) for length in {len(part) // 2, len(part) - 1})
            if set(part) != {"a"}:
                yield put(value, path, "a" * len(part))
        if path and isinstance(part, (int, float)) and not isinstance(part, bool):
            yield from (put(value, path, candidate) for candidate in pool.by_type["number"] if size_of(candidate) < size_of(part))
