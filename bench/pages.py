"""What reports cost: writing 1,000 verdicts in every format, and opening a page of 5,000 in Chromium (where there is one)."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from bench.harness_speed import SUBSET
from bench.processes import Broken, command
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.model.verdict import Results
from harness.report.base import load_reports

EMPTY = "<!doctype html><title>x</title><p>nothing"
DRAWN = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def real_results() -> Results:
    """Of a run of some scenarios: nobody's verdicts are as short as invented ones."""
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        done = command(["-m", "harness", "run", *SUBSET, "--report", "none", "--reports-dir", folder])
        if done.code != 0:
            raise Broken(f"harness run {' '.join(SUBSET)} ended with code {done.code}")
        return judge(read_evidence(Path(folder) / "latest" / "evidence.jsonl"))


def many(results: Results, count: int) -> Results:
    verdicts = zip(range(count), itertools.cycle(results.verdicts), strict=False)
    return results.model_copy(update={"verdicts": tuple(v.model_copy(update={"item": f"{v.item}-{n}"}) for n, v in verdicts)})


@dataclass(frozen=True, slots=True)
class Written:
    """CPU-seconds by format, best of the rounds; `plain_s`: json.dumps of the same results, the least one can do."""

    seconds: dict[str, float]
    default_s: float
    plain_s: float


def written(results: Results, rounds: int) -> Written:
    formats, seconds, plain = load_reports(), dict[str, float](), 9e9
    for _ in range(rounds):
        for name, report in formats.items():
            seconds[name] = min(seconds.get(name, 9e9), _cpu(partial(report.files, results)))
        plain = min(plain, _cpu(lambda: json.dumps(results.model_dump(mode="json"))))
    return Written(seconds, sum(seconds[name] for name, report in formats.items() if report.by_default), plain)


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


@dataclass(frozen=True, slots=True)
class Opened:
    """From navigation to the second frame after load; CPU-seconds of the browser's processes together. Best of the rounds."""

    wall_s: float
    cpu_s: float


def opened(page: str, rounds: int) -> tuple[Opened, Opened] | None:
    """The page, and beside it an empty one, in turns; None where there is no Chromium or no Playwright (`make test-browser` installs it)."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return None
    if executable is None:
        return None
    found: dict[str, list[Opened]] = {"page": [], "empty": []}
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, sync_playwright() as driver:
        for name, text in (("page", page), ("empty", EMPTY)):
            (Path(folder) / f"{name}.html").write_text(text, encoding="utf-8")
        for _, name in itertools.product(range(rounds), found):
            browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
            tab = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
            cpu, began = _tree_cpu(), time.perf_counter()
            tab.goto((Path(folder) / f"{name}.html").as_uri())
            tab.evaluate(DRAWN)
            found[name].append(Opened(time.perf_counter() - began, _tree_cpu() - cpu))
            browser.close()
    page_best, empty_best = (Opened(min(o.wall_s for o in each), min(o.cpu_s for o in each)) for each in found.values())
    return page_best, empty_best


def _tree_cpu() -> float:
    """Of everything that this process started and that is still there."""
    total = 0.0
    for child in psutil.Process(os.getpid()).children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
