"""A fault of the harness itself: one line for the user, the traceback in a file for us, and never an answer about the subject."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from harness.cli.console import warn
from harness.errors import Exit, UsageError


def report_crash(error: Exception, arguments: Sequence[str]) -> int:
    """Answers exit code 5: we could not tell."""
    text = "".join(traceback.format_exception(error))
    place = _keep(text, _reports(arguments))
    said = f"{type(error).__name__}: {error}".splitlines()[0]
    warn(f"error: the harness itself failed, so it cannot tell: {said}\n  fix: report it with {place}")
    return int(Exit.INCOMPLETE)


def _reports(arguments: Sequence[str]) -> Path:
    """The reports folder of a command line that may be arbitrarily wrong."""
    for position, word in enumerate(arguments):
        if word.startswith("--reports-dir="):
            return Path(word.partition("=")[2])
        if word == "--reports-dir" and position + 1 < len(arguments):
            return Path(arguments[position + 1])
    return Path("reports")


def _keep(text: str, reports: Path) -> str:
    from harness.cli.place import new_run_id
    from harness.clock import SystemClock
    from harness.report.write import write_bytes

    name = f"crash-{new_run_id(SystemClock())}.txt"
    for folder in (reports, Path(tempfile.gettempdir())):
        try:
            write_bytes(folder / name, text.encode("utf-8", "backslashreplace"))
        except UsageError:
            continue  # not writable; the next place may be
        return str(folder / name)
    return f"this traceback:\n{text}"
