"""One plan item, carried out: set up, step by step, clean up, read back. It records; it does not judge."""

from __future__ import annotations

import asyncio
import time
import traceback
from collections.abc import Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.action.base import Done, Leg, Stage
from harness.engine.bench import Bench
from harness.engine.documents import Documents
from harness.engine.evidence_log import EvidenceLog
from harness.engine.polling import Poll, holds
from harness.engine.related import relations_of
from harness.engine.set_up import SetUp
from harness.engine.tapes import Tapes, bound, played_out, recorded_by, source_of, unthread
from harness.engine.vocabulary import verbs
from harness.errors import HarnessError, Untestable, UsageError
from harness.fake.kit import providers as stand_ins
from harness.live.home import TENANT
from harness.live.prerequisites import called
from harness.live.session import LiveItem
from harness.model.answer import json_of, pointer
from harness.model.evidence import (
    AuditRecord,
    EvidenceRecord,
    NoteRecord,
    Phase,
    PlanItemRecord,
    ProviderExchangeRecord,
    StepRecord,
    Trouble,
)
from harness.model.plan import PlanItem
from harness.model.scenario import Step
from harness.scenario.variables import Bindings, Unresolved

STEP_WATCHDOG_S = 90.0
"""Real seconds after which a step is given up as untestable; a watchdog, not a judgement."""
QUIET_WITHIN_S = 5.0


