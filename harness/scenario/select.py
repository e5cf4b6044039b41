"""SELECT: an id (`MEM-1`), a glob over ids (`MEM-*`), a path (file or folder), or `tag:release`. Several make a union."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from harness.errors import UsageError
from harness.model.scenario import Scenario
from harness.registry import suggest

MOST_LISTED = 12
"""Ids that an error names; of more a person reads none."""


@dataclass(frozen=True, slots=True)
class Selection:
    """`scenarios` in the order they were loaded. `idle`: globs, tags and folders that chose nothing.

    An empty selection is a result of its own (`nothing`), never "all" and never a success.
    """

    scenarios: tuple[Scenario, ...]
    idle: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        return not self.scenarios


def is_path(selector: str) -> bool:
    return not selector.startswith("tag:") and (
        "/" in selector or "\\" in selector or selector.endswith((".yaml", ".yml")) or selector in (".", "..")
    )


def sources(selectors: Sequence[str], library: Path) -> tuple[Path, ...]:
    """What to load for these selectors: the library, and each named path that lies outside it.

    When every selector is a path, only those paths are read, so that a broken file elsewhere does not stand in the way.
    Raises UsageError for a path that does not exist.
    """
    paths = [_existing(selector) for selector in selectors if is_path(selector)]
    if paths and len(paths) == len(selectors):
        return tuple(paths)
    root = library.resolve()
    return (library, *(path for path in paths if not path.resolve().is_relative_to(root)))


def select(scenarios: Sequence[Scenario], selectors: Sequence[str]) -> Selection:
    """Without selectors all that run on any machine, else the union. Raises UsageError, with a suggestion, for an id that nobody has.

    A scenario in a sandbox needs namespaces, which not every machine allows: it is red where they are missing, and so is run when named.
    """
    if not selectors:
        return Selection(tuple(s for s in scenarios if s.place == "host"))
    chosen: set[str] = set()
    idle = []
    for selector in selectors:
        found = _matches(scenarios, selector)
        if not found and not _may_be_idle(selector):
            raise UsageError(f"no scenario has the id {selector!r}", where=selector, fix=_did_you_mean(selector, [s.id for s in scenarios]))
        if not found:
            idle.append(selector)
        chosen |= found
    return Selection(tuple(s for s in scenarios if s.id in chosen), tuple(idle))


def _may_be_idle(selector: str) -> bool:
    return selector.startswith("tag:") or is_path(selector) or any(sign in selector for sign in "*?[")


def _matches(scenarios: Sequence[Scenario], selector: str) -> set[str]:
    if selector.startswith("tag:"):
        return {s.id for s in scenarios if selector.removeprefix("tag:") in s.tags}
    if is_path(selector):
        wanted = _existing(selector).resolve()
        return {s.id for s in scenarios if Path(s.file).resolve().is_relative_to(wanted)}
    exact = {s.id for s in scenarios if s.id == selector}
    return exact or {s.id for s in scenarios if fnmatchcase(s.id, selector)}


def _existing(selector: str) -> Path:
    path = Path(selector)
    try:
        exists = path.exists()
    except (OSError, ValueError):  # a name too long for the file system, or with a NUL in it
        exists = False
    if not exists:
        raise UsageError("no such file or folder", where=selector, fix="name a scenario file, a folder of them, an id, a glob or tag:NAME")
    return path


def _did_you_mean(word: str, ids: Sequence[str]) -> str:
    same = [name for name in ids if name.casefold() == word.casefold()]
    if same:
        return f"did you mean {same[0]!r}?"
    if not ids:
        return "there are no scenarios here"
    fix = suggest(word, list(ids))
    return fix if len(ids) <= MOST_LISTED or "did you mean" in fix else f"use one of the {len(ids)} that `harness list` shows"
