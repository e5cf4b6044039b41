"""A plan carried out: benches up, items run side by side, evidence written."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import harness
from harness.cassette.redact import Redactor
from harness.clock import SystemClock
from harness.engine.audit_log import watch_audit
from harness.engine.bench import Bench, BenchOptions
from harness.engine.checkout import own
from harness.engine.documents import Documents, read_documents
from harness.engine.evidence_log import EvidenceLog
from harness.engine.item import ItemRun, as_trouble
from harness.engine.plan import providers_of, target_for
from harness.engine.tapes import Tapes
from harness.engine.vocabulary import kinds, manifests_for
from harness.errors import HarnessError, Untestable, ungrouped
from harness.inventory.store import load_inventories
from harness.live.options import LiveOptions
from harness.live.session import LiveSession
from harness.model.evidence import ProcessRecord, RunRecord
from harness.model.location import Location
from harness.model.plan import Plan, PlanItem
from harness.model.scenario import Scenario
from harness.model.trend import Trend
from harness.risk.oracle import Oracle
from harness.scenario.files import data_root, inventories_folder, own_providers


@dataclass(frozen=True, slots=True)
class Progress:
    """`outcome` is not known while running: verdicts are the judge's."""

    item_id: str
    state: Literal["started", "finished"]


Listener = Callable[[Progress], None]


async def run_plan(
    plan: Plan,
    *,
    jobs: int,
    evidence: Path,
    run_id: str,
    defects: Sequence[str] = (),
    listener: Listener | None = None,
    live: LiveOptions | None = None,
    tapes: Tapes | None = None,
    earlier: Sequence[Trend] = (),
) -> None:
    """Writes the evidence log. `live`: the plan's own, when it is a live one. `earlier`: what earlier runs said, for the reports.

    Raises HarnessError when the bench itself cannot be had; evidence so far is kept."""
    log = EvidenceLog(evidence, Redactor())
    try:
        log.record(start_record(plan, run_id, jobs, defects, earlier))
        runner = Runner(log, run_id, defects, listener, live_session(live, plan.items) if live else None, tapes)
        with ungrouped():
            await runner.run(plan, jobs)
        log.record(RunRecord(phase="end", run=run_id, at=SystemClock().now().isoformat()))
    except HarnessError as error:
        log.record(RunRecord(phase="end", run=run_id, at=SystemClock().now().isoformat(), trouble=as_trouble(error)))
        raise
    finally:
        log.close()


