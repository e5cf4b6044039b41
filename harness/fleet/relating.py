"""Who decides pairs of schemas: a watched child process, or, where a process may have no children, this one."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.drift.relater import Relater
from harness.drift.relation import relate
from harness.drift.relations import RelateSchemas
from harness.model.drift import Relation

BUDGET_S = 20.0


@contextmanager
def relater(budget_s: float = BUDGET_S) -> Iterator[RelateSchemas]:
    """A Relater. In a daemonic process (some cluster workers are), which may start none, the same comparison bounded by its own steps only."""
    if multiprocessing.current_process().daemon:
        yield _here
        return
    with Relater(budget_s) as watched:
        yield watched


def _here(old: Any, new: Any, old_draft: int | None, new_draft: int | None) -> Relation:
    return relate(old, new, old_draft=old_draft, new_draft=new_draft)
