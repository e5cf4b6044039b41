"""Every scenario of ours on PostgreSQL, agents at one gateway and operators at another, twice on one database; then the log is one exact chain."""

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

NOT_HERE = 4
"""Scenarios of a half that may not apply to this protocol version or level."""
ROOT = Path(__file__).parents[1]
NEEDS_MORE = {"local", "live", "relay"}
"""Areas whose scenarios are run by other targets: they need a vendor's server, a hosted one, or namespaces."""
ADAPTER = """\
import sys
from harness.target.reference import ReferenceTarget
COMMAND = (sys.executable, "-m", "postgres_tests.two_doors")
TARGET = ReferenceTarget(id="two-doors", summary="agents at one gateway, operators at another", command=COMMAND)
"""


def halves() -> tuple[list[str], list[str]]:
    """By files and not by areas, so that both halves change the vault's key, search the store and move its rows."""
    areas = sorted(path for path in (ROOT / "scenarios").iterdir() if path.is_dir() and path.name not in NEEDS_MORE)
    files = [str(file.relative_to(ROOT)) for area in areas for file in sorted(area.glob("*.yaml"))]
    return files[::2], files[1::2]


def installed(site: Path) -> str:
    """The adapter, as a package would bring it that declares the entry point `harness.target`; what PYTHONPATH must be."""
    facts = site / "two_doors-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: two-doors\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text("[harness.target]\ntwo-doors = two_doors_target:TARGET\n", encoding="utf-8")
    (site / "two_doors_target.py").write_text(ADAPTER, encoding="utf-8")
    return os.pathsep.join((str(site), str(ROOT)))


def test_every_scenario_passes_and_the_log_is_exact(url: str, tmp_path: Path) -> None:
    key = tmp_path / "vault.key"
    made_key(key)
    shutil.copy2(key, previous_key(key))  # all gateways on one database seal under one key
    shared = {**os.environ, SHARED_STORE: url, SHARED_KEY: str(key), "PYTHONPATH": installed(tmp_path / "site")}
    runs = []
    for number, half in enumerate(halves()):
        command = [sys.executable, "-m", "harness", "run", *half, "--target", "two-doors", "--protocol", "2026-07-28"]
        command += ["--report", "results_json", "--reports-dir", str(tmp_path / str(number))]
        runs.append(subprocess.Popen(command, cwd=ROOT, env=shared, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [run.communicate(timeout=900)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], "\n".join(text[-3000:] for text in said)
    for number in range(2):
        results = json.loads(next((tmp_path / str(number)).glob("*Z-*/results.json")).read_text())
        assert results["totals"]["pass"] >= len(halves()[number]) - NOT_HERE
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
