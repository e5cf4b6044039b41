"""Pretend-live hosts: our stand-ins under the providers' real names, reached through the gateway's own TLS and the mapped tap."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.clock import SystemClock
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.engine.tapes import Tapes
from harness.fake.kit import Account, RunningFake, serve
from harness.live.budget import Budget
from harness.live.options import LiveOptions
from harness.model.evidence import EvidenceRecord
from harness.model.exchange import Sequencer
from harness.model.verdict import Results
from harness.tap.fault import Fault
from harness.tap.server import Tap

KEY = "mem0-pretend-key-1"
ENVIRONMENT = {"MEM0_API_KEY": KEY}
VERSION = "2026-07-28"


@dataclass
class Pretend:
    """mem0's stand-in, and a tap in front of it that is the provider's own trouble."""

    fake: RunningFake
    address: str
    faults: list[Fault]

    def memories(self) -> dict[str, Any]:
        return dict(self.fake.built._book.find(KEY).store.memories)  # type: ignore[attr-defined]


@dataclass
class Rehearsal:
    folder: Path
    runs: int = field(default=0)

    async def run(
        self, pretend: Pretend, texts: Sequence[str], *, defects: Sequence[str] = (), tapes: Tapes | None = None, **told: Any
    ) -> tuple[Results, list[EvidenceRecord]]:
        """Scenarios given as text, or named, on one bench."""
        self.runs += 1
        place = self.folder / f"run-{self.runs}"
        place.mkdir()
        paths = []
        for number, text in enumerate(texts):
            path = place / f"s{number}.yaml"
            path.write_text(text, encoding="utf-8")
            paths.append(path)
        live = LiveOptions(
            **{"allow_write": True, "environment": ENVIRONMENT, "rehearse": {"mem0": pretend.address}, "budget": Budget(100, 120.0), **told}
        )
        plan = make_plan([], level="live", protocol=VERSION, paths=paths, live=live)
        evidence = place / "evidence.jsonl"
        await run_plan(plan, jobs=4, evidence=evidence, run_id="20261201T000000Z-abcdef", live=live, defects=defects, tapes=tapes)
        records = read_evidence(evidence)
        return judge(records), records


async def pretend_mem0(stack: AsyncExitStack) -> Pretend:
    clock = SystemClock()
    fake = await stack.enter_async_context(serve("mem0", clock))
    fake.admit(Account(KEY, "pretend"))
    trouble = await stack.enter_async_context(Tap(clock, Sequencer()))
    mount = trouble.mount("mem0", fake.base_url)
    return Pretend(fake, mount.url(), mount.faults)


def in_loop(work: Any) -> Any:
    """Run `work(stack)` to its end, with everything it opened closed."""

    async def whole() -> Any:
        async with AsyncExitStack() as stack:
            return await work(stack)

    return asyncio.run(whole())
