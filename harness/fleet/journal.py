"""What a fleet check has done so far, on disk: one line per finished server, so that it can go on where it was broken off."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from pydantic import ValidationError

import harness
from harness.errors import Exit, UsageError
from harness.fleet.batch import Outcome
from harness.fleet.check import Policy
from harness.fleet.servers import Job
from harness.model.drift_result import FleetEntry
from harness.report.write import write_bytes

NAME = "fleet.jsonl"
_AGAIN = frozenset({int(Exit.CREDENTIALS), int(Exit.UNREACHABLE), int(Exit.INCOMPLETE)})
"""Servers that ended so are asked again: the next time they may answer."""


def plan_digest(job: Job, policy: Policy) -> str:
    """What was asked of a server, under which policy, by which version: a result is kept only for the very same question."""
    document = hashlib.sha256((job.old.document or "").encode() + b"\0" + (job.new.document or "").encode()).hexdigest()
    bare = {"old": job.old.model_copy(update={"document": None}), "new": job.new.model_copy(update={"document": None})}
    asked = [
        job.model_copy(update=bare).model_dump(mode="json"),
        document,
        sorted({*policy.fail_on}),
        dict(sorted(policy.severities.items())),
        [waiver.model_dump(mode="json", exclude={"at"}) for waiver in policy.waivers],
        policy.today if policy.waivers else "",
        harness.__version__,
    ]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:32]


class Journal:
    """The folder of one fleet check. Opened new, or, to go on, with what is in it."""

    def __init__(self, folder: Path, *, resume: bool) -> None:
        """Raises UsageError when the folder holds a check already and `resume` is off, or cannot be written."""
        self.folder = folder
        self._path = folder / NAME
        if self._path.exists() and not resume:
            fix = "go on with it: --resume, or name another folder with -o"
            raise UsageError("this folder holds a fleet check already", where=str(folder), fix=fix)
        write_bytes(folder / "servers" / ".keep", b"")  # proves that the folder can be written before anything is asked
        self.done: dict[str, FleetEntry] = {entry.id: entry for entry in _read(self._path)}
        self._file: IO[bytes] | None = None

    def finished(self, job: Job, policy: Policy) -> FleetEntry | None:
        """The result that is here already for this very question, with its page; None: it is to be asked (again)."""
        entry = self.done.get(job.server.id)
        if entry is None or entry.plan != plan_digest(job, policy) or entry.exit_code in _AGAIN:
            return None
        page = self.page_of(entry.id)
        return entry if page.is_file() and page.stat().st_size else None  # an empty one was never written out before a crash

    def page_of(self, server: str) -> Path:
        return self.folder / "servers" / f"{server}.html"

    def add(self, outcome: Outcome, plan: str) -> FleetEntry:
        """Page and document first, then the line that says that they are there; `sync` makes it last."""
        entry = outcome.entry.model_copy(update={"plan": plan})
        _write(self.folder / "servers" / f"{entry.id}.json", outcome.document)
        _write(self.page_of(entry.id), outcome.page)
        if self._file is None:
            self._file = self._path.open("ab")
        self._file.write(entry.model_dump_json().encode() + b"\n")
        self.done[entry.id] = entry
        return entry

    def sync(self) -> None:
        """Once per batch: a disk that is waited for at every server would be what a fleet waits for."""
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()


def _write(path: Path, text: str) -> None:
    """Whole or not at all, for every reader; whether it outlives a power cut is left to the system, since it can be made again."""
    half = path.with_name(f".{path.name}.half")
    try:
        half.write_bytes(text.encode("utf-8", "backslashreplace"))
        os.replace(half, path)
    except OSError as error:
        raise UsageError(
            f"cannot be written: {error.strerror}", where=str(path), fix="free some space there, or name another folder with -o"
        ) from error


def _read(path: Path) -> Iterator[FleetEntry]:
    """Later lines win. A torn last line is one that was not finished."""
    if not path.exists():
        return
    with path.open("rb") as lines:
        for line in lines:
            try:
                yield FleetEntry.model_validate_json(line)
            except ValidationError:
                continue


def in_plan_order(entries: Mapping[str, FleetEntry], order: list[str]) -> tuple[FleetEntry, ...]:
    return tuple(entries[server] for server in order if server in entries)
