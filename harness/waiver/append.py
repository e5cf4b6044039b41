"""Adding waivers to a file that people also write: what stands there, comments too, stays as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from harness.errors import LoadError
from harness.model.waiver import Waiver
from harness.waiver.load import parse_waivers, waiver_text

_EMPTY = re.compile(r"^\[\s*\][ \t]*\r?\n?", re.MULTILINE)
_HEAD = "# Accepted exceptions. One that is expired, stale or unused is itself a finding.\n"


def with_waivers(text: str, name: str, added: Iterable[Waiver]) -> str:
    """The file's text with `added` at its end. Raises LoadErrors when the result would not be a sound file; then nothing was lost."""
    entries = "".join(waiver_text(waiver.model_dump(mode="json", exclude={"at"}, exclude_defaults=True)) for waiver in added)
    kept = _EMPTY.sub("", text, count=1) if not text.strip() or _holds_nothing(text, name) else text
    kept = kept if not kept or kept.endswith("\n") else kept + "\n"
    whole = (kept or _HEAD) + entries
    parse_waivers(whole, name)
    return whole


def _holds_nothing(text: str, name: str) -> bool:
    if not any(line.strip() and not line.lstrip().startswith("#") for line in text.splitlines()):
        return True
    found = parse_waivers(text, name)
    if found and "[" in text.lstrip()[:1]:
        raise LoadError("the list is written in brackets", where=f"{name}:1:1", fix="write one `- finding: …` per waiver, so that one can be added")
    return not found


def read_or_empty(path: Path) -> str:
    """The text of the file; nothing, where there is none yet. Raises LoadError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise LoadError(f"cannot be read: {error}", where=str(path), fix="check the path; it must be UTF-8") from error
