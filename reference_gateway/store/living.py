"""Which of the processes that ever had one SQLite file open still live: what they have not finished is theirs, and not lost.

Each holds the lock of a file of its own beside the store; the kernel takes the lock back when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

_MODE = 0o600


class Living:
    def __init__(self, store: str) -> None:
        self._store = Path(store)
        self._held: int | None = None
        self._mine: Path | None = None

    def begin(self, instance: int) -> None:
        """This process lives, under that number, until `end` or its death. Raises OSError."""
        for name in self._store.parent.glob(f"{_escaped(self._store.name)}-live-*"):
            _is_locked(name)  # what the dead left is cleared away
        self._mine = self._file(instance)
        self._held = os.open(self._mine, os.O_RDWR | os.O_CREAT, _MODE)
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def end(self) -> None:
        if self._held is not None and self._mine is not None:
            self._mine.unlink(missing_ok=True)
            os.close(self._held)
            self._held = None

    def lives(self, instance: int) -> bool:
        return _is_locked(self._file(instance))

    def _file(self, instance: int) -> Path:
        return self._store.with_name(f"{self._store.name}-live-{instance}")


def _is_locked(file: Path) -> bool:
    """A file that nobody holds is removed: numbers are never given twice, so nobody will hold it again."""
    try:
        descriptor = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        file.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)


def _escaped(name: str) -> str:
    """For a pattern that must match nothing but itself."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)
