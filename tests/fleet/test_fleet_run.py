"""Fleets: real servers beside broken ones, resumed, with workers that die; never more under way than the workers can take."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Self

import pytest

from harness.cli.main import main
from harness.errors import Exit, LoadErrors, UsageError
from harness.fake.kit import serve_app
from harness.fleet.batch import check_batch, work
from harness.fleet.check import Policy
from harness.fleet.journal import Journal
from harness.fleet.relating import relater
from harness.fleet.run import FleetRun
from harness.fleet.servers import Job, Server, load_servers
from harness.fleet.workers import Processes
from harness.waiver.load import parse_waivers
from tests.cli.drift_servers import NARROWED, TOOLS, app, tools_file

POLICY = Policy(today="2026-06-30")


def served(tools: dict[str, list[Any]], command: Callable[[dict[str, str]], int]) -> int:
    """One real server per name, all up while the command runs with their URLs."""

    async def run() -> int:
        from contextlib import AsyncExitStack

        async with AsyncExitStack() as stack:
            urls = {name: await stack.enter_async_context(serve_app(app(listed))) + "/mcp" for name, listed in tools.items()}
            return await asyncio.to_thread(command, urls)

    return asyncio.run(run())


def fleet_file(folder: Path, servers: list[dict[str, Any]]) -> str:
    path = folder / "servers.jsonl"
    path.write_text("".join(json.dumps(server) + "\n" for server in servers), encoding="utf-8")
    return str(path)


def entries(folder: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((folder / "fleet.json").read_text(encoding="utf-8"))
    assert document["schema"] == "drift-fleet/v1"
    return {entry["id"]: entry for entry in document["servers"]}


def test_one_server_s_failure_never_stops_the_fleet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tools_file(tmp_path, "old.json", TOOLS)

    def command(urls: dict[str, str]) -> int:
        servers = [
            {"id": "same", "old": "old.json", "new": urls["same"]},
            {"id": "broken", "old": "old.json", "new": urls["broken"]},
            {"id": "dead", "old": "old.json", "new": "http://127.0.0.1:9/mcp"},
            {"id": "no-secret", "old": "old.json", "new": urls["same"], "header_env": {"X-Key": "NO_SUCH_VARIABLE"}},
            {"id": "no-file", "old": "nowhere.json", "new": old},
            {"id": "crash", "old": "old.json", "command": ["false"]},
            {"id": "mem0", "new": "mem0"},
        ]
        return main(["drift", "--fleet", fleet_file(tmp_path, servers), "-o", str(tmp_path / "out")])

    assert served({"same": TOOLS, "broken": NARROWED}, command) == Exit.USAGE  # of several codes the first in order
    found = {name: (entry["verdict"], entry["exit_code"]) for name, entry in entries(tmp_path / "out").items()}
    assert found == {
        "same": ("same", 0),
        "broken": ("drift", 6),
        "dead": ("error", 4),
        "no-secret": ("error", 3),
        "no-file": ("error", 2),
        "crash": ("error", 4),
        "mem0": ("same", 0),
    }
    said = capsys.readouterr()
    assert "[7/7]" in said.err
    assert "7 servers: 2 same, 1 drift, 4 error; exit code 2" in said.out
    index = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for name in found:
        assert f'href="servers/{name}.html"' in index
        assert (tmp_path / "out" / "servers" / f"{name}.html").is_file()
    assert "enum-narrowed" in (tmp_path / "out" / "servers" / "broken.html").read_text(encoding="utf-8")


def here(jobs: Sequence[str], policy: Policy) -> list[str]:
    """In this process, with a comparing child that ends with the batch."""
    with relater() as relate:
        return check_batch(jobs, policy, relate)


class Recorder:
    """Workers of this process that work only when the loop waits, and remember how much was under way."""

    name = "recorder"

    def __init__(self, size: int = 2, fail: frozenset[str] = frozenset()) -> None:
        self.size, self.fail = size, fail
        self.asked: list[list[str]] = []
        self.renewed = 0

    def submit(self, jobs: Sequence[str], policy: Policy) -> Future[list[str]]:
        ids = [Job.model_validate_json(job).server.id for job in jobs]
        self.asked.append(ids)
        future: Future[list[str]] = Future()
        if self.fail & set(ids):
            future.set_exception(RuntimeError("killed"))
        else:
            future.set_result(here(jobs, policy))
        return future

    def renew(self) -> None:
        self.renewed += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is kept."""


