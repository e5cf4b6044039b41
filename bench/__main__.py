"""`python -m bench`: measure everything and print one table. No figure here is a test; nothing fails because it is slow."""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version

from rich.console import Console
from rich.table import Table

from bench.calls import Calls, Path, measure
from bench.cassette_speed import loading, replaying
from bench.harness_speed import SUBSET, discovery, gateway_start, harness_run, hashing, help_start
from bench.pages import many, opened, real_results, written
from bench.processes import Broken
from bench.sustain import sustain
from bench.wire import LEGACY, MODERN

Row = tuple[str, str, str, str]


def spread(values: Sequence[float], shown: str = ".0f") -> str:
    """min / median / max."""
    return " / ".join(format(v, shown) for v in (min(values), statistics.median(values), max(values)))


def call_rows(calls: Calls) -> list[Row]:
    rows: list[Row] = []
    for protocol in (LEGACY, MODERN):
        for concurrency in (1, 16):
            direct, ours = (calls.of(way, protocol, concurrency) for way in ("direct", "mem0"))
            rows += _call_rows(direct, ours)
            rows += [_peer_row(direct, calls.of(way, protocol, concurrency)) for way in ("sdk proxy", "fastmcp")]
        rows.append((f"upstream requests per call, {protocol}", f"{calls.upstream[protocol]:g}", "1 = none but the call itself", "must be 1"))
    return rows


def _peer_row(direct: Path, peer: Path) -> Row:
    """Relays that govern and record nothing: what the gateway is held against, not what it has to be."""
    ratio = peer.median(lambda r: r.per_second) / direct.median(lambda r: r.per_second)
    cpu = spread([r.gateway_cpu_ms for r in peer.rounds], ".1f")
    what = f"{peer.way} calls/s, {peer.protocol} c={peer.concurrency}"
    return (what, spread([r.per_second for r in peer.rounds]), f"CPU-ms/call {cpu}", f"{ratio:.2f} of direct")


def sustain_rows(per_second: float, seconds: float) -> list[Row]:
    found = asyncio.run(sustain(per_second, seconds))
    audit = "complete" if found.complete else f"NOT complete: {found.records}, {found.gaps} gaps"
    return [
        (f"calls/s for {seconds:g} s, {per_second:g} offered", f"{found.per_second:.0f}", f"{found.calls} calls, {found.errors} errors", "0 errors"),
        ("audit of those calls", audit, f"{sum(found.records.values())} records", "3 a call, no gap"),
        ("their latency p50, p99 ms", f"{found.p50_ms:.1f}, {found.p99_ms:.1f}", f"the disk makes {found.fsyncs_per_second:.0f} fsyncs/s", ""),
        ("their gateway CPU-ms/call", f"{found.gateway_cpu_ms:.2f}", "", "at most 3"),
    ]


def _call_rows(direct: Path, ours: Path) -> list[Row]:
    what = f"{ours.protocol} c={ours.concurrency}"
    ratio = ours.median(lambda r: r.per_second) / direct.median(lambda r: r.per_second)
    added = ours.median(lambda r: r.p50_ms) - direct.median(lambda r: r.p50_ms)
    return [
        (
            f"gateway calls/s, {what}",
            spread([r.per_second for r in ours.rounds]),
            f"direct {spread([r.per_second for r in direct.rounds])}",
            f"{ratio:.2f} of direct",
        ),
        (
            f"latency p50 ms, {what}",
            spread([r.p50_ms for r in ours.rounds], ".1f"),
            f"direct {spread([r.p50_ms for r in direct.rounds], '.1f')}",
            f"{added:+.1f} ms",
        ),
        (
            f"gateway CPU-ms/call, {what}",
            spread([r.gateway_cpu_ms for r in ours.rounds], ".1f"),
            f"stand-in {spread([r.fake_cpu_ms for r in ours.rounds], '.1f')}",
            f"{ours.median(lambda r: r.gateway_cpu_ms) / ours.median(lambda r: r.fake_cpu_ms):.1f} × stand-in",
        ),
    ]


def discovery_rows() -> list[Row]:
    found = asyncio.run(discovery())
    speed = hashing(found.tools)
    total = found.connect_s + found.list_s
    return [
        (
            "discovery of 82 tools, five providers, s",
            f"{total:.2f}",
            f"connect {found.connect_s:.2f}, agent's list {found.list_s:.2f}",
            "target < 2 s",
        ),
        (
            f"schema hashing, tools/CPU-s ({speed.schema_bytes} B)",
            f"{speed.per_second:.0f}",
            f"json.dumps + SHA-256 {speed.plain_per_second:.0f}",
            f"{speed.per_second / speed.plain_per_second:.2f} of it",
        ),
    ]


def start_rows(times: int) -> list[Row]:
    shown, door = help_start(times), gateway_start(times)
    help_ratio = statistics.median(shown.seconds) / statistics.median(shown.reference)
    door_ratio = statistics.median(door.start.seconds) / statistics.median(door.start.reference)
    return [
        (
            "harness --help, s",
            spread(shown.seconds, ".2f"),
            f"python -c pass {spread(shown.reference, '.2f')}",
            f"{help_ratio:.1f} ×; target < 0.4 s",
        ),
        (
            "gateway start to ready, s",
            spread(door.start.seconds, ".2f"),
            f"importing the SDK {spread(door.start.reference, '.2f')}",
            f"{door_ratio:.1f} ×",
        ),
        ("gateway start, CPU-ms", spread(door.cpu_ms), "", ""),
        ("gateway RSS idle, MB", spread(door.rss_mb), "", ""),
    ]