@dataclass
class ItemRun:
    """Everything one item needs while it runs; dropped afterwards."""

    bench: Bench
    item: PlanItem
    log: EvidenceLog
    documents: Documents
    run_id: str
    records: list[EvidenceRecord] = field(default_factory=list)
    bindings: Bindings = field(default_factory=lambda: Bindings({}))
    legs: dict[str, Leg] = field(default_factory=dict)
    credentials: dict[str, tuple[str, str]] = field(default_factory=dict)
    stage: Stage | None = None
    tenant: str = ""
    gateway_run: str = ""
    permissions_before: dict[str, Mapping[str, str]] = field(default_factory=dict)
    live: LiveItem | None = None
    """The rules of a live run, for this item."""

    @property
    def tapes(self) -> Tapes:
        return self.bench.options.tapes

    def emit(self, record: EvidenceRecord) -> None:
        self.records.append(self.log.record(record))
        if self.live is not None:
            self.live.observe(record)

    async def admit(self, connection: str, tool: str, arguments: Mapping[str, Any], phase: Phase) -> None:
        if self.live is None:
            return
        left = await self.live.admit(self.legs[connection].provider, tool, arguments, phase)
        self.need_stage().step_timeout_s = min(Stage.step_timeout_s, max(left, 1.0))

    # ---- the whole

    async def run(self) -> None:
        """Never raises for what the subject does: trouble becomes evidence."""
        began = time.monotonic()
        trouble: Trouble | None = None
        if not self._start():
            return
        try:
            async with AsyncExitStack() as stack:
                trouble = await self._on_stage(stack)
        except HarnessError as error:  # the agent's own session could not be closed in order
            trouble = trouble or as_trouble(error)
        await self._collect()
        for record in await relations_of(self.item.id, self.item.scenario, self.documents.view(self.records, self.item.scenario)):
            self.emit(record)
        if self.live is not None:
            self.emit(NoteRecord(item=self.item.id, text="live spending so far", data=self.live.session.spending.told()))
        try:
            await told(self.bench.gateway.close_tenant(self.tenant), self.item.id)
        except HarnessError as error:  # a gateway that died is the cause of whatever went before
            trouble = as_trouble(error)
        trouble = await unthread(self, trouble)
        self._release()
        self._end(trouble, time.monotonic() - began)

    async def _on_stage(self, stack: AsyncExitStack) -> Trouble | None:
        """Set up, steps, tear down; the first trouble is the one that is told."""
        trouble: Trouble | None = None
        try:
            self.stage = await told(SetUp(self).run(stack), self.item.id)
            await self._steps()
        except HarnessError as error:
            trouble = as_trouble(error)
        try:
            await told(self._tear_down(), self.item.id)
        except HarnessError as error:
            trouble = trouble or as_trouble(error)
        return trouble

    def _start(self) -> bool:
        """Writes the opening record; False when there is nothing to run."""
        scenario, item = self.item.scenario, self.item
        nonce = self.bench.options.names.nonce()
        self.tenant = TENANT if any(source.signed_in for source in self.bench.sources.values()) else f"t-{nonce}"
        if self.bench.options.live is not None:
            scenario_providers = {name: spec.provider or name for name, spec in scenario.connections.items()}
            owed = [named for step in scenario.cleanup if (named := called(scenario, step))[1]]
            self.live = self.bench.options.live.item(nonce, scenario_providers, owed)
        self.bindings, trouble = bound(self, nonce)
        keys, embedded = self.documents.of(scenario)
        self.emit(
            PlanItemRecord(
                phase="start",
                item=item.id,
                at=self.bench.clock.now().isoformat(),
                scenario=scenario.id,
                level=item.level,
                target=item.target,
                protocol=item.protocol,
                legs={} if trouble else self._leg_levels(),
                bindings=dict(self.bindings.values),
                documents=keys,
                embedded=embedded,
                run_id=self.run_id,
                tenant=self.tenant,
                assumed=self._assumed(),
                two_witness="audit" in item.lacking,
                lacking=item.lacking,
                untestable=item.untestable,
                missing=item.missing,
                not_applicable=item.not_applicable,
                recorded=() if trouble else recorded_by(self),
                rehearsed=item.rehearsed,
                development=self.bench.development,
            )
        )
        if not item.runnable or trouble:
            self._end(trouble, 0.0)
            return False
        return True

    # ---- for work outside of scenarios

    def open(self, rules: LiveItem) -> None:
        """Begin an item without steps, under rules of its own."""
        self._start()
        self.live = rules

    async def close(self, trouble: Trouble | None) -> None:
        """Write down what the witnesses hold, and let go of everything."""
        await self._collect()
        self._release()
        self._end(trouble, 0.0)

    def _leg_levels(self) -> dict[str, Any]:
        return {
            f"{name}/{what}": level
            for name, spec in self.item.scenario.connections.items()
            if (source := source_of(self, name, spec.provider or name))
            for what, level in (("schema", source.schema_level), ("memory", source.memory_level))
        }

    def _assumed(self) -> dict[str, tuple[str, ...]]:
        known = stand_ins()
        wanted = {spec.provider or name for name, spec in self.item.scenario.connections.items()} if self.item.level == "fake" else set()
        return {p: tuple(sorted(known[p].assumed_shapes)) for p in sorted(wanted) if p in known}

    def _end(self, trouble: Trouble | None, seconds: float) -> None:
        item = self.item
        self.emit(
            PlanItemRecord(
                phase="end",
                item=item.id,
                at=self.bench.clock.now().isoformat(),
                scenario=item.scenario.id,
                level=item.level,
                target=item.target,
                protocol=item.protocol,
                run_id=self.run_id,
                tenant=self.tenant,
                gateway_run=self.gateway_run,
                trouble=trouble,
                seconds=round(seconds, 3),
            )
        )

    def need_stage(self) -> Stage:
        if self.stage is None:
            raise Untestable("the scenario was not set up", where=self.item.id)
        return self.stage

    # ---- steps

    async def _steps(self) -> None:
        for step in self.item.scenario.steps:
            await self._step(step, "steps")

    async def _step(self, step: Step, phase: Phase) -> None:
        """Runs one step, polling if it says `eventually`. Trouble is recorded at the step and ends the steps."""
        stage = self.need_stage()
        started, began = stage.sequencer.next(), time.monotonic()
        args: Any = None
        done, attempts, elapsed = Done(), 0, 0.0
        trouble: Trouble | None = None
        raised: HarnessError | None = None
        try:
            args, params = self._render(step)
            async with asyncio.timeout(STEP_WATCHDOG_S):
                done, attempts, elapsed = await told(self._attempts(stage, step, params, phase), str(step.location))
        except HarnessError as error:
            raised, trouble = error, as_trouble(error)
        except TimeoutError:
            raised = Untestable(f"step {step.id!r} did not end within {STEP_WATCHDOG_S:g} s", where=str(step.location), fix="see the gateway's log")
            trouble = as_trouble(raised)
        captures, unresolved = self._capture(step, done)
        self.bindings = self.bindings.with_captures(step.id, captures)
        self.emit(
            StepRecord(
                item=self.item.id,
                phase=phase,
                step=step.id,
                verb=step.verb,
                args=args,
                started_seq=started,
                ended_seq=stage.sequencer.next(),
                attempts=max(attempts, 1),
                elapsed_s=round(elapsed or time.monotonic() - began, 4),
                captures=captures,
                unresolved=unresolved,
                said=done.said,
                trouble=trouble,
            )
        )
        if raised is not None:
            raise raised

    def _render(self, step: Step) -> tuple[Any, BaseModel]:
        action = verbs()[step.verb]
        rendered = self.bindings.render({"target": step.target, **step.args}, where=step.location)
        try:
            return rendered, action.params.model_validate(rendered)
        except ValidationError as error:
            details = error.errors(include_url=False, include_input=False)[0]
            raise UsageError(f"{step.verb}: {details['msg']}", where=str(step.location), fix=f"for example: {action.example}") from None

    async def _attempts(self, stage: Stage, step: Step, params: BaseModel, phase: Phase) -> tuple[Done, int, float]:
        action = verbs()[step.verb]
        lacking = sorted(action.needs & set(self.item.lacking))
        if lacking:
            raise Untestable(
                f"{lacking[0]}: target {self.item.target} has no such ability, and step {step.id!r} ({step.verb}) needs it",
                where=str(step.location),
                fix="see docs/targets.md for what each target can do",
            )
        if step.eventually is None:
            return await action.run(stage, step, params, phase, 1), 1, 0.0
        connection, tool = stage.resolve(str(step.target))
        leg = stage.legs[connection]
        poll = Poll(step.eventually.within_s, step.eventually.every_s, leg.settle, self.bench.clock)
        while True:
            poll.attempts += 1
            done = await action.run(stage, step, params, phase, poll.attempts)
            captures, _ = self._capture(step, done)
            snapshot = [*self.records, *(await self._witnessed())]
            over = poll.over or played_out(leg.mount, tool)
            if over or holds(snapshot, self.item, step, self.bindings.with_captures(step.id, captures), self.documents):
                return done, poll.attempts, poll.elapsed
            await poll.wait()

    def _capture(self, step: Step, done: Done) -> tuple[dict[str, Any], tuple[str, ...]]:
        found, missing = {}, []
        for name, capture in step.capture.items():
            present, value = pointer(json_of(done.answer) if isinstance(done.answer, dict) and "content" in done.answer else done.answer, capture.at)
            if present:
                found[name] = value
            else:
                missing.append(name)
        return found, tuple(missing)

    # ---- tear down and collect

    async def _tear_down(self) -> None:
        """Cleanup always runs; one failing step does not keep the next from running. Then the control plane is restored and read."""
        if self.stage is None:
            return
        self.stage.control("phase", "cleanup", phase="cleanup")
        problems: list[HarnessError] = []
        await self._restore(problems)
        for step in self.item.scenario.cleanup:
            try:
                await self._step(step, "cleanup")
            except Unresolved:
                continue  # nothing was made, so there is nothing to remove; the step's record names what was missing
            except HarnessError as error:
                problems.append(error)
        for name in () if "access" in self.item.lacking else self.legs:
            try:
                access = await self.bench.gateway.access(self.tenant, name)
                self.stage.control("access", dict(access), phase="after", connection=name)
            except HarnessError as error:
                problems.append(error)
        if problems:
            raise problems[0]

    async def _restore(self, problems: list[HarnessError]) -> None:
        stage = self.need_stage()
        for name in sorted(stage.changed_permissions):
            before = self.permissions_before.get(name, {})
            try:
                now = await self.bench.gateway.permissions(self.tenant, name)
                changed = {tool: word for tool, word in before.items() if now.get(tool) not in (word, None)}
                if changed:
                    await self.bench.gateway.set_permissions(self.tenant, name, changed)
                    stage.control("permissions", changed, phase="cleanup", connection=name)
            except HarnessError as error:
                problems.append(error)

    async def _witnessed(self) -> list[EvidenceRecord]:
        """What witness and audit hold now, as records, redacted like everything that is judged."""
        exchanges: list[EvidenceRecord] = [
            ProviderExchangeRecord(item=self.item.id, connection=name, exchange=e) for name, leg in self.legs.items() for e in leg.mount.exchanges
        ]
        audit: list[EvidenceRecord] = []
        if "audit" not in self.item.lacking:
            audit += [AuditRecord(item=self.item.id, record=r) for r in await self.bench.gateway.audit(self.tenant, self.gateway_run or None)]
        return [self.log.redacted(r) for r in (*exchanges, *audit)]

    async def _collect(self) -> None:
        """Writes down what witness and audit hold, once the agent is gone and nothing is in flight any more."""
        for leg in self.legs.values():
            try:
                await leg.mount.wait_for(_quiet, QUIET_WITHIN_S)
            except HarnessError:
                continue  # what is still in flight is recorded as such, and judged as such
        try:
            records = await self._witnessed()
        except HarnessError as error:
            self.emit(NoteRecord(item=self.item.id, text=f"the audit could not be read: {error}"))
            records = [
                ProviderExchangeRecord(item=self.item.id, connection=n, exchange=e) for n, leg in self.legs.items() for e in leg.mount.exchanges
            ]
        for record in records:
            self.emit(record)

    def _release(self) -> None:
        for leg in self.legs.values():
            leg.mount.close()
        for provider, secret in self.credentials.values():
            self.bench.sources[provider].revoke(secret)


def _quiet(exchanges: Any) -> bool:
    return all(e.outcome is not None or e.method == "GET" for e in exchanges)


def as_trouble(error: HarnessError) -> Trouble:
    return Trouble(type=type(error).__name__, what=error.what, where=error.where, fix=error.fix, exit_code=int(error.exit_code))


T = TypeVar("T")


async def told(work: Coroutine[Any, Any, T], where: str) -> T:
    """The engine's step boundary: whatever a verb or an adapter raises means that we could not tell, and never ends the run."""
    try:
        return await work
    except (HarnessError, TimeoutError):
        raise
    except Exception as error:  # the one broad except; see above
        shown = "".join(traceback.format_exception(error))[-4000:]
        raise Untestable(f"internal error: {type(error).__name__}: {error}\n{shown}", where=where, fix="please report this") from error
