"""Who decides pairs of schemas: a watched child process; for a command as long as it runs, in a worker for the worker's whole life."""

from __future__ import annotations

import threading
from functools import lru_cache

from harness.drift.relater import Relater
from harness.drift.relations import RelateSchemas

BUDGET_S = 20.0


def relater(budget_s: float = BUDGET_S) -> Relater:
    """Use as a context manager: the child ends with it."""
    return Relater(budget_s)


def lasting() -> RelateSchemas:
    """This thread's relater, the same at every call: starting a child costs more than most servers' comparisons."""
    return _of_thread(threading.get_ident())


@lru_cache(maxsize=16)  # a relater has one conversation with its child, so each thread of a cluster's worker has its own
def _of_thread(thread: int) -> Relater:
    return Relater(BUDGET_S)
