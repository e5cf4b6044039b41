"""The same fleet on a Dask cluster of processes and on a process pool. Run by `make test-fleet`, which installs what it needs.

Not named test_*: `make test` must not need Dask.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import distributed
import pytest

from harness.cli.main import main
from harness.errors import Exit
from harness.fleet.check import Policy
from harness.fleet.journal import Journal
from harness.fleet.run import FleetRun
from harness.fleet.servers import load_servers
from harness.fleet.workers import Dask, Processes
from harness.model.drift_result import FleetResult
from tests.fleet.synthetic import write_fleet

SERVERS = 40
pytestmark = [
    pytest.mark.timeout(280),
    # Dask's own: it warns of its shutdown and of sockets that its event loop closes late.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two worker processes of one thread each, on loopback."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1") as made:
        yield made


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fleet(tmp_path_factory.mktemp("fleet"), SERVERS, per_server=5)


def checked(file: Path, folder: Path, workers: Any) -> FleetResult:
    with Journal(folder, resume=False) as journal, workers:
        return FleetRun(load_servers(file), Policy(today="2026-06-30"), journal, folder=file.parent, folders=()).run(workers)


def pages(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "servers").glob("server-*"))}


def test_pool_and_cluster_give_the_same_bytes(cluster: Any, file: Path, tmp_path: Path) -> None:
    pool = checked(file, tmp_path / "pool", Processes(2))
    dask = checked(file, tmp_path / "dask", Dask(cluster.scheduler_address))
    assert pool.model_copy(update={"workers": ""}) == dask.model_copy(update={"workers": ""})
    assert "at tcp://127.0.0.1" in dask.workers
    assert pages(tmp_path / "pool") == pages(tmp_path / "dask")
    assert {entry.exit_code for entry in pool.entries} == {0, 6}


def test_the_command_line_runs_on_a_cluster_and_resumes(cluster: Any, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "out")
    words = ["drift", "--fleet", str(file), "-o", out, "--scheduler", cluster.scheduler_address]
    assert main(words) == Exit.DRIFT
    assert len(json.loads((tmp_path / "out" / "fleet.json").read_text(encoding="utf-8"))["servers"]) == SERVERS
    lines = (tmp_path / "out" / "fleet.jsonl").read_text(encoding="utf-8").count("\n")
    assert main([*words, "--resume"]) == Exit.DRIFT
    assert (tmp_path / "out" / "fleet.jsonl").read_text(encoding="utf-8").count("\n") == lines == SERVERS
    capsys.readouterr()


def test_a_scheduler_that_is_not_there_is_said_so(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drift", "--fleet", str(file), "-o", str(tmp_path / "o"), "--scheduler", "tcp://127.0.0.1:9"]) == Exit.USAGE
    assert "no scheduler answers" in capsys.readouterr().err