def start_record(plan: Plan, run_id: str, jobs: int, defects: Sequence[str], earlier: Sequence[Trend] = ()) -> RunRecord:
    names = ("mcp", "httpx2", "pydantic", "jsonschema-rs")
    options = {"jobs": jobs, "items": [item.id for item in plan.items], "broken_on_purpose": bool(defects)}
    return RunRecord(
        phase="start",
        run=run_id,
        at=SystemClock().now().isoformat(),
        harness_version=harness.__version__,
        options=options | ({"earlier": [trend.model_dump() for trend in earlier]} if earlier else {}),
        environment={"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
        | {name: version(name) for name in names}
        | dict(own()),
    )


class Runner:
    """Runs items on benches: one shared by those that disturb nobody, one whose time stands still for the others."""

    def __init__(
        self,
        log: EvidenceLog,
        run_id: str,
        defects: Sequence[str],
        listener: Listener | None,
        live: LiveSession | None = None,
        tapes: Tapes | None = None,
    ) -> None:
        self.log = log
        self.run_id = run_id
        self.defects = defects
        self.listener = listener
        self.live = live
        self.tapes = tapes or Tapes()

    async def run(self, plan: Plan, jobs: int) -> None:
        documents = documents_for(plan.items)
        for target in dict.fromkeys(item.target for item in plan.items):
            mine = [item for item in plan.items if item.target == target]
            shared = [item for item in mine if not item.scenario.private_bench]
            alone = [item for item in mine if item.scenario.private_bench]
            for items, still in ((shared, False), (alone, True)):
                if items:
                    # A hosted provider is asked one thing at a time: its host is one, and so is the account.
                    await self._on_bench(items, documents, jobs=1 if still or self.live else jobs, still=still and not self.live)

    async def _on_bench(self, items: Sequence[PlanItem], documents: Documents, *, jobs: int, still: bool) -> None:
        async with bench_for(items, self.log.path.parent, still=still, defects=self.defects, live=self.live, tapes=self.tapes) as bench:
            self.log.record(ProcessRecord(name=items[0].target, event="ready", detail={"pid": bench.gateway.process_id, "still": still}))
            audit = await watch_audit(bench.gateway, items[0].target)
            gate = asyncio.Semaphore(1 if bench.target_kind.tap_port else jobs)  # a standing gateway has one upstream: one item at a time

            async def one(item: PlanItem) -> None:
                async with gate:
                    await self.run_item(bench, item, documents)

            try:
                async with asyncio.TaskGroup() as group:
                    for item in items:
                        group.create_task(one(item))
            finally:  # what broke off has an audit log as well
                self.log.record(await audit.ended([item.id for item in items if item.runnable]))
        self.log.record(ProcessRecord(name=items[0].target, event="ended"))

    async def run_item(self, bench: Bench, item: PlanItem, documents: Documents) -> None:
        self._tell(Progress(item.id, "started"))
        try:
            await ItemRun(bench=bench, item=item, log=self.log, documents=documents, run_id=self.run_id).run()
        finally:
            self._tell(Progress(item.id, "finished"))

    def _tell(self, progress: Progress) -> None:
        if self.listener is not None:
            self.listener(progress)


def documents_for(items: Sequence[PlanItem]) -> Documents:
    """Raises LoadError (2) when one is broken, or an expectation compares with an inventory that is not there."""
    providers = sorted({p for item in items for p in providers_of(item.scenario)})
    compared = {p: str(at) for item in reversed(items) for p, at in compared_by(item.scenario)}
    return read_documents(data_root(), providers, compared, own_providers(Path(item.scenario.file) for item in items))


def compared_by(scenario: Scenario) -> Iterator[tuple[str, Location]]:
    """(provider, where an expectation compares its tools with the inventory)."""
    names = {name: spec.provider or name for name, spec in scenario.connections.items()}
    for expectation in scenario.every_expectation():
        if kinds()[expectation.word].reads_inventory:
            named = expectation.args.get("connection") if isinstance(expectation.args, Mapping) else None
            for provider in {names[named]} if named in names else set(names.values()):
                yield provider, expectation.location


def live_session(options: LiveOptions, items: Sequence[PlanItem] = ()) -> LiveSession:
    """For these items: with the manifests that stand near their scenarios, besides those that are shipped."""
    known = manifests_for(item.scenario.file for item in items)
    return LiveSession(options, known, Oracle(load_inventories(inventories_folder())), SystemClock())


def bench_for(
    items: Sequence[PlanItem],
    work_dir: Path,
    *,
    still: bool,
    defects: Sequence[str] = (),
    live: LiveSession | None = None,
    tapes: Tapes | None = None,
) -> Bench:
    """A bench that has every provider these items need, at their common level."""
    levels = {item.level for item in items}
    if len(levels) != 1:
        raise Untestable("one bench has one level", where=", ".join(sorted(levels)))
    ready = [item for item in items if item.runnable]
    providers = sorted({p for item in ready for p in providers_of(item.scenario)})
    target = target_for(items[0].target)
    if defects and "defects" not in target.abilities:
        raise HarnessError(f"target {target.id} takes no --defect", where="--defect")
    options = BenchOptions(
        level=items[0].level,
        providers=providers,
        manifests=manifests_for(item.scenario.file for item in items),
        still=still,
        defects=defects,
        tapes=tapes or Tapes(),
        live=live,
    )
    return Bench(target, options, work_dir)
