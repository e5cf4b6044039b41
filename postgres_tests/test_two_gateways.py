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

ROOT = Path(__file__).parents[1]
NEEDS_MORE = {"local", "live", "relay"}
"""Areas whose scenarios are run by other targets: they need a vendor's server, a hosted one, or namespaces."""
NOT_AT_THIS_VERSION = 4
"""Scenarios of a share that are about another version of the protocol, at most."""
OF_ONE_GATEWAY = {
    "scenarios/governance/names.yaml": "its first call opens the session of whichever gateway sends it",
    "scenarios/setup/health.yaml": "health is what a gateway saw itself",
    "scenarios/setup/schedule.yaml": "each gateway looks at its providers itself",
    "scenarios/setup/local.yaml": "a local server's process is one gateway's",
}
"""Scenarios of what each gateway has for itself; they are run through one gateway, on the same database."""
ADAPTER = """\
import sys
from harness.target.reference import ReferenceTarget
COMMAND = (sys.executable, "-m", "postgres_tests.two_doors")
TARGET = ReferenceTarget(id="two-doors", summary="agents at one gateway, operators at another", command=COMMAND)
"""


def shares() -> list[tuple[str, list[str]]]:
    """Targets and their files. By files and not by areas, so that both halves change the vault's key, search the store and move its rows."""
    areas = sorted(path for path in (ROOT / "scenarios").iterdir() if path.is_dir() and path.name not in NEEDS_MORE)
    files = [str(file.relative_to(ROOT)) for area in areas for file in sorted(area.glob("*.yaml"))]
    both = [file for file in files if file not in OF_ONE_GATEWAY]
    return [("two-doors", both[::2]), ("two-doors", both[1::2]), ("reference", sorted(OF_ONE_GATEWAY))]


def installed(site: Path) -> str:
    """The adapter, as a package would bring it that declares the entry point `harness.target`; what PYTHONPATH must be."""
    facts = site / "two_doors-1.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: two-doors\nVersion: 1.0\n", encoding="utf-8")
    (facts / "entry_points.txt").write_text("[harness.target]\ntwo-doors = two_doors_target:TARGET\n", encoding="utf-8")
    (site / "two_doors_target.py").write_text(ADAPTER, encoding="utf-8")
    return os.pathsep.join((str(site), str(ROOT)))


def told(output: str) -> str:
    """What did not pass, and why."""
    return "\n".join(line for line in output.splitlines() if line.lstrip().startswith(("FAIL", "ERROR", "fail:", "error:", "at:", "actual:")))


def test_every_scenario_passes_and_the_log_is_exact(url: str, tmp_path: Path) -> None:
    key = tmp_path / "vault.key"
    made_key(key)
    shutil.copy2(key, previous_key(key))  # all gateways on one database seal under one key
    shared = {**os.environ, SHARED_STORE: url, SHARED_KEY: str(key), "PYTHONPATH": installed(tmp_path / "site")}
    runs = []
    for number, (target, files) in enumerate(shares()):
        command = [sys.executable, "-m", "harness", "run", *files, "--target", target, "--protocol", "2026-07-28"]
        command += ["--report", "results_json", "--reports-dir", str(tmp_path / str(number))]
        runs.append(subprocess.Popen(command, cwd=ROOT, env=shared, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    said = [run.communicate(timeout=900)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0, 0], "\n".join(map(told, said))
    for number, (_, files) in enumerate(shares()):
        results = json.loads(next((tmp_path / str(number)).glob("*Z-*/results.json")).read_text())
        assert {verdict["outcome"] for verdict in results["verdicts"]} <= {"pass", "not_applicable"}
        assert results["totals"]["pass"] >= len(files) - NOT_AT_THIS_VERSION
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
