"""The only place that puts reports on a disk. What cannot be written is an error with an exit code, never a green run without a report."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from harness.errors import UsageError
from harness.model.verdict import Results
from harness.report.base import Report

LATEST = "latest"
_FIX = "free some space there, or name a writable folder with --reports-dir"


def run_folder(reports: Path, run: str) -> Path:
    """`reports/<run>`, made now and proven writable, so that a run is not started whose evidence could not be kept.

    Raises UsageError when it cannot be made or written, or exists already (evidence is never written over).
    """
    folder = reports / run
    try:
        folder.mkdir(parents=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except FileExistsError as error:
        raise UsageError("this run already has a folder", where=str(folder), fix="use another run id, or another --reports-dir") from error
    except OSError as error:
        raise _unwritable(folder, error) from error
    return folder


def write_reports(results: Results, reports: Iterable[Report], folder: Path) -> list[Path]:
    """Write every file of every report into `folder`; each appears whole or not at all. Raises UsageError when one cannot be written."""
    written = []
    for report in reports:
        for name, content in report.files(results).items():
            path = folder / _inside(name, report.id)
            write_bytes(path, content)
            written.append(path)
    return written


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` in one step. Raises UsageError when that fails; then the old file, if any, is untouched."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        _discard(temporary)
        raise _unwritable(path, error) from error


def point_latest(reports: Path, run: str) -> None:
    """Make `reports/latest` lead to this run: a symbolic link, or, where there are none, a text file with the run's id."""
    pointer = reports / LATEST
    if pointer.is_dir() and not pointer.is_symlink():
        raise UsageError("the pointer to the latest run is a real folder", where=str(pointer), fix="move it away; it is ours to replace")
    temporary = reports / f".{LATEST}.{run}"
    try:
        os.symlink(run, temporary, target_is_directory=True)
        os.replace(temporary, pointer)
    except OSError:
        _discard(str(temporary))
        write_bytes(pointer, f"{run}\n".encode())


def _inside(name: str, report: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\\" in name:
        raise UsageError(f"report format {report!r} wants to write outside its folder: {name!r}", fix="mend or remove that format")
    return path


def _discard(temporary: str | None) -> None:
    if temporary is not None:
        with contextlib.suppress(OSError):  # never made, or the same disk error again, which is the one reported
            os.unlink(temporary)


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot be written: {error.strerror or error}", where=str(path), fix=_FIX)
