"""What was known of a gateway before it was measured here, and whether our own measurement shows the same. Pure, except for reading a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from harness.errors import LoadError
from harness.model.location import Frozen
from harness.transparency.facts import Fact, Judged, Report
from harness.yaml_nodes import parse_yaml


class Known(Frozen):
    """One statement. `fact`: a pattern over AREA.WORD/SUBJECT; every fact that it names must be as `shows` has it.

    shows     kept, changed, or reversed; or {value: what the gateway shows}, {within: a part of it}, {total: the sum of its figures}
    audit     (instead of fact) case → the words that its entry must have
    catalog   (instead of fact) change → the words that its views must have
    outside   it cannot be shown by a measurement such as ours, and `why` says why not
    otherwise ours shows something else, and `why` says what the reason is
    """

    said: str
    fact: str = ""
    shows: Literal["kept", "changed", "reversed"] | Mapping[Literal["value", "within", "total"], Any] = "changed"
    audit: Mapping[str, Mapping[str, str]] = {}
    catalog: Mapping[str, Mapping[str, Any]] = {}
    outside: bool = False
    otherwise: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """`section` and `index`: where in the report it was looked for."""

    holds: bool
    section: str
    index: int


def look(one: Known, report: Report) -> Look | None:
    """None for what is outside. What is not in the report at all does not hold."""
    if one.outside:
        return None
    if one.fact:
        found = [(i, each) for i, each in enumerate(report.judged) if fnmatchcase(each.fact.key, one.fact)]
        return Look(bool(found) and all(_shows(one, each) for _, each in found), "judged", found[0][0] if found else -1)
    entries: Sequence[Any] = report.audit if one.audit else report.catalog
    wanted = one.audit or one.catalog
    key = "case" if one.audit else "change"
    told = [(i, each.model_dump()) for i, each in enumerate(entries)]
    found_at = [(i, each) for i, each in told if each[key] in wanted]
    holds = len(found_at) == len(wanted) and all(wanted[each[key]].items() <= each.items() for _, each in found_at)
    return Look(bool(wanted) and holds, "audit" if one.audit else "catalog", found_at[0][0] if found_at else -1)


def _shows(one: Known, judged: Judged) -> bool:
    fact: Fact = judged.fact
    if one.shows == "kept":
        return not fact.differs
    if one.shows == "changed":
        return fact.differs
    if one.shows == "reversed":
        return bool(fact.through) and list(fact.through) == list(reversed(fact.direct))
    ((how, wanted),) = one.shows.items()
    if how == "value":
        return bool(fact.through == wanted)
    if how == "total":
        return isinstance(fact.through, Mapping) and sum(fact.through.values()) == wanted
    return _within(wanted, fact.through)


def _within(wanted: Any, found: Any) -> bool:
    """`wanted` is in `found`: as a member of a list, or by keys of an object, at every level that it names."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(key in found and _within(value, found[key]) for key, value in wanted.items())
    return wanted in found if isinstance(found, list) else bool(wanted == found)


def is_known(key: str, known: Sequence[Known]) -> bool:
    """Whether a difference was told of before."""
    return any(one.fact and fnmatchcase(key, one.fact) for one in known) or any(
        key in {*(f"audit.{case}" for case in one.audit), *(f"catalog.{change}" for change in one.catalog)} for one in known
    )


def load_known(path: Path) -> dict[str, tuple[Known, ...]]:
    """Target → statements. Raises LoadError."""
    try:
        value: Any = parse_yaml(path.read_text(encoding="utf-8"), str(path)).plain()
        return {str(target): tuple(Known.model_validate(each) for each in ones) for target, ones in value.items()}
    except (OSError, UnicodeDecodeError, AttributeError, TypeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="write target: [{said, fact, shows}, ...]") from error
    except ValidationError as error:
        first = error.errors()[0]
        raise LoadError(f"{first['loc']}: {first['msg']}", where=str(path), fix=f"write {', '.join(Known.model_fields)}") from None
