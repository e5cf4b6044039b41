"""Whether every text of one pattern matches another: automata walked side by side, states made only when reached.

A library does this (greenery) and is the second opinion in the tests; it needs 25 s for `[a-z]{1,64}` in `[a-z0-9]{1,100}`, which
tools really say, and this needs milliseconds. All work is counted and bounded: beyond the bound the answer is None, "not known".
"""

from __future__ import annotations

import functools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

from harness.drift.regex import ANY, TOP, Alt, Anchor, Chars, Node, NotRegular, Ranges, Repeat, parse

MAX_STATES = 12_000
_MAX_NFA = 20_000
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, 0xE000
_NICE = "a0xA-_ .1bz/@:"


class Automaton(Protocol):
    """Read one code point at a time. States are hashable; `dead` means that nothing accepted can follow."""

    @property
    def cuts(self) -> frozenset[int]: ...

    def start(self) -> Any: ...
    def step(self, state: Any, point: int) -> Any: ...
    def accepts(self, state: Any) -> bool: ...
    def dead(self, state: Any) -> bool: ...


class _Nfa:
    """Thompson's construction. Edges: free, free at the very start only, free at the very end only, or over characters."""

    def __init__(self) -> None:
        self.free: list[list[int]] = []
        self.at_start: list[list[int]] = []
        self.at_end: list[list[int]] = []
        self.over: list[list[tuple[Ranges, int]]] = []

    def state(self) -> int:
        if len(self.free) >= _MAX_NFA:
            raise NotRegular("the pattern unfolds to too many states")
        for edges in (self.free, self.at_start, self.at_end, self.over):
            edges.append([])
        return len(self.free) - 1

    def add(self, node: Node, source: int) -> int:
        """Edges for `node` from `source`; the state after it."""
        if isinstance(node, Chars):
            target = self.state()
            self.over[source].append((node.ranges, target))
            return target
        if isinstance(node, Anchor):
            target = self.state()
            (self.at_start if node.start else self.at_end)[source].append(target)
            return target
        if isinstance(node, Alt):
            target = self.state()
            for option in node.options:
                self.free[self.add(option, source)].append(target)
            return target
        if isinstance(node, Repeat):
            return self.repeat(node, source)
        for part in node.parts:
            source = self.add(part, source)
        return source

    def repeat(self, node: Repeat, source: int) -> int:
        for _ in range(node.least):
            source = self.add(node.body, source)
        target = self.state()
        if node.most is None:
            loop = self.state()
            self.free[source].append(loop)
            self.free[self.add(node.body, loop)].append(loop)
            self.free[loop].append(target)
            return target
        self.free[source].append(target)
        for _ in range(node.most - node.least):
            inner = self.state()
            self.free[source].append(inner)
            source = self.add(node.body, inner)
            self.free[source].append(target)
        return target


class PatternAutomaton:
    """A text is accepted when the pattern is found anywhere in it, as JSON Schema means it. States are frozen sets of NFA states."""

    def __init__(self, pattern: str) -> None:
        """Raises NotRegular."""
        nfa = _Nfa()
        first = nfa.state()
        nfa.over[first].append((ANY, first))
        begin = nfa.state()
        nfa.free[first].append(begin)
        self._final = nfa.add(parse(pattern), begin)
        nfa.over[self._final].append((ANY, self._final))
        self._nfa = nfa
        self._first = first
        self.cuts = frozenset(cut for edges in nfa.over for ranges, _ in edges for cut in _borders(ranges))
        self._steps: dict[tuple[frozenset[int], int], frozenset[int]] = {}

    def start(self) -> frozenset[int]:
        return self._closed([self._first], self._nfa.at_start)

    def _closed(self, states: list[int], also: list[list[int]] | None) -> frozenset[int]:
        seen, stack = set(states), list(states)
        while stack:
            state = stack.pop()
            for target in (*self._nfa.free[state], *(also[state] if also else ())):
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        if self._final in seen:
            return frozenset((self._final,))  # found: nothing that follows can undo it
        return frozenset(state for state in seen if self._nfa.over[state] or self._nfa.at_end[state])

    def step(self, state: frozenset[int], point: int) -> frozenset[int]:
        known = self._steps.get((state, point))
        if known is None:
            reached = [target for here in state for ranges, target in self._nfa.over[here] if _holds(ranges, point)]
            known = self._steps[(state, point)] = self._closed(reached, None)
        return known

    def accepts(self, state: frozenset[int]) -> bool:
        if self._final in state:
            return True
        seen, stack = set(state), list(state)
        while stack:
            here = stack.pop()
            for target in (*self._nfa.free[here], *self._nfa.at_end[here]):
                if target == self._final:
                    return True
                if target not in seen:
                    seen.add(target)
                    stack.append(target)
        return False

    def dead(self, state: frozenset[int]) -> bool:
        return not state


