"""`release.yaml` → a policy. Every problem of the file is reported at once, each with file:line:column and what to do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, ValidationError, WithJsonSchema
from pydantic_core import ErrorDetails

from harness.errors import LoadError, LoadErrors
from harness.model.location import NOWHERE, Frozen, Location
from harness.model.scenario import Level
from harness.registry import suggest
from harness.scenario.durations import Seconds
from harness.yaml_hints import source_lines
from harness.yaml_nodes import MapNode, Node, SeqNode, locate, parse_yaml

_AGE = re.compile(r"([0-9]{1,6})([dhm])\Z")
_UNIT = {"d": 86_400.0, "h": 3_600.0, "m": 60.0}
OTHERS = "any"
"""The name under `providers` that stands for every provider that has no entry of its own."""


def _age(written: object) -> object:
    if isinstance(written, float):
        return written
    found = _AGE.match(written) if isinstance(written, str) else None
    if found is None:
        raise ValueError('write an age such as "7d", "12h" or "30m"')
    return int(found.group(1)) * _UNIT[found.group(2)]


Age = Annotated[float, BeforeValidator(_age), WithJsonSchema({"type": "string", "pattern": "^[0-9]+[dhm]$"})]
Percent = Annotated[int, Field(strict=True, ge=0, le=100)]
Select = Annotated[str, StringConstraints(min_length=1, strip_whitespace=True)]


class Require(Frozen):
    """Each scenario that `select` (an id, a glob or tag:NAME) names must pass, all its claims proven, at its providers' minimum level."""

    select: Select
    at: Location = NOWHERE


class ProviderRule(Frozen):
    """Evidence that counts for a provider: at least this level, at most this old (seconds; None: of any age)."""

    level: Level
    max_age: Age | None = None
    at: Location = NOWHERE


class DriftRule(Frozen):
    """At most so many drift findings in the newest evidence, accepted ones not counted."""

    at_most: Annotated[int, Field(strict=True, ge=0)]
    at: Location = NOWHERE


class CoverageRule(Frozen):
    """Percentages of the agreed tools (of one provider, else of all) that must be listed, called, and called in agreement at `level`."""

    level: Level
    provider: str | None = None
    listed: Percent = 0
    called: Percent = 0
    agreed: Percent = 0
    at: Location = NOWHERE


class BudgetRule(Frozen):
    """Seconds that a scenario may take, and that a write may take to become visible."""

    select: Select
    seconds: Seconds | None = None
    visible: Seconds | None = None
    at: Location = NOWHERE


class Policy(Frozen):
    """A parsed policy. `waivers` is a path beside the policy's own file. A provider without a rule needs level local, of any age."""

    policy: Select
    require: tuple[Require, ...]
    providers: Mapping[str, ProviderRule] = Field(default_factory=dict)
    drift: DriftRule | None = None
    coverage: tuple[CoverageRule, ...] = ()
    budget: tuple[BudgetRule, ...] = ()
    waivers: str = ""
    file: str = ""

    def rule_of(self, provider: str) -> ProviderRule:
        return self.providers.get(provider) or self.providers.get(OTHERS) or ProviderRule(level="local")


KEYS = tuple(name for name in Policy.model_fields if name != "file")
_LISTS: Mapping[str, type[Frozen]] = {"require": Require, "coverage": CoverageRule, "budget": BudgetRule}
_FIX = {
    "policy": "name it: policy: release",
    "require": "list what must pass: require: [tag:release]",
    "level": "write fake, replayed, local or live",
    "max_age": 'write an age such as "7d"',
    "at_most": "write a whole number",
}


def load_policy(path: Path) -> Policy:
    """Raises LoadError when the file cannot be read, LoadErrors for what is wrong in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"the policy cannot be read: {error}", where=str(path), fix="name a policy file, such as release.yaml") from error
    return parse_policy(text, str(path))


def parse_policy(text: str, name: str) -> Policy:
    """A policy from YAML text; `name` stands in the positions."""
    node = parse_yaml(text, name)
    lines = source_lines(text)
    if not isinstance(node, MapNode):
        raise LoadErrors([_error(node, (), "a policy is a mapping", "begin with `policy: release`", lines)])
    problems = list(_unknown(node, lines))
    if not problems:
        try:
            return Policy.model_validate({**_with_places(node), "file": name})
        except ValidationError as error:
            problems = [_explain(problem, node, lines) for problem in error.errors(include_url=False)]
    raise LoadErrors(problems)


def _unknown(node: MapNode, lines: list[str]) -> Iterator[LoadError]:
    yield from _misspelt(node, (), node, KEYS, "rule", lines)
    for word, model in _LISTS.items():
        found = node.entries.get(word)
        for number, item in enumerate(found.items if isinstance(found, SeqNode) else ()):
            yield from _misspelt(node, (word, number), item, _fields(model), "key", lines)
    yield from _misspelt(node, ("drift",), node.entries.get("drift"), _fields(DriftRule), "key", lines)
    providers = node.entries.get("providers")
    for provider, rule in providers.entries.items() if isinstance(providers, MapNode) else ():
        yield from _misspelt(node, ("providers", provider), rule, _fields(ProviderRule), "key", lines)


def _fields(model: type[Frozen]) -> tuple[str, ...]:
    return tuple(name for name in model.model_fields if name != "at")


def _misspelt(root: Node, path: tuple[str | int, ...], node: Node | None, known: tuple[str, ...], what: str, lines: list[str]) -> Iterator[LoadError]:
    for key in node.entries if isinstance(node, MapNode) else ():
        if key not in known:
            yield _error(root, (*path, key), f"unknown {what} {key!r}", suggest(key, list(known)), lines)


def _with_places(node: MapNode) -> dict[str, Any]:
    """The document as data, each rule knowing its place; a bare text under `require` is its `select`."""
    data = node.plain()
    for word in _LISTS:
        found = node.entries.get(word)
        if isinstance(found, SeqNode):
            data[word] = [
                _placed({"select": item.plain()} if word == "require" and not isinstance(item, MapNode) else item.plain(), item)
                for item in found.items
            ]
    drift = node.entries.get("drift")
    if isinstance(drift, MapNode):
        data["drift"] = _placed(drift.plain(), drift)
    providers = node.entries.get("providers")
    if isinstance(providers, MapNode):
        data["providers"] = {name: _placed(rule.plain(), rule) for name, rule in providers.entries.items()}
    return data


def _placed(data: Any, node: Node) -> Any:
    return {**data, "at": node.location} if isinstance(data, dict) else data


def _explain(problem: ErrorDetails, node: Node, lines: list[str]) -> LoadError:
    path = tuple(problem["loc"])
    key = str(path[-1]) if path else ""
    dotted = ".".join(map(str, path))
    message = problem["msg"].removeprefix("Value error, ")
    what = f"{dotted} is missing" if problem["type"] == "missing" else f"{dotted}: {message[:1].lower()}{message[1:]}"
    return _error(node, path, what, _FIX.get(key, "see docs/gate.md"), lines)


def _error(node: Node, path: tuple[str | int, ...], what: str, fix: str, lines: list[str]) -> LoadError:
    mark = locate(node, path, key=True)
    return LoadError(what, where=str(mark), fix=fix, excerpt=lines[mark.line - 1].strip()[:160] if lines else "")
