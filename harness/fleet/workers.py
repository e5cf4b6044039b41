"""Where batches run: processes of this machine, or a Dask cluster. Both give futures of the standard library, so one loop drives either."""

from __future__ import annotations

import importlib
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from types import TracebackType
from typing import Any, Protocol, Self

from harness.errors import UsageError
from harness.fleet.batch import work
from harness.fleet.check import Policy


class Workers(Protocol):
    """`size` is how many batches run at the same time."""

    @property
    def size(self) -> int: ...
    @property
    def name(self) -> str: ...
    def submit(self, jobs: Sequence[str], policy: Policy) -> Future[list[str]]: ...
    def renew(self) -> None:
        """After a worker died: make sure that the next batch finds a living one."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...


class Processes:
    """A pool of `size` processes, each replaced after some batches: what a server made them keep does not pile up."""

    def __init__(self, size: int, *, do: Callable[[Sequence[str], Policy], list[str]] = work) -> None:
        self.size = size
        self.name = f"{size} processes"
        self._work = do
        self._pool: Executor | None = None

    def submit(self, jobs: Sequence[str], policy: Policy) -> Future[list[str]]:
        if self._pool is None:
            context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
            self._pool = ProcessPoolExecutor(self.size, mp_context=context, max_tasks_per_child=50)
        try:
            return self._pool.submit(self._work, list(jobs), policy)
        except BrokenExecutor as error:  # a worker died a moment ago; what is handed out now shares the fate of what was under way
            broken: Future[list[str]] = Future()
            broken.set_exception(error)
            return broken

    def renew(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.renew()


class Dask:
    """The cluster behind a scheduler's address. Its workers need this package, and the variables that headers are read from."""

    def __init__(self, address: str, *, connect_s: float = 10.0) -> None:
        """Raises UsageError when the optional package is missing, or nothing answers at the address."""
        try:
            distributed: Any = importlib.import_module("distributed")
        except ImportError as error:
            fix = "pip install 'mcp-gateway-acceptance[fleet]'"
            raise UsageError("the package `distributed` is not installed", where="--scheduler", fix=fix) from error
        try:
            self._client: Any = distributed.Client(address, timeout=connect_s, set_as_default=False)
        except (OSError, ValueError) as error:
            fix = "start one with `dask scheduler`, and name its address"
            raise UsageError(f"no scheduler answers: {str(error)[:200]}", where=address, fix=fix) from error
        self._executor: Any = self._client.get_executor(pure=False, retries=0)
        self.size = max(1, sum(self._client.nthreads().values()))
        self.name = f"{self.size} threads of workers at {address}"

    def submit(self, jobs: Sequence[str], policy: Policy) -> Future[list[str]]:
        future: Future[list[str]] = self._executor.submit(work, list(jobs), policy)
        return future

    def renew(self) -> None:
        """The cluster restarts its own workers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._executor.shutdown(wait=False)
        self._client.close()
