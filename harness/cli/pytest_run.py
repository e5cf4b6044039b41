"""Running scenarios one at a time in a pytest process: a bench that stays up, an evidence file for each item."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.place import RunPlace
from harness.cli.session import attempt
from harness.errors import HarnessError, Incomplete, UsageError
from harness.model.evidence import PlanItemRecord, Trouble
from harness.model.plan import PlanItem
from harness.model.verdict import Verdict

if TYPE_CHECKING:
    from harness.engine.audit_log import AuditWatch
    from harness.engine.bench import Bench

ITEMS = "items"
AUDITS = "99998-audit"
"""Files named so hold the audit log of a bench; they come after those of the items."""
AGAIN = ".again"


class PytestRun:
    """The scenarios of one process: all of them without xdist, else those that its worker is given."""

    def __init__(self, place: RunPlace, items: Sequence[PlanItem], defects: Sequence[str], worker: str) -> None:
        self._place = place
        self._items = {item.id: item for item in items}
        self._defects = tuple(defects)
        self._order = {item.id: position for position, item in enumerate(items)}
        self._worker = worker
        self._mine: set[str] = set()
        self._host: BenchHost | None = None
        self._secrets: dict[str, str] = {}
        """Secret → its name, of every item so far: the audit log of a bench is of all its items."""
        self._on_bench: list[str] = []
        self._benches = 0

    def begun_elsewhere(self, name: str) -> bool:
        return name not in self._mine and self._path(name).exists()

    def mark_again(self, name: str) -> None:
        """This worker was given an item that a lost one had begun, and lets its listeners know."""
        self._path(name).with_suffix(AGAIN).touch()

    def carry_out(self, name: str) -> Verdict:
        """Run it, keep the evidence, judge it. Raises HarnessError when it was begun before, or evidence cannot be kept."""
        from harness.engine.evidence_log import read_evidence
        from harness.engine.judge import judge

        path = self._claim(name)
        trouble = attempt(lambda: self._run(self._items[name], path))
        if trouble is not None:
            break_off(self._items[name], path, trouble, self._place.run)
        return judge(read_evidence(path)).verdicts[0]

    def close(self) -> None:
        if self._host is not None:
            self._host.close()
            self._host = None

    def _path(self, name: str) -> Path:
        return self._place.folder / ITEMS / f"{self._order[name]:05d}-{file_name(name)}.jsonl"

    def _claim(self, name: str) -> Path:
        path = self._path(name)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)
        except FileExistsError:
            what = "begun before, on a worker that was lost or in an earlier attempt: what it had begun is unknown, and it is not run again"
            raise Incomplete(what, where=name, fix="see why it ended; then start a new run") from None
        except OSError as error:
            raise UsageError(f"the evidence cannot be kept: {error.strerror}", where=str(path), fix="choose another --harness-reports") from error
        self._mine.add(name)
        return path

    def _run(self, item: PlanItem, path: Path) -> None:
        from harness.cassette.redact import Redactor
        from harness.engine.evidence_log import EvidenceLog
        from harness.engine.item import ItemRun
        from harness.engine.run import documents_for

        documents = documents_for([item])
        log = EvidenceLog(path, Redactor())

        async def work(bench: Bench) -> None:
            self._on_bench.append(item.id)
            await ItemRun(bench=bench, item=item, log=log, documents=documents, run_id=self._place.run).run()

        if self._host is None:
            self._host = BenchHost(self._bench, self._keep_audit)
        try:
            self._host.run(item.scenario.private_bench, work)
        finally:
            self._secrets.update(log.redactor.known)
            log.close()

    async def _keep_audit(self, watch: AuditWatch) -> None:
        """The bench's audit log, in a file of its own among those of the items."""
        from harness.cassette.redact import Redactor
        from harness.engine.evidence_log import EvidenceLog

        items, self._on_bench = self._on_bench, []
        record = await watch.ended(items)
        redactor = Redactor()
        for secret, name in self._secrets.items():
            redactor.know({name: secret})
        log = EvidenceLog(self._place.folder / ITEMS / f"{AUDITS}-{self._worker}-{self._benches:03d}.jsonl", redactor)
        self._benches += 1
        log.record(record)
        log.close()

    def _bench(self, still: bool) -> Bench:
        from harness.engine.run import bench_for

        needed = [item for item in self._items.values() if item.scenario.private_bench is still]
        return bench_for(needed, self._place.folder / self._worker, still=still, defects=self._defects)


class BenchHost:
    """One bench at a time, up from its first item until another kind is needed or the session ends.

    A bench is entered and left by one task of its own, because the task groups in it must be; between items the loop stands still.
    """

    def __init__(self, make: Callable[[bool], Bench], keep_audit: Callable[[AuditWatch], Awaitable[None]]) -> None:
        self._make = make
        self._keep_audit = keep_audit
        self._runner = asyncio.Runner()
        self._task: asyncio.Task[None] | None = None
        self._over = asyncio.Event()
        self._still: bool | None = None
        self._bench: Bench | None = None

    def run(self, still: bool, work: Callable[[Bench], Awaitable[None]]) -> None:
        self._runner.run(self._with_bench(still, work))

    def close(self) -> None:
        try:
            self._runner.run(self._leave())
        finally:
            self._runner.close()

    async def _with_bench(self, still: bool, work: Callable[[Bench], Awaitable[None]]) -> None:
        if self._bench is None or self._still is not still:
            await self._leave()
            await self._enter(still)
        if self._bench is not None:
            await work(self._bench)

    async def _enter(self, still: bool) -> None:
        ready: asyncio.Future[Bench] = asyncio.get_running_loop().create_future()
        self._over = asyncio.Event()
        self._task = asyncio.create_task(self._hold(still, ready))
        either: set[asyncio.Future[Any]] = {ready, self._task}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            task, self._task = self._task, None
            await task  # raises why there is no bench
        self._bench, self._still = ready.result(), still

    async def _hold(self, still: bool, ready: asyncio.Future[Bench]) -> None:
        from harness.engine.audit_log import watch_audit

        async with self._make(still) as bench:
            watch = await watch_audit(bench.gateway, bench.target_kind.id)
            ready.set_result(bench)
            await self._over.wait()
            await self._keep_audit(watch)

    async def _leave(self) -> None:
        task, self._task, self._bench, self._still = self._task, None, None, None
        if task is not None:
            self._over.set()
            await task


def file_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9.-]+", "_", name).strip("_")


def break_off(item: PlanItem, path: Path, trouble: HarnessError, run: str) -> None:
    """Write down that `item` could not go on, with its opening record if it never got that far."""
    from harness.cassette.redact import Redactor
    from harness.clock import SystemClock
    from harness.engine.evidence_log import EvidenceLog
    from harness.engine.run import documents_for

    log = EvidenceLog(path, Redactor())
    record = PlanItemRecord(
        phase="start",
        item=item.id,
        at=SystemClock().now().isoformat(),
        scenario=item.scenario.id,
        level=item.level,
        target=item.target,
        protocol=item.protocol,
        run_id=run,
    )
    if path.stat().st_size == 0:
        documents, embedded = documents_for([item]).of(item.scenario)
        log.record(record.model_copy(update={"documents": documents, "embedded": embedded}))
    log.record(record.model_copy(update={"phase": "end", "trouble": as_trouble(trouble)}))
    log.close()


def as_trouble(error: HarnessError) -> Trouble:
    return Trouble(type=type(error).__name__, what=error.what, where=error.where, fix=error.fix, exit_code=int(error.exit_code))
