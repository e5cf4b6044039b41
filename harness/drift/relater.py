"""Relations under a watch that really stops: each pair is compared in a child process, which is killed when its time is up.

The comparison itself is bounded by counted steps and ends the same way everywhere; the clock is only for what nobody foresaw
(native code that does not return, memory without end). A killed or crashed child makes one pair "unproven", never compatible.
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any

from harness.drift.relation import SAME, relate, unproven
from harness.inventory.canonical import NotCanonical, json_equal
from harness.model.drift import Relation

RelateSchemas = Callable[[Any, Any, int | None, int | None], Relation]
"""(old, new, old draft, new draft) → their relation: what `compare` asks for."""
_MEMORY = 2 * 1024**3
_START = 60.0  # seconds a child may take to be ready; its imports are not the pair's fault


class Relater:
    """Compares pairs in one child, started when first needed and again after it was killed. `budget_s`: seconds per pair.

    Same pairs are answered from memory. Use as a context manager, or `close` it.
    """

    def __init__(self, budget_s: float = 20.0, *, memory: int = _MEMORY) -> None:
        self.budget_s = budget_s
        self._memory = memory
        self._child: multiprocessing.process.BaseProcess | None = None
        self._line: Connection | None = None
        self._known: dict[str, Relation] = {}

    def __enter__(self) -> Relater:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __call__(self, old: Any, new: Any, old_draft: int | None = None, new_draft: int | None = None) -> Relation:
        """The relation of two schemas; "unproven" with the reason when the child was stopped or died."""
        try:
            if old_draft == new_draft and json_equal(old, new):
                return SAME
            job = json.dumps([old, new, old_draft, new_draft])
        except (NotCanonical, RecursionError, ValueError, TypeError) as error:
            return unproven(f"no JSON to compare: {type(error).__name__}: {str(error)[:120]}")
        if job not in self._known:
            self._known[job] = self._asked(job)
        return self._known[job]

    def _asked(self, job: str) -> Relation:
        line = self._ready()
        if line is None:
            return unproven("the comparing process could not be started")
        try:
            line.send_bytes(job.encode())
            if not line.poll(self.budget_s):
                self.close()
                return unproven(f"stopped after {self.budget_s:g} s")
            return Relation.model_validate_json(line.recv_bytes())
        except (EOFError, OSError) as error:
            code = None
            if self._child is not None:
                self._child.join(1.0)
                code = self._child.exitcode
            self.close()
            return unproven(f"the comparing process died ({type(error).__name__}, exit code {code})")

    def _ready(self) -> Connection | None:
        if self._line is not None:
            return self._line
        context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
        ours, theirs = context.Pipe()
        self._child = context.Process(target=serve, args=(theirs, self._memory), daemon=True)
        self._child.start()
        theirs.close()
        if not ours.poll(_START):
            ours.close()
            self.close()
            return None
        try:
            ours.recv_bytes()
        except EOFError:
            ours.close()
            self.close()
            return None
        self._line = ours
        return ours

    def close(self) -> None:
        """End the child. Harmless when there is none."""
        if self._line is not None:
            self._line.close()
            self._line = None
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._child.close()
            self._child = None


def serve(line: Connection, memory: int) -> None:
    """The child: one relation for each job, until the line closes."""
    _bound_memory(memory)
    line.send_bytes(b"ready")
    while True:
        try:
            job = json.loads(line.recv_bytes())
        except EOFError:
            return
        old, new, old_draft, new_draft = job
        line.send_bytes(relate(old, new, old_draft=old_draft, new_draft=new_draft).model_dump_json().encode())


def _bound_memory(memory: int) -> None:
    try:
        import resource
    except ImportError:  # not on this platform; the time limit still holds
        return
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
