"""An expectation whose text is already in the request proves nothing: an answer that repeats the question would pass it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from harness.model.location import Location
from harness.model.scenario import Expectation, Step
from harness.scenario.draft import Draft
from harness.scenario.problems import Problems
from harness.scenario.variables import LetError, let_order, strings, substitute
from harness.yaml_nodes import MapNode, Node, SeqNode, locate

RECALL_FIX = "ask in other words, without the fact: a provider that repeats the question would pass"
CONTAINS_FIX = "expect text that only the answer can hold, or name the place (at: …, equals: …), or use `recalled`, which judges result items"


def check_echoes(draft: Draft, problems: Problems) -> None:
    """Compare each expected text with the arguments of the call it judges, after `let` has been written out on both sides."""
    expand = _expander(draft.let)
    steps = {read.step.id: read for read in draft.steps}
    for owner, expectation in draft.expectations():
        judged = _judged(owner, expectation, {name: read.step for name, read in steps.items()})
        asked = [_normal(expand(text)) for step in judged for text in strings(step.args.get("with"))]
        for path, text in _expected(expectation):
            wanted = _normal(expand(text))
            if wanted and any(wanted in question for question in asked):
                what = f"the expected text {text!r} is already in the request of step {judged[0].id!r}"
                fix = RECALL_FIX if expectation.word == "recalled" else CONTAINS_FIX
                problems.add(_where(draft, owner, expectation, path), what, fix)


def _expander(let: Mapping[str, Any]) -> Any:
    """Text with every `let` written out; built-ins and captures stay as `${…}`, each equal only to itself."""
    values: dict[str, Any] = {}

    def lookup(name: str) -> Any:
        return values.get(name, f"${{{name}}}")

    try:
        for name in let_order(let):
            values[name] = substitute(let[name], lookup)
    except LetError:
        return lambda text: text  # reported elsewhere; there is nothing to write out
    return lambda text: substitute(text, lookup)


def _judged(owner: str, expectation: Expectation, steps: Mapping[str, Step]) -> list[Step]:
    """The step an expectation speaks of, and the step which that one carries out (approve: write)."""
    named = expectation.args.get("step") if isinstance(expectation.args, Mapping) else None
    step = steps.get(named if isinstance(named, str) else owner)
    if step is None:
        return []
    behind = steps.get(step.target) if isinstance(step.target, str) and step.verb != "call" else None
    return [step, behind] if behind is not None else [step]


def _expected(expectation: Expectation) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """(path within the arguments, text) of each text that must come back."""
    wanted = ("text", "contains") if expectation.word == "recalled" else ("contains",)
    yield from _under(expectation.args, (), wanted)


def _under(value: Any, path: tuple[str | int, ...], wanted: tuple[str, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if key in wanted:
                yield from _leaves(item, (*path, key))
            else:
                yield from _under(item, (*path, key), wanted)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _under(item, (*path, index), wanted)


def _leaves(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))


def _normal(value: Any) -> str:
    """As a lenient comparison would see it: case and runs of white space do not count."""
    return re.sub(r"\s+", " ", str(value)).strip().casefold()


def _where(draft: Draft, owner: str, expectation: Expectation, path: tuple[str | int, ...]) -> Location:
    node: Node | None = draft.part("expect")
    for read in draft.steps:
        if read.step.id == owner:
            node = read.node.entries.get("expect")
    for item in node.items if isinstance(node, SeqNode) else ():
        if item.location == expectation.location and isinstance(item, MapNode):
            return locate(item.entries[expectation.word], path)
    return expectation.location
