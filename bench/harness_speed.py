"""What the harness itself costs: starts, hashing, discovery through the gateway, and whole runs."""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.processes import Broken, Finished, command, gateway
from harness.cassette.redact import Redactor
from harness.engine.evidence_log import EvidenceLog
from harness.engine.item import ItemRun
from harness.engine.plan import make_plan
from harness.engine.run import bench_for, documents_for
from harness.engine.set_up import SetUp
from harness.inventory.canonical import schema_hash

PROVIDERS = ("cognee", "honcho", "mem0", "supermemory", "zep")
TOOLS = 82
SUBSET = ("MEM-*", "SM-WRITE", "LYING-AGENT")


@dataclass(frozen=True, slots=True)
class Discovery:
    """`connect_s`: tenant, five connections with their discovery, catalogs read back, the agent's session. `list_s`: its tools/list."""

    connect_s: float
    list_s: float
    tools: tuple[Mapping[str, Any], ...]


async def discovery() -> Discovery:
    """All five providers behind one agent: stand-in, tap, gateway, agent. Raises Broken when not all 82 tools arrive."""
    found = make_plan([f"DISCOVER-{p.upper()}" for p in PROVIDERS], protocol="2026-07-28").items
    connections = {name: spec for item in found for name, spec in item.scenario.connections.items()}
    item = found[0].model_copy(update={"scenario": found[0].scenario.model_copy(update={"connections": connections})})
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = EvidenceLog(Path(folder) / "evidence.jsonl", Redactor())
        try:
            async with bench_for([item], Path(folder), still=False) as bench, AsyncExitStack() as stack:
                run = ItemRun(bench=bench, item=item, log=log, documents=documents_for([item]), run_id="bench")
                run.tenant = "bench"
                began = time.perf_counter()
                stage = await SetUp(run).run(stack)
                connected = time.perf_counter()
                listing = await stage.agent.list_tools(timeout=15.0)
                listed = time.perf_counter()
        finally:
            log.close()
    if len(listing.tools) != TOOLS or not listing.complete:
        raise Broken(f"the agent sees {len(listing.tools)} tools, not {TOOLS}")
    return Discovery(connected - began, listed - connected, listing.tools)


@dataclass(frozen=True, slots=True)
class Hashing:
    """Tools a CPU-second, and the same for json.dumps with sorted keys and SHA-256, which is not canonical but is the least one can do."""

    per_second: float
    plain_per_second: float
    schema_bytes: int


def hashing(tools: Sequence[Mapping[str, Any]]) -> Hashing:
    schemas = [tool["inputSchema"] for tool in tools]

    def plain(schema: Any) -> str:
        return hashlib.sha256(json.dumps(schema, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    size = round(statistics.mean(len(json.dumps(s, separators=(",", ":"))) for s in schemas))
    return Hashing(_rate(schema_hash, schemas), _rate(plain, schemas), size)


def _rate(work: Callable[[Any], object], items: Sequence[Any]) -> float:
    done, began = 0, time.process_time()
    while (spent := time.process_time() - began) < 0.5:
        for item in items:
            work(item)
        done += len(items)
    return done / spent


@dataclass(frozen=True, slots=True)
class Start:
    """Seconds from starting the process, for each repetition; `reference` is another process started in turn with it."""

    seconds: list[float]
    reference: list[float]


def help_start(times: int) -> Start:
    pairs = [(_ok(command(["-m", "harness", "--help"])).wall_s, command(["-c", "pass"]).wall_s) for _ in range(times)]
    return Start([a for a, _ in pairs], [b for _, b in pairs])


@dataclass(frozen=True, slots=True)
class GatewayStart:
    start: Start
    cpu_ms: list[float]
    rss_mb: list[float]


def gateway_start(times: int) -> GatewayStart:
    """To its ready line; beside importing what any gateway on this SDK must import."""
    seconds, reference, cpu, rss = [], [], [], []
    for _ in range(times):
        with gateway() as door:
            seconds.append(door.child.ready_after_s)
            cpu.append(door.child.cpu_ms())
            rss.append(door.child.rss_mb())
        reference.append(_ok(command(["-c", "import mcp.server.lowlevel, mcp.client, uvicorn, starlette.applications, httpx2"])).wall_s)
    return GatewayStart(Start(seconds, reference), cpu, rss)


@dataclass(frozen=True, slots=True)
class Run:
    """A `harness run`: the whole command, and how many scenarios it finished in the time between its start and end records."""

    whole: Finished
    scenarios: int
    elapsed_s: float

    @property
    def per_second(self) -> float:
        return self.scenarios / self.elapsed_s


def harness_run(*arguments: str) -> Run:
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        done = command(["-m", "harness", "run", "--reports-dir", folder, *arguments])
        reports = [path for path in Path(folder).glob("*/evidence.jsonl") if not path.parent.is_symlink()]
        if done.code != 0 or not reports:
            raise Broken(f"harness run {' '.join(arguments)} ended with code {done.code}")
        lines = [json.loads(line) for line in reports[0].read_text(encoding="utf-8").splitlines()]
    ended = [record for record in lines if record["kind"] == "plan_item" and record["phase"] == "end" and not record.get("not_applicable")]
    runs = [record for record in lines if record["kind"] == "run"]
    return Run(done, len(ended), _between(runs[0]["at"], runs[-1]["at"]))


def _between(start: str, end: str) -> float:
    from datetime import datetime

    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _ok(finished: Finished) -> Finished:
    if finished.code != 0:
        raise Broken(f"a command ended with code {finished.code}")
    return finished
