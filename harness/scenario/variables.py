"""Variables: `${name}` of `let:`, `${step.capture}`, and the built-ins `${run.id}` and `${nonce}`.

A template may stand in any string. A string that is exactly one template takes the value with its JSON type; elsewhere
text is inserted as it is and other values as compact JSON. `$${` stands for a literal `${`. Inserted text is never read again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from pydantic import BaseModel

from harness.errors import Untestable, UsageError

M = TypeVar("M", bound=BaseModel)

BUILT_INS = ("run.id", "nonce")
MAX_TEXT = 1_000_000
_TOKEN = re.compile(r"(?P<escape>\$\$\{)|\$\{(?P<name>[^{}]*)\}|(?P<open>\$\{)")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)?\Z")


class Unresolved(Untestable):
    """A variable without a value at this moment, as a capture that its step never made. `names` says which."""

    def __init__(self, names: tuple[str, ...], *, where: str = "") -> None:
        shown = ", ".join(f"${{{name}}}" for name in names)
        super().__init__(f"no value for {shown}", where=where, fix="see why the step that should have captured it did not")
        self.names = names


def escape(text: str) -> str:
    """Text that renders back to `text`, whatever it holds."""
    return text.replace("${", "$${")


def strings(value: Any) -> Iterator[str]:
    """Every string value in nested data; keys are not values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from strings(item)


def template_faults(text: str) -> tuple[str, ...]:
    """The malformed templates in one string: `${`, `${}`, `${ fact }`, `${a.b.c}`."""
    found = []
    for token in _TOKEN.finditer(text):
        if token["open"]:
            found.append(text[token.start() : token.start() + 20])
        elif token["name"] is not None and not _NAME.match(token["name"]):
            found.append(token.group())
    return tuple(found)


def references(value: Any) -> set[str]:
    """The names that the templates in `value` (nested data) stand for."""
    return {name for text in strings(value) for name in _named(text)}


def has_template(value: object) -> bool:
    return isinstance(value, str) and any(token["name"] is not None for token in _TOKEN.finditer(value))


def whole_template(text: str) -> str | None:
    """The name, when the string is exactly one template."""
    token = _TOKEN.fullmatch(text)
    return token["name"] if token else None


def substitute(value: Any, lookup: Callable[[str], Any]) -> Any:
    """`value` with its templates replaced by what `lookup` returns for each name; the rest is untouched."""
    if isinstance(value, str):
        return _substitute_text(value, lookup)
    if isinstance(value, Mapping):
        return {key: substitute(item, lookup) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [substitute(item, lookup) for item in value]
    return value


def _substitute_text(text: str, lookup: Callable[[str], Any]) -> Any:
    if (name := whole_template(text)) is not None:
        return lookup(name)

    def insert(token: re.Match[str]) -> str:
        if token["name"] is None:
            return "${"
        found = lookup(token["name"])
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, separators=(",", ":"))

    parts, end, length = [], 0, 0
    for token in _TOKEN.finditer(text):
        parts += [text[end : token.start()], insert(token)]
        length += len(parts[-1])
        if length > MAX_TEXT:
            raise UsageError(f"a text grows beyond {MAX_TEXT:,} characters", where=text[:60], fix="insert less")
        end = token.end()
    return "".join([*parts, text[end:]])


class LetError(UsageError):
    """`let` has no values. `name` is the variable at which that shows."""

    def __init__(self, what: str, *, name: str, fix: str) -> None:
        super().__init__(what, where=f"let.{name}", fix=fix)
        self.name = name


def let_order(let: Mapping[str, Any]) -> tuple[str, ...]:
    """Names so ordered that each stands after those it uses. Raises LetError: a ring, or a value that grows without measure."""
    order = _sorted_by_need(let)
    weight: dict[str, int] = {}  # characters when written out, so that nothing is written out to find that it is too much
    for name in order:
        weight[name] = sum(len(text) + sum(weight.get(need, 40) for need in _named(text)) for text in strings(let[name]))
        if weight[name] > MAX_TEXT:
            raise LetError(f"the variable {name!r} grows beyond {MAX_TEXT:,} characters", name=name, fix="insert less into it")
    return order


def _named(text: str) -> list[str]:
    """Every name in a text, as often as it stands there."""
    return [token["name"] for token in _TOKEN.finditer(text) if token["name"]]


def _sorted_by_need(let: Mapping[str, Any]) -> tuple[str, ...]:
    order: list[str] = []
    state: dict[str, int] = {}  # 1 while its own needs are being visited, 2 when placed
    for start in let:
        trail = [(start, iter(sorted(references(let[start]))))] if start not in state else []
        state.setdefault(start, 1)
        while trail:
            name, needs = trail[-1]
            need = next((n for n in needs if n in let and state.get(n) != 2), None)
            if need is None:
                trail.pop()
                state[name] = 2
                order.append(name)
            elif need in state:
                names = [n for n, _ in trail]
                ring = [*names[names.index(need) :], need]
                raise LetError(f"circular let: {' -> '.join(ring)}", name=need, fix="give one of them a value of its own")
            else:
                state[need] = 1
                trail.append((need, iter(sorted(references(let[need])))))
    return tuple(order)


@dataclass(frozen=True, slots=True)
class Bindings:
    """Name → value, complete for `let`, growing by captures. Immutable: `with_captures` returns a new one."""

    values: Mapping[str, Any]

    @classmethod
    def start(cls, let: Mapping[str, Any], *, run_id: str, nonce: str) -> Bindings:
        """Resolve `let`. The caller supplies values that are unique per run; nothing is drawn here."""
        bound = cls(MappingProxyType({"run.id": run_id, "nonce": nonce}))
        for name in let_order(let):
            value = bound.render(let[name], where=f"let.{name}")
            bound = cls(MappingProxyType({**bound.values, name: value}))
        return bound

    def with_captures(self, step: str, captured: Mapping[str, Any]) -> Bindings:
        """These, and `${step.name}` for each captured name."""
        return Bindings(MappingProxyType({**self.values, **{f"{step}.{name}": value for name, value in captured.items()}}))

    def missing(self, value: Any) -> tuple[str, ...]:
        """The names in `value` that have no value yet, sorted."""
        return tuple(sorted(references(value) - set(self.values)))

    def render_model(self, model: M, *, where: object = "") -> M:
        """A model whose texts may hold templates (such as a ConnectionSpec), rendered and validated again."""
        return type(model).model_validate(self.render(model.model_dump(by_alias=True), where=where))

    def render(self, value: Any, *, where: object = "") -> Any:
        """`value` with every template replaced. `where` (a Location or text) is named in the error.

        Raises Unresolved, listing every name without a value.
        """
        if names := self.missing(value):
            raise Unresolved(names, where=str(where))
        return substitute(value, self.values.__getitem__)