def _holds(ranges: Ranges, point: int) -> bool:
    at = bisect_right(ranges, (point, TOP + 1)) - 1
    return at >= 0 and point <= ranges[at][1]


def _borders(ranges: Ranges) -> Iterator[int]:
    """Where a class begins and ends; the hole that the surrogates leave is no border."""
    for low, high in ranges:
        if low != _AFTER_SURROGATES or not _holds(ranges, _BEFORE_SURROGATES):
            yield low
        if high != _BEFORE_SURROGATES or not _holds(ranges, _AFTER_SURROGATES):
            yield high + 1


@dataclass(frozen=True, slots=True)
class Window:
    """Texts of `least` to `most` characters (code points, as JSON Schema counts)."""

    least: int = 0
    most: int | None = None
    cuts: frozenset[int] = frozenset()

    def start(self) -> int:
        return 0

    def step(self, state: int, point: int) -> int:
        return min(state + 1, self.least if self.most is None else self.most + 1)

    def accepts(self, state: int) -> bool:
        return state >= self.least and (self.most is None or state <= self.most)

    def dead(self, state: int) -> bool:
        return self.most is not None and state > self.most


@functools.lru_cache(maxsize=256)
def automaton(pattern: str) -> PatternAutomaton:
    """Raises NotRegular."""
    return PatternAutomaton(pattern)


def _blocks(parts: Sequence[Automaton]) -> list[tuple[int, int]]:
    """Blocks (first, last) of characters that no part tells apart. A block may span the surrogates, never begin in them."""
    cuts = sorted({0, TOP + 1}.union(*(part.cuts for part in parts)))
    return [(low, high - 1) for low, high in pairwise(cuts)]


def _letters(parts: Sequence[Automaton]) -> list[int]:
    """One character for each block; a readable one where there is any."""
    blocks = _blocks(parts)
    firsts = [low for low, _ in blocks]
    nice = {bisect_right(firsts, ord(char)) - 1: ord(char) for char in reversed(_NICE)}
    found = [nice.get(index, max(low, 0x21) if low < 0x21 <= high else low) for index, (low, high) in enumerate(blocks)]
    return sorted(found, key=lambda point: (_NICE.find(chr(point)) if chr(point) in _NICE else 99, point))


def shortest(parts: Sequence[Automaton], wanted: Callable[[tuple[Any, ...]], bool], hopeless: Callable[[tuple[Any, ...]], bool]) -> str | bool | None:
    """The shortest text whose states satisfy `wanted`; False when there is none; None when the bound was reached first."""
    letters = _letters(parts)
    first = tuple(part.start() for part in parts)
    came: dict[tuple[Any, ...], tuple[tuple[Any, ...], int] | None] = {first: None}
    queue = [first]
    for state in queue:
        if wanted(state):
            return _trace(came, state)
        for letter in letters:
            after = tuple(part.step(here, letter) for part, here in zip(parts, state, strict=True))
            if after not in came and not hopeless(after):
                if len(came) >= MAX_STATES:
                    return None
                came[after] = (state, letter)
                queue.append(after)
    return False


