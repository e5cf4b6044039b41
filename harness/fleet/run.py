"""A fleet checked: batches handed to workers, never more under way than they can take, each result written as it comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

import harness
from harness.errors import Exit, HarnessError, Incomplete, fold_exit
from harness.fleet.batch import Outcome, outcome_of
from harness.fleet.check import Policy
from harness.fleet.journal import Journal, in_plan_order, plan_digest
from harness.fleet.pair import Pair, could_not
from harness.fleet.servers import Job, Server, sources_of
from harness.fleet.side import with_document
from harness.fleet.workers import Workers
from harness.model.drift_result import FleetEntry, FleetResult
from harness.waiver.apply import unused_everywhere

BATCH = 32
"""Servers that a worker gets at once, at most."""

Listener = Callable[[FleetEntry, int, int], None]
"""(a finished server, how many are finished, of how many)."""


@dataclass
class _Under:
    """What is under way; `lonely` is the one that runs with nothing beside it.

    `suspects` are servers of batches that ended when a worker died: each runs alone, so that only the guilty one is blamed.
    """

    futures: dict[Future[list[str]], list[Job]] = field(default_factory=dict)
    lonely: Future[list[str]] | None = None
    suspects: deque[Job] = field(default_factory=deque)


class FleetRun:
    """`folder` is that of the servers' file, `folders` those of inventories."""

    def __init__(self, servers: Sequence[Server], policy: Policy, journal: Journal, *, folder: Path, folders: Sequence[Path]) -> None:
        self._servers, self._journal = servers, journal
        self._policy = replace(policy, alone=False)
        self._folder, self._folders = folder, folders
        self._known: dict[str, str] = {}

    def run(self, workers: Workers, listener: Listener | None = None, *, batch: int | None = None) -> FleetResult:
        """Never stops for one server. At most two batches per worker are under way, so memory does not grow with the fleet."""
        tell = listener or (lambda entry, done, total: None)
        entries: dict[str, FleetEntry] = {}

        def keep(entry: FleetEntry) -> None:
            entries[entry.id] = entry
            tell(entry, len(entries), len(self._servers))

        batches = self._batches(batch or max(1, min(BATCH, -(-len(self._servers) // (2 * workers.size)))), keep)
        under = _Under()
        while True:
            self._hand_out(workers, batches, under)
            if not under.futures:
                break
            for future in wait(under.futures, return_when=FIRST_COMPLETED).done:
                for outcome in self._answers(future, under, workers):
                    keep(self._journal.add(outcome, self._known[outcome.entry.id]))
            self._journal.sync()
        return self._result(entries, workers)

    def _batches(self, size: int, keep: Callable[[FleetEntry], None]) -> Iterator[list[Job]]:
        """Files are read only now, as their batch is handed out. What cannot be read, or is finished already, needs no worker."""
        pending: list[Job] = []
        for server in self._servers:
            job = self._job(server, keep)
            if job is None:
                continue
            pending.append(job)
            if len(pending) == size:
                yield pending
                pending = []
        if pending:
            yield pending

    def _job(self, server: Server, keep: Callable[[FleetEntry], None]) -> Job | None:
        old, new = sources_of(server, self._folder)
        try:
            job = Job(server=server, old=with_document(old, self._folders), new=with_document(new, self._folders))
        except HarnessError as error:
            self._known[server.id] = ""
            keep(self._journal.add(self._failed(Job(server=server, old=old, new=new), error), ""))
            return None
        finished = self._journal.finished(job, self._policy)
        if finished is not None:
            keep(finished)
            return None
        self._known[server.id] = plan_digest(job, self._policy)
        return job

    def _hand_out(self, workers: Workers, batches: Iterator[list[Job]], under: _Under) -> None:
        if under.suspects:
            if not under.futures:
                under.lonely = self._submit(workers, [under.suspects.popleft()], under)
            return
        while len(under.futures) < 2 * workers.size and (jobs := next(batches, None)) is not None:
            self._submit(workers, jobs, under)

    def _submit(self, workers: Workers, jobs: list[Job], under: _Under) -> Future[list[str]]:
        future = workers.submit([job.model_dump_json() for job in jobs], self._policy)
        under.futures[future] = jobs
        return future

    def _answers(self, future: Future[list[str]], under: _Under, workers: Workers) -> list[Outcome]:
        """What a finished batch says. When its worker died, its servers become suspects; a suspect whose worker dies again is the cause."""
        jobs = under.futures.pop(future)
        error = future.exception()
        if error is None:
            return [Outcome.model_validate_json(answer) for answer in future.result()]
        if not under.futures:
            workers.renew()
        if future is not under.lonely:
            under.suspects.extend(jobs)
            return []
        said = f"the worker that checked it died: {type(error).__name__}: {str(error)[:200]}"
        return [self._failed(jobs[0], Incomplete(said, where=jobs[0].server.id, fix="check it alone: harness drift OLD NEW"))]

    def _failed(self, job: Job, error: HarnessError) -> Outcome:
        pair = Pair(job.old, job.new, subject=job.server.id, against=job.server.against)
        return outcome_of(job, could_not(pair, self._policy, error))

    def _result(self, entries: dict[str, FleetEntry], workers: Workers) -> FleetResult:
        ordered = in_plan_order(entries, [server.id for server in self._servers])
        codes = {Exit(entry.exit_code) for entry in ordered}
        whole = all(entry.exit_code in (Exit.OK, Exit.DRIFT) for entry in ordered)
        used = {at for entry in ordered for at in entry.used_waivers}
        notices = unused_everywhere(self._policy.waivers, [w for w in self._policy.waivers if str(w.at) in used]) if whole else ()
        if notices and {"risk", "any"} & set(self._policy.fail_on):
            codes.add(Exit.DRIFT)
        reasons = [f"{entry.id}: exit code {entry.exit_code}: {entry.reason}" for entry in ordered if entry.exit_code]
        return FleetResult(
            entries=ordered,
            exit_code=int(fold_exit(codes)),
            reasons=tuple(reasons),
            notices=notices,
            workers=workers.name,
            harness_version=harness.__version__,
        )