def fleet(folder: Path, servers: Sequence[Server], workers: Any, *, resume: bool = False, policy: Policy = POLICY, batch: int = 4) -> dict[str, int]:
    with Journal(folder / "out", resume=resume) as journal, workers:
        run = FleetRun(servers, policy, journal, folder=folder, folders=())
        return {entry.id: entry.exit_code for entry in run.run(workers, batch=batch).entries}


def many(folder: Path, count: int) -> list[Server]:
    tools_file(folder, "old.json", TOOLS)
    tools_file(folder, "new.json", NARROWED)
    return [Server(id=f"s{number}", old="old.json", new="new.json" if number % 3 == 0 else "old.json") for number in range(count)]


def test_a_resumed_fleet_asks_only_what_is_open(tmp_path: Path) -> None:
    servers = many(tmp_path, 9)
    first = fleet(tmp_path, servers[:5], Recorder())
    with pytest.raises(UsageError, match="holds a fleet check already"):
        Journal(tmp_path / "out", resume=False)
    again = Recorder()
    whole = fleet(tmp_path, servers, again, resume=True)
    assert sorted(name for ids in again.asked for name in ids) == ["s5", "s6", "s7", "s8"]
    assert whole == {f"s{n}": 6 if n % 3 == 0 else 0 for n in range(9)}
    assert {name: whole[name] for name in first} == first


def test_a_changed_question_is_asked_again_and_so_is_what_could_not_be_told(tmp_path: Path) -> None:
    servers = [*many(tmp_path, 3), Server(id="dead", old="old.json", new="http://127.0.0.1:9/mcp")]
    assert fleet(tmp_path, servers, Recorder())["dead"] == Exit.UNREACHABLE
    unchanged = Recorder()
    fleet(tmp_path, servers, unchanged, resume=True)
    assert unchanged.asked == [["dead"]]
    (tmp_path / "out" / "servers" / "s1.html").unlink()
    tools_file(tmp_path, "new.json", TOOLS)
    changed = Recorder()
    assert fleet(tmp_path, servers, changed, resume=True)["s0"] == 0
    assert sorted(name for ids in changed.asked for name in ids) == ["dead", "s0", "s1"]
    stricter = Recorder()
    fleet(tmp_path, servers, stricter, resume=True, policy=Policy(today="2026-06-30", fail_on=("any",)))
    assert sum(len(ids) for ids in stricter.asked) == 4


def test_a_torn_journal_loses_its_last_line_only(tmp_path: Path) -> None:
    servers = many(tmp_path, 3)
    fleet(tmp_path, servers, Recorder())
    journal = tmp_path / "out" / "fleet.jsonl"
    journal.write_bytes(journal.read_bytes()[:-20])
    again = Recorder()
    assert len(fleet(tmp_path, servers, again, resume=True)) == 3
    assert again.asked == [["s2"]]


def test_only_the_server_that_kills_its_worker_is_blamed(tmp_path: Path) -> None:
    workers = Recorder(fail=frozenset({"s4"}))
    found = fleet(tmp_path, many(tmp_path, 9), workers)
    assert found == {f"s{n}": 5 if n == 4 else 6 if n % 3 == 0 else 0 for n in range(9)}
    assert workers.renewed >= 1
    text = (tmp_path / "out" / "servers" / "s4.json").read_text(encoding="utf-8")
    assert "the worker that checked it died" in text


