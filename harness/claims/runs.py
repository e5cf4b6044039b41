"""Stored runs, read and judged again: nobody takes a results.json at its word."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import harness
from harness.engine.evidence_log import parse_evidence
from harness.engine.judge import judge
from harness.errors import Incomplete, LoadError
from harness.model.evidence import FORMAT, EvidenceRecord, RunRecord
from harness.model.verdict import Results

EVIDENCE = "evidence.jsonl"
_NUMBERS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """`name` is how the user named it. `broken` says that its gateway was broken on purpose, so it proves nothing."""

    name: str
    results: Results
    records: Sequence[EvidenceRecord]
    broken: bool = False


def evidence_path(place: Path) -> Path:
    """The evidence file of a run's folder, or the file itself."""
    return place / EVIDENCE if place.is_dir() else place


def read_run(place: Path) -> StoredRun:
    """Raises LoadError (2) for what is no evidence or too new for this version, Incomplete (5) for a log that was cut short."""
    path = evidence_path(place)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LoadError(f"the evidence cannot be read: {error.strerror}", where=str(path), fix="give the folder of a run") from error
    check_format(content, str(path))
    return stored(str(place), parse_evidence(content, str(path)))


def stored(name: str, records: Sequence[EvidenceRecord]) -> StoredRun:
    broken = any(bool(r.options.get("broken_on_purpose")) for r in records if isinstance(r, RunRecord))
    return StoredRun(name, judge(records), tuple(records), broken)


def check_format(content: bytes, where: str) -> None:
    """Versions first, so that a reader is not told of unknown fields when the file is simply newer; then that nothing is cut off."""
    formats: dict[str, int] = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.startswith(b'{"kind":"run"'):
            continue
        head = _head(line)
        formats.setdefault(str(head.get("format")), number)
        refuse_newer(str(head.get("harness_version") or ""), f"{where}:{number}")
    if len(formats) > 1:
        said = ", ".join(f"{name} from line {first}" for name, first in formats.items())
        raise LoadError(f"the evidence mixes formats: {said}", where=where, fix="judge each run with the version that wrote it")
    for name, first in formats.items():
        if name != FORMAT:
            fix = "use the version of the harness that wrote it, or a newer one"
            raise LoadError(f"the evidence has format {name}; this version reads {FORMAT}", where=f"{where}:{first}", fix=fix)
    if content and not content.endswith(b"\n"):
        last = content.count(b"\n") + 1
        raise Incomplete(
            "the evidence is cut short in the middle of a record", where=f"{where}:{last}", fix="run it again; the file was left as it is"
        )


def refuse_newer(version: str, where: str) -> None:
    """Raises LoadError for evidence of a newer harness: it may mean what this one cannot know."""
    if _ordered(version) > _ordered(harness.__version__):
        what = f"the run is from harness {version}, this is {harness.__version__}"
        raise LoadError(what, where=where, fix=f"use harness {version} or newer")


def _head(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line)
    except ValueError:
        return {"format": FORMAT}  # whatever is wrong with it is said, with its place, when the records are read
    return found if isinstance(found, dict) else {"format": FORMAT}


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBERS.findall(version)[:3])