def cassette_rows(times: int) -> list[Row]:
    loaded, played = loading(times), asyncio.run(replaying(times))
    size = f"{loaded.size / 1024 / 1024:.1f} MiB"
    return [
        (f"cassette of {size} read, CPU-ms", spread(loaded.whole_ms), "its header alone " + spread(loaded.header_ms), "at most 250 for 1 MB"),
        ("MEM-1 replayed, ms beyond gateway start", spread(played), "the first one reads the cassette", "at most 300"),
    ]


def page_rows(rounds: int) -> list[Row]:
    from harness.report.html import document

    results = real_results()
    wrote, page = written(many(results, 1_000), rounds), document(many(results, 5_000))
    each = ", ".join(f"{name} {seconds:.2f}" for name, seconds in wrote.seconds.items())
    rows: list[Row] = [
        (
            "reports of 1,000 verdicts written, CPU-s",
            f"{wrote.default_s:.2f} (all formats {sum(wrote.seconds.values()):.2f})",
            f"json.dumps {wrote.plain_s:.2f}; {each}",
            "target < 3 s",
        )
    ]
    seen = opened(page, rounds)
    what, size = "report.html of 5,000 verdicts opened, s", f"{len(page.encode()) / 1e6:.1f} MB"
    if seen is None:
        return [*rows, (what, "not measured: no Chromium or no Playwright here", size, "target < 2 s, < 10 MB")]
    here, empty = seen
    beside = f"an empty page {empty.wall_s:.2f} ({empty.cpu_s:.2f} CPU-s)"
    return [*rows, (what, f"{here.wall_s:.2f} ({here.cpu_s:.2f} CPU-s), {size}", beside, "target < 2 s, < 10 MB")]


def run_rows(rounds: int) -> list[Row]:
    whole = harness_run()
    quiet = (*SUBSET, "--report", "none", "--jobs")
    turns = [(harness_run(*quiet, "1"), harness_run(*quiet, "4")) for _ in range(rounds)]
    one, four = [a.per_second for a, _ in turns], [b.per_second for _, b in turns]
    ratio = statistics.median(four) / statistics.median(one)
    return [
        ("scenarios/s, --jobs 1", spread(one, ".2f"), f"{turns[0][0].scenarios} scenarios: {' '.join(SUBSET)}", ""),
        ("scenarios/s, --jobs 4", spread(four, ".2f"), f"CPU-s {statistics.median(b.whole.cpu_s for _, b in turns):.1f}", f"{ratio:.2f} × --jobs 1"),
        (
            "harness run (make accept), s",
            f"{whole.whole.wall_s:.1f}",
            f"{whole.scenarios} scenarios, CPU-s {whole.whole.cpu_s:.1f}",
            "target < 60 s",
        ),
        ("peak RSS of all its processes, MB", f"{whole.whole.peak_mb:.0f}", "shared pages count for each", "target < 400 MB"),
    ]


def machine() -> str:
    load = os.getloadavg()[0]
    busy = " The machine is busy: compare ratios and CPU, not times." if load > 1 else ""
    return f"{os.cpu_count()} cores, load {load:.1f} at start, Python {platform.python_version()}, mcp {version('mcp')}.{busy}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds of calls (default 3)")
    parser.add_argument("--calls-only", action="store_true", help="only the calls through the gateway and beside it")
    parser.add_argument("--sustain", type=float, metavar="SECONDS", default=0.0, help="offer 300 calls a second for that long, and nothing else")
    parser.add_argument("--rate", type=float, default=300.0, help="calls a second for --sustain (default 300)")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one stretch of calls (default 1)")
    options = parser.parse_args()
    console, began, about = Console(width=170 if not sys.stdout.isatty() else None, highlight=False), time.perf_counter(), machine()
    table = Table(title="min / median / max of interleaved rounds", title_justify="left")
    for heading in ("what", "here", "beside it, in the same run", "ratio or target"):
        table.add_column(heading, overflow="fold")
    calls: list[Calls] = []

    def call_part() -> list[Row]:
        calls.append(asyncio.run(measure(options.rounds, options.seconds)))
        return call_rows(calls[0])

    parts: list[tuple[str, Callable[[], list[Row]]]] = [
        ("calls through the gateway", call_part),
        ("discovery and hashing", discovery_rows),
        ("starts", lambda: start_rows(5)),
        ("runs", lambda: run_rows(2)),
        ("cassettes", lambda: cassette_rows(5)),
        ("reports", lambda: page_rows(5)),
    ]
    if options.calls_only:
        parts = parts[:1]
    if options.sustain:
        parts = [("a steady load", lambda: sustain_rows(options.rate, options.sustain))]
    try:
        for name, part in parts:
            sys.stderr.write(f"measuring {name} ...\n")
            for row in part():
                table.add_row(*row)
            table.add_section()
    except Broken as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    console.print(table)
    if not calls:
        console.print(about)
        return 0
    console.print(
        f"{about}\n"
        f"Calls: get_memory on the mem0 stand-in, {calls[0].result_bytes} B a result, allowed tool (no approval), one synthetic memory, no seed.\n"
        "Direct = agent to stand-in; gateway = agent to gateway to stand-in, no tap between; SQLite, synchronous=FULL; every answer checked.\n"
        f"Measured in {time.perf_counter() - began:.0f} s."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