def _trace(came: dict[tuple[Any, ...], tuple[tuple[Any, ...], int] | None], state: tuple[Any, ...]) -> str:
    out: list[str] = []
    step = came[state]
    while step is not None:
        out.append(chr(step[1]))
        step = came[step[0]]
    return "".join(reversed(out))


def outside(left: Sequence[Automaton], right: Automaton) -> str | bool | None:
    """A text in every one of `left` and not in `right`; False when there is none (inclusion is proven); None when not known."""
    parts = (*left, right)

    def wanted(state: tuple[Any, ...]) -> bool:
        return not right.accepts(state[-1]) and all(part.accepts(here) for part, here in zip(left, state, strict=False))

    def hopeless(state: tuple[Any, ...]) -> bool:
        return any(part.dead(here) for part, here in zip(left, state, strict=False))

    return shortest(parts, wanted, hopeless)


def pattern_included(left: Sequence[Automaton], pattern: str) -> bool | None:
    """Whether every text of `left` matches `pattern`; None when not known."""
    try:
        found = outside(left, automaton(pattern))
    except NotRegular:
        return None
    return None if found is None else found is False


def texts(parts: Sequence[Automaton], limit: int, *, visits: int = 4) -> Iterator[str]:
    """Up to `limit` texts that every part accepts, shortest first, each state passed at most `visits` times for variety's sake."""
    letters = _letters(parts)
    first = tuple(part.start() for part in parts)
    queue: list[tuple[tuple[Any, ...], str]] = [(first, "")]
    passed = {first: 1}
    given = 0
    for state, text in queue:
        if given >= limit:
            return
        if all(part.accepts(here) for part, here in zip(parts, state, strict=True)):
            given += 1
            yield text
        for letter in letters:
            after = tuple(part.step(here, letter) for part, here in zip(parts, state, strict=True))
            count = passed.get(after, 0)
            dead = any(part.dead(here) for part, here in zip(parts, after, strict=True))
            if count < visits and len(queue) < MAX_STATES and not dead:
                passed[after] = count + 1
                queue.append((after, text + chr(letter)))


def finite_texts(parts: Sequence[Automaton], limit: int) -> tuple[str, ...] | None:
    """All texts, when there are at most `limit`; None when there are more, or that is not known."""
    width = {low: high - low + 1 for low, high in _blocks(parts)}
    letters = list(width)
    live = _live(parts, letters)
    if live is None:
        return None
    out: list[str] = []
    queue: list[tuple[tuple[Any, ...], str]] = [(tuple(part.start() for part in parts), "")]
    for state, text in queue:
        if all(part.accepts(here) for part, here in zip(parts, state, strict=True)):
            out.append(text)
        if len(out) > limit or len(queue) > 40 * limit:
            return None
        for letter in letters:
            after = tuple(part.step(here, letter) for part, here in zip(parts, state, strict=True))
            if after in live:
                if width[letter] > limit:
                    return None
                queue.extend((after, text + chr(point)) for point in range(letter, letter + width[letter]))
    return tuple(out)


def _live(parts: Sequence[Automaton], letters: list[int]) -> set[tuple[Any, ...]] | None:
    """The states from which acceptance can still be reached; None beyond a small bound."""
    first = tuple(part.start() for part in parts)
    back: dict[tuple[Any, ...], list[tuple[Any, ...]]] = {first: []}
    queue = [first]
    for state in queue:
        for letter in letters:
            after = tuple(part.step(here, letter) for part, here in zip(parts, state, strict=True))
            if any(part.dead(here) for part, here in zip(parts, after, strict=True)):
                continue
            if after not in back:
                if len(back) >= 2000:
                    return None
                back[after] = []
                queue.append(after)
            back[after].append(state)
    stack = [state for state in queue if all(part.accepts(here) for part, here in zip(parts, state, strict=True))]
    live = set(stack)
    while stack:
        for before in back[stack.pop()]:
            if before not in live:
                live.add(before)
                stack.append(before)
    return live
