"""Every scenario of ours on PostgreSQL, by two gateway processes on one database at the same time; then the whole log is one exact chain."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.target.outer import made_key, previous_key
from harness.target.rows import SHARED_KEY, SHARED_STORE
from reference_gateway.audit import verify
from reference_gateway.store.postgres import PostgresStore

ROOT = Path(__file__).parents[1]
NEEDS_MORE = {"local", "live", "relay", "traps"}
"""Areas whose scenarios are run by other targets: they need a vendor's server, a hosted one, or namespaces."""


def halves() -> tuple[list[str], list[str]]:
    """By files and not by areas, so that both halves change the vault's key, search the store and move its rows."""
    areas = sorted(path for path in (ROOT / "scenarios").iterdir() if path.is_dir() and path.name not in NEEDS_MORE)
    files = [str(file.relative_to(ROOT)) for area in areas for file in sorted(area.glob("*.yaml"))]
    return files[::2], files[1::2]


def test_every_scenario_passes_and_the_log_is_exact(url: str, tmp_path: Path) -> None:
    key = tmp_path / "vault.key"
    made_key(key)
    shutil.copy2(key, previous_key(key))  # all gateways on one database seal under one key
    shared = {**os.environ, SHARED_STORE: url, SHARED_KEY: str(key)}
    runs = []
    for number, half in enumerate(halves()):
        command = [sys.executable, "-m", "harness", "run", *half, "--protocol", "2026-07-28", "--report", "results_json"]
        command += ["--reports-dir", str(tmp_path / str(number))]
        runs.append(subprocess.Popen(command, cwd=ROOT, env=shared, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [run.communicate(timeout=900)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], "\n".join(text[-3000:] for text in said)
    for number in range(2):
        results = json.loads(next((tmp_path / str(number)).glob("*Z-*/results.json")).read_text())
        assert results["totals"]["pass"] > 5
    store = PostgresStore(url)
    store.open()
    records: list[dict[str, object]] = []
    while page := store.audit_read(None, after=len(records)):
        records += page
    assert [each["seq"] for each in records] == list(range(1, len(records) + 1))
    assert len(records) > 300
    assert verify(records) == []
    assert store.audit_unfinished() == []
    store.close()
