"""What a reports folder holds: runs, and the files of a run that may be shown. Read-only, and never outside the folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

SHOWN = {
    "report.html": "text/html; charset=utf-8",
    "drift.html": "text/html; charset=utf-8",
    "results.json": "application/json",
    "summary.md": "text/plain; charset=utf-8",
    "junit.xml": "text/plain; charset=utf-8",
    "evidence.jsonl": "text/plain; charset=utf-8",
    "results.sarif": "application/json",
    "ctrf.json": "application/json",
    "nightly.json": "application/json",
    "nightly.md": "text/plain; charset=utf-8",
}
"""File name → content type. XML goes out as text, so that no browser acts on a style sheet that a file names."""

MOST_RUNS = 500
LARGEST_SUMMARY = 64 * 1024 * 1024
_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Shelved:
    """One run. `unreadable` says why its results could not be read; then the other fields are empty."""

    run: str
    files: tuple[str, ...]
    level_line: str = ""
    started_at: str = ""
    exit_code: int | None = None
    totals: tuple[tuple[str, int], ...] = ()
    unreadable: str = ""


class Shelf:
    """Raises UsageError when `folder` is no folder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise UsageError("not a folder", where=str(folder), fix="name the folder that `harness run` writes into, such as reports")
        self.folder = folder.resolve()

    def runs(self) -> Iterator[Shelved]:
        """Newest first, by name, at most MOST_RUNS: run ids begin with their time."""
        names = sorted((p.name for p in self.folder.iterdir() if p.is_dir() and not p.is_symlink() and _RUN.fullmatch(p.name)), reverse=True)
        for name in names[:MOST_RUNS]:
            files = tuple(file for file in SHOWN if self.path(name, file) is not None)
            if files:
                yield self._summary(name, files)

    def path(self, run: str, file: str) -> Path | None:
        """The file to show, or None when there is no such run, no such file, or it is not one of ours to show."""
        if not _RUN.fullmatch(run) or file not in SHOWN:
            return None
        path = self.folder / run / file
        if path.is_symlink() or path.parent.is_symlink() or not path.is_file():
            return None
        return path

    def _summary(self, name: str, files: tuple[str, ...]) -> Shelved:
        path = self.path(name, "results.json")
        if path is None:
            return Shelved(name, files, unreadable="it has no results.json: the run was broken off, or wrote none")
        try:
            if path.stat().st_size > LARGEST_SUMMARY:
                return Shelved(name, files, unreadable="its results.json is too large to list")
            found = json.loads(path.read_bytes())
            totals = found["totals"]
            return Shelved(
                name,
                files,
                level_line=str(found["level_line"]),
                started_at=str(found["started_at"]),
                exit_code=int(found["exit_code"]),
                totals=tuple((str(word), int(count)) for word, count in totals.items()),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return Shelved(name, files, unreadable=f"its results.json cannot be read: {type(error).__name__}")