def kills_itself(jobs: Sequence[str], policy: Policy) -> list[str]:
    """Stands for what a hostile list might do to native code."""
    if any(Job.model_validate_json(job).server.id == "s2" for job in jobs):
        os.kill(os.getpid(), signal.SIGKILL)
    return work(jobs, policy)


def test_a_process_that_is_killed_costs_one_server(tmp_path: Path) -> None:
    found = fleet(tmp_path, many(tmp_path, 4), Processes(2, do=kills_itself), batch=2)
    assert found == {"s0": 6, "s1": 0, "s2": 5, "s3": 6}


def test_what_is_under_way_is_bounded_by_the_workers(tmp_path: Path) -> None:
    class Lazy(Recorder):
        """Answers one at a time: whatever else was handed out waits."""

        def __init__(self) -> None:
            super().__init__(size=2)
            self.waiting: list[tuple[Future[list[str]], Sequence[str], Policy]] = []
            self.most = 0

        def submit(self, jobs: Sequence[str], policy: Policy) -> Future[list[str]]:
            future: Future[list[str]] = Future()
            self.waiting.append((future, jobs, policy))
            self.most = max(self.most, len(self.waiting))
            if len(self.waiting) == 4 or len(jobs) < 4:
                for waiting, given, rules in self.waiting:
                    waiting.set_result(here(given, rules))
                self.waiting.clear()
            return future

    workers = Lazy()
    assert len(fleet(tmp_path, many(tmp_path, 41), workers)) == 41
    assert workers.most == 2 * workers.size


def test_a_waiver_for_any_server_is_unused_only_when_none_needed_it(tmp_path: Path) -> None:
    where = "{tool: find_note, pointer: /inputSchema/properties/mode/enum}"
    text = f'- {{finding: enum-narrowed, where: {where}, owner: o, reason: r, issue: i, expires: "2999-01-01"}}\n'
    servers = many(tmp_path, 4)
    with Journal(tmp_path / "a", resume=False) as journal:
        policy = Policy(today="2026-06-30", waivers=parse_waivers(text, "w.yaml"))
        result = FleetRun(servers, policy, journal, folder=tmp_path, folders=()).run(Recorder())
    assert (result.exit_code, result.notices) == (0, ())
    tools_file(tmp_path, "new.json", TOOLS)
    with Journal(tmp_path / "b", resume=False) as journal:
        result = FleetRun(servers, policy, journal, folder=tmp_path, folders=()).run(Recorder())
    assert [notice.id for notice in result.notices] == ["waiver-unused"]


def test_what_is_wrong_in_a_fleet_s_file_is_said_by_line(tmp_path: Path) -> None:
    path = tmp_path / "servers.yaml"
    path.write_text("servers:\n  - {id: one, nw: x}\n  - {id: Two Words, new: y}\n  - {id: three}\n  - {id: con, new: z}\n", encoding="utf-8")
    with pytest.raises(LoadErrors) as caught:
        load_servers(path)
    said = str(caught.value)
    for expected in ("servers.yaml:2:15: unknown key 'nw'", "did you mean 'new'?", "servers.yaml:3:6: id", "'three' needs `new`", "'con'"):
        assert expected in said
    path.write_text("servers: []\n", encoding="utf-8")
    with pytest.raises(LoadErrors, match="names no server"):
        load_servers(path)


def test_a_fleet_beside_sides_or_without_dask_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = fleet_file(tmp_path, [{"id": "a", "old": "mem0", "new": "mem0"}])
    assert main(["drift", "mem0", "--fleet", file]) == Exit.USAGE
    assert main(["drift", "--fleet", file, "-o", str(tmp_path / "o"), "--scheduler", "tcp://127.0.0.1:9"]) == Exit.USAGE
    said = capsys.readouterr().err
    assert "pip install" in said or "no scheduler answers" in said
