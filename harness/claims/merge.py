"""Shards of one run, or several runs, as one: every record kept byte for byte, framed anew."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.claims.runs import check_format, evidence_path
from harness.engine.evidence_log import dump, parse_evidence
from harness.errors import LoadError, UsageError
from harness.model.evidence import EvidenceRecord, NoteRecord, PlanItemRecord, RunRecord

MERGED = "merged from these runs"
"""The note that names them, each with its environment."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One evidence file, read and sound. `lines` and `records` belong together, one to one."""

    name: str
    digest: str
    lines: tuple[bytes, ...]
    records: tuple[EvidenceRecord, ...]

    def frames(self, phase: str) -> list[RunRecord]:
        return [r for r in self.records if isinstance(r, RunRecord) and r.phase == phase]


def read_shard(place: Path) -> Shard:
    """Raises LoadError for what is no evidence or too new, Incomplete for a log that was cut short."""
    path = evidence_path(place)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LoadError(f"the evidence cannot be read: {error.strerror}", where=str(path), fix="give the folder of a run") from error
    check_format(content, str(path))
    lines = tuple(line for line in content.split(b"\n") if line.strip())
    return Shard(str(place), hashlib.sha256(content).hexdigest(), lines, tuple(parse_evidence(content, str(path))))


def merge(shards: Sequence[Shard]) -> bytes:
    """The merged evidence.jsonl. Raises UsageError for an item that stands twice, and for shards of different versions."""
    if len(shards) < 2:
        raise UsageError("merging takes two runs or more", where="RUN", fix="name every shard")
    _one_version(shards)
    _no_item_twice(shards)
    pieces = [_line(_start(shards)), _line(_origin(shards))]
    for shard in shards:
        pieces += [line + b"\n" for line, record in zip(shard.lines, shard.records, strict=True) if not isinstance(record, RunRecord)]
    return b"".join([*pieces, *(_line(end) for end in _end(shards))])


def _one_version(shards: Sequence[Shard]) -> None:
    versions = {start.harness_version: shard.name for shard in shards for start in shard.frames("start")}
    if len(versions) > 1:
        said = ", ".join(f"{version or 'unknown'} in {name}" for version, name in versions.items())
        raise UsageError(f"the runs are of different versions of the harness: {said}", where="RUN", fix="run all shards with one version")


def _no_item_twice(shards: Sequence[Shard]) -> None:
    first: dict[str, str] = {}
    for shard in shards:
        here = {r.item for r in shard.records if isinstance(r, PlanItemRecord) and r.phase == "start"}
        here |= {item for start in shard.frames("start") for item in start.options.get("items", ())}
        for item in sorted(here):
            if item in first:
                fix = "leave one of them out; two answers to one question cannot be merged into one"
                raise UsageError(f"{item} stands in {first[item]} too", where=shard.name, fix=fix)
            first[item] = shard.name


def _run_id(shards: Sequence[Shard]) -> str:
    """The common id of all shards, else one that is made of their contents, so that merging again gives the same."""
    ids = {start.run for shard in shards for start in shard.frames("start")}
    return ids.pop() if len(ids) == 1 else "merged-" + hashlib.sha256("".join(s.digest for s in shards).encode()).hexdigest()[:12]


def _start(shards: Sequence[Shard]) -> RunRecord:
    starts = [start for shard in shards for start in shard.frames("start")]
    missing = [shard.name for shard in shards if not shard.frames("start")]
    if missing:
        raise LoadError("the evidence lacks its beginning", where=missing[0], fix="use the evidence as the run wrote it")
    items = [item for start in starts for item in start.options.get("items", ())]
    broken = any(bool(start.options.get("broken_on_purpose")) for start in starts)
    return starts[0].model_copy(
        update={
            "run": _run_id(shards),
            "at": min(start.at for start in starts),
            "options": {"items": items, "broken_on_purpose": broken, "shards": len(shards)},
        }
    )


def _origin(shards: Sequence[Shard]) -> NoteRecord:
    data = [
        {"run": start.run, "at": start.at, "sha256": shard.digest, "environment": dict(start.environment)}
        for shard in shards
        for start in shard.frames("start")
    ]
    return NoteRecord(text=MERGED, data=data)


def _end(shards: Sequence[Shard]) -> Iterator[RunRecord]:
    """Only when every shard came to its end; what broke one off is what broke off the whole."""
    ends = [shard.frames("end") for shard in shards]
    if all(ends):
        last = max((e for found in ends for e in found), key=lambda e: e.at)
        trouble = next((e.trouble for found in ends for e in found if e.trouble is not None), None)
        yield last.model_copy(update={"run": _run_id(shards), "trouble": trouble})


def _line(record: EvidenceRecord) -> bytes:
    return dump(record).encode("utf-8", "backslashreplace") + b"\n"
