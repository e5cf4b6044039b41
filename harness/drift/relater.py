"""Relations under a watch that really stops: each pair is compared in a child process, which is killed when its time is up.

The comparison itself is bounded by counted steps and ends the same way everywhere; the clock is only for what nobody foresaw
(native code that does not return, memory without end). A killed or crashed child makes one pair "unproven", never compatible.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any

from harness.drift.relation import SAME, unproven
from harness.inventory.canonical import NotCanonical, json_equal
from harness.model.drift import Relation

_MEMORY = 2 * 1024**3
_START = 60.0  # seconds a child may take to be ready; its imports are not the pair's fault
_REMEMBERED = 4096
_CHILD = "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from harness.drift.related import main; main(*map(int, sys.argv[2:]))"
"""A program of its own, started with our import path: a daemonic process, as cluster workers are, may have no child of `multiprocessing`."""


class Relater:
    """Compares pairs in one child, started when first needed and again after it was killed. `budget_s`: seconds per pair.

    Same pairs are answered from memory, which holds the last few thousand. Of one thread. Use as a context manager, or `close` it; a
    child whose parent is gone ends by itself.
    """

    def __init__(self, budget_s: float = 20.0, *, memory: int = _MEMORY) -> None:
        self.budget_s = budget_s
        self._memory = memory
        self._child: subprocess.Popen[bytes] | None = None
        self._line: Connection | None = None
        self._known: dict[bytes, Relation] = {}

    def __enter__(self) -> Relater:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The child's process id; None while there is none."""
        return self._child.pid if self._child is not None else None

    def __call__(self, old: Any, new: Any, old_draft: int | None = None, new_draft: int | None = None) -> Relation:
        """The relation of two schemas; "unproven" with the reason when the child was stopped or died."""
        try:
            if old_draft == new_draft and json_equal(old, new):
                return SAME
            job = json.dumps([old, new, old_draft, new_draft]).encode()
        except (NotCanonical, RecursionError, ValueError, TypeError) as error:
            return unproven(f"no JSON to compare: {type(error).__name__}: {str(error)[:120]}")
        key = hashlib.sha256(job).digest()
        if key not in self._known:
            if len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[key] = self._asked(job)
        return self._known[key]

    def _asked(self, job: bytes) -> Relation:
        line = self._ready()
        if line is None:
            return unproven("the comparing process could not be started")
        try:
            line.send_bytes(job)
            if not line.poll(self.budget_s):
                self.close()
                return unproven(f"stopped after {self.budget_s:g} s")
            return Relation.model_validate_json(line.recv_bytes())
        except (EOFError, OSError) as error:
            code = None
            if self._child is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    code = self._child.wait(1.0)
            self.close()
            return unproven(f"the comparing process died ({type(error).__name__}, exit code {code})")

    def _ready(self) -> Connection | None:
        if self._line is not None:
            return self._line
        ours, theirs = Pipe()
        with theirs:
            path = json.dumps([os.getcwd() if place == "" else place for place in sys.path])
            words = [sys.executable, "-c", _CHILD, path, str(theirs.fileno()), str(self._memory), str(int(2 * self.budget_s) + 60)]
            try:
                self._child = subprocess.Popen(words, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])
            except OSError:
                ours.close()
                return None
        try:
            if ours.poll(_START):
                ours.recv_bytes()
                self._line = ours
                return ours
        except (EOFError, OSError):  # it ended before it was ready
            pass
        ours.close()
        self.close()
        return None

    def close(self) -> None:
        """End the child. Harmless when there is none."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def __del__(self) -> None:
        self.close()  # the child of a worker's whole life is ended with it
