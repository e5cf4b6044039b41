"""`waivers.yaml` → waivers. Every problem of the file is reported at once, each with file:line:column and what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from harness.errors import LoadError, LoadErrors
from harness.model.waiver import Waiver, Where
from harness.registry import suggest
from harness.yaml_hints import source_lines
from harness.yaml_nodes import MapNode, Node, ScalarNode, SeqNode, locate, parse_yaml

KEYS = tuple(name for name in Waiver.model_fields if name != "at")
WHERE_KEYS = ("provider", "tool", "pointer", "scenario")
_FIX = {
    "finding": "write the finding's id, such as enum-narrowed",
    "owner": "name who answers for it",
    "reason": "say why it is acceptable",
    "issue": "link the issue that will end it",
    "expires": 'write a quoted date, such as "2026-12-31"',
    "accepted": 'write a quoted date, such as "2026-12-31"',
    "where": "write where: {provider: …, tool: …, pointer: …}",
    "fingerprint": "copy the 32 hexadecimal digits from the report",
}


_HIDDEN = re.compile("[\x7f-\xa0\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufdd0-\ufdef\ufeff\ufff0-\uffff\U000e0000-\U000e0fff]")


def load_waivers(path: Path) -> tuple[Waiver, ...]:
    """The waivers of a file. Raises LoadError when it cannot be read, LoadErrors for what is wrong in it."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="check the path; it must be UTF-8") from error
    return parse_waivers(text, str(path))


def parse_waivers(text: str, name: str) -> tuple[Waiver, ...]:
    """Waivers from YAML text; `name` stands in the positions."""
    node = parse_yaml(text, name)
    if not isinstance(node, SeqNode):
        raise LoadErrors([LoadError("waivers are a list", where=str(node.location), fix="write one `- finding: …` per waiver, or [] for none")])
    lines = source_lines(text)
    errors: list[LoadError] = []
    found: list[Waiver] = []
    for item in node.items:
        problems = list(_problems(item, lines))
        errors += problems
        if not problems and isinstance(item, MapNode):
            try:
                found.append(Waiver.model_validate({**item.plain(), "at": item.location}))
            except ValidationError as error:
                errors += [_explain(problem, item, lines) for problem in error.errors(include_url=False)]
    errors += list(_twice(found, lines))
    if errors:
        raise LoadErrors(errors)
    return tuple(found)


def _problems(item: Node, lines: list[str]) -> Iterator[LoadError]:
    """Misspelt keys and dates that are none, which the model alone would explain badly."""
    if not isinstance(item, MapNode):
        yield _error(item, (), "a waiver is a mapping", "write `finding:`, `where:`, `owner:`, `reason:`, `issue:` and `expires:`", lines)
        return
    where = item.entries.get("where")
    for path, mapping, known in (((), item, KEYS), (("where",), where, WHERE_KEYS)):
        if isinstance(mapping, MapNode):
            for key in mapping.entries:
                if key not in known:
                    yield _error(item, (*path, key), f"unknown key {key!r}", suggest(key, list(known)), lines)
    for key in ("expires", "accepted"):
        found = item.entries.get(key)
        if isinstance(found, ScalarNode) and isinstance(found.value, str) and not _is_day(found.value):
            yield _error(item, (key,), f"{key} is {found.value!r}, which is no date", _FIX[key], lines)


def _is_day(text: str) -> bool:
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def _explain(problem: ErrorDetails, item: MapNode, lines: list[str]) -> LoadError:
    path = tuple(problem["loc"])
    key = str(path[0]) if path else ""
    what = f"{key} is missing" if problem["type"] == "missing" else f"{'.'.join(map(str, path))}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"
    return _error(item, path, what, _FIX.get(key, "see docs/drift.md"), lines)


def _twice(found: list[Waiver], lines: list[str]) -> Iterator[LoadError]:
    seen: dict[tuple[str, Where, str | None], Waiver] = {}
    for waiver in found:
        key = (waiver.finding, waiver.where, waiver.fingerprint)
        if (first := seen.setdefault(key, waiver)) is not waiver:
            excerpt = lines[waiver.at.line - 1].strip()[:160]
            yield LoadError(f"the same waiver stands at line {first.at.line}", where=str(waiver.at), fix="remove one of them", excerpt=excerpt)


def _error(item: Node, path: tuple[str | int, ...], what: str, fix: str, lines: list[str]) -> LoadError:
    mark = locate(item, path, key=True)
    return LoadError(what, where=str(mark), fix=fix, excerpt=lines[mark.line - 1].strip()[:160])


def waiver_text(data: Mapping[str, object]) -> str:
    """One list entry in YAML, to be appended to a file. Text is quoted, so nothing can break out of it; hidden characters are escapes."""
    lines = []
    for key, value in data.items():
        shown = "{" + ", ".join(f"{k}: {_scalar(v)}" for k, v in value.items()) + "}" if isinstance(value, Mapping) else _scalar(value)
        lines.append(f"  {key}: {shown}")
    return "- " + "\n".join(lines).removeprefix("  ") + "\n"


def _scalar(value: object) -> str:
    """JSON, which YAML takes, except for what only JSON takes raw or writes as two halves."""
    return _HIDDEN.sub(lambda match: f"\\U{ord(match.group()):08x}", json.dumps(value, ensure_ascii=False))
