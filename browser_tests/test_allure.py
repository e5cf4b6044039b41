"""Allure's own reader takes our Allure results: what it counts is what we wrote."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from collections.abc import Callable
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from playwright.sync_api import Page, Route, expect

from browser_tests.conftest import Watched

ROOT = Path(__file__).parents[1]
ALLURE = ROOT / ".real" / "npm" / "allure" / "node_modules" / ".bin" / "allure"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Nothing."""


def test_allure_renders_our_results(tmp_path: Path, opened: Callable[..., Watched], shot: Callable[[Page, str], None]) -> None:
    command = [sys.executable, "-m", "harness", "run", "MEM-1", "MEM-4", "--protocol", "2025-11-25", "--defect", "dispatch-before-approval"]
    command += ["--report", "allure", "--report", "results_json", "--reports-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=120, check=False)
    run = next(folder for folder in tmp_path.iterdir() if folder.is_dir() and not folder.is_symlink())
    page_folder = tmp_path / "page"
    made = subprocess.run(
        [str(ALLURE), "generate", str(run / "allure-results"), "-o", str(page_folder)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert (page_folder / "index.html").exists(), made.stdout + made.stderr
    stats = json.loads((page_folder / "summary.json").read_text())["stats"]
    totals = json.loads((run / "results.json").read_text())["totals"]
    assert (stats["total"], stats.get("passed", 0), stats.get("failed", 0)) == (2, totals["pass"], totals["fail"]) == (2, 1, 1)

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(page_folder)))
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        base = f"http://127.0.0.1:{server.server_address[1]}/"
        page = opened().page

        def only_here(route: Route) -> None:
            # The page is another project's; whatever it would like to fetch elsewhere, it does not.
            if route.request.url.startswith(base):
                route.continue_()
            else:
                route.abort()

        page.route("**", only_here)
        page.goto(base)
        expect(page.get_by_text("A Mem0 write waits for approval").first).to_be_visible(timeout=30_000)
        shot(page, "allure")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
