"""Mem0's own server software, unchanged, behind tap and gateway; its backend is ours.

Run by `make real` and by nothing else. Nothing here skips: a missing installation is red.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from harness.clock import SystemClock
from harness.inventory.canonical import schema_hash
from harness.inventory.store import load_inventory
from harness.local.base import servers
from harness.local.mem0_rest import INDEX_DELAY_S
from harness.model.answer import json_of
from harness.scenario.files import inventories_folder
from harness.target.wire import WireSession, wire_session

pytestmark = pytest.mark.timeout(300)

PROTOCOLS = ("2025-06-18", "2025-11-25", "2026-07-28")
EXACT = {"delete_all_memories", "delete_entities", "delete_memory", "get_memory", "list_entities"}
DIFFERENT = {"add_memory", "search_memories", "update_memory", "get_memories"}
MISSING = {"list_events", "get_event_status"}
KEY = re.compile(r"\bm0-[0-9a-f]{32}")


@dataclass(frozen=True)
class Ran:
    """One `harness run` that ended."""

    code: int
    out: str
    folder: Path

    @property
    def results(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "results.json").read_text(encoding="utf-8"))
        return found


Harness = Callable[..., Ran]


@pytest.fixture(scope="session")
def run_harness(tmp_path_factory: pytest.TempPathFactory) -> Harness:
    """The command line, in a process of its own."""

    def call(*words: str) -> Ran:
        reports = tmp_path_factory.mktemp("reports")
        command = [sys.executable, "-m", "harness", "run", *words, "--reports-dir", str(reports)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
        folders = [f for f in reports.iterdir() if f.is_dir() and not f.is_symlink()]
        assert len(folders) == 1, ended.stdout + ended.stderr
        return Ran(ended.returncode, ended.stdout + ended.stderr, folders[0])

    return call


@pytest.fixture(scope="session")
def whole(run_harness: Harness) -> Ran:
    """Its local scenarios, once, at all three protocol versions."""
    return run_harness("REAL-MEM0-*", "--level", "local", "--protocol", "all")


def verdicts(ran: Ran, scenario: str) -> list[Mapping[str, Any]]:
    found = [v for v in ran.results["verdicts"] if v["scenario"] == scenario]
    assert found
    return found


def test_it_is_installed_from_the_lock_that_is_shipped() -> None:
    assert servers()["mem0"].missing() == ""


def test_every_local_scenario_passes_at_every_protocol_version(whole: Ran) -> None:
    assert whole.code == 0, whole.out
    outcomes = {v["item"]: v["outcome"] for v in whole.results["verdicts"]}
    wanted = {f"{s}[local,reference,{p}]" for s in ("REAL-MEM0-CATALOG", "REAL-MEM0-ROUNDTRIP") for p in PROTOCOLS}
    assert outcomes == dict.fromkeys(sorted(wanted), "pass")


def test_schema_claims_are_local_and_memory_claims_fake(whole: Ran) -> None:
    for scenario, level in (("REAL-MEM0-CATALOG", "local"), ("REAL-MEM0-ROUNDTRIP", "fake")):
        for verdict in verdicts(whole, scenario):
            assert verdict["claims"]
            assert {(c["level"], c["proven"]) for c in verdict["claims"]} == {(level, True)}
            assert verdict["not_proven"]
    assert whole.results["level_line"].startswith("Evidence level: local")
    assert "claims marked fake" in whole.results["level_line"]


def test_what_was_compared(whole: Ran) -> None:
    assert whole.results["comparison"] == {"names": 11, "parameters": 9, "risk": 9, "shape": 6, "hash": 9}


def test_the_same_evidence_is_judged_the_same_elsewhere(whole: Ran, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "judge", str(whole.folder / "evidence.jsonl")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_a_gateway_that_spells_schemas_anew_is_caught(run_harness: Harness) -> None:
    ran = run_harness("REAL-MEM0-CATALOG", "--level", "local", "--protocol", "2025-11-25", "--defect", "normalise-schema")
    assert ran.code == 1, ran.out
    (verdict,) = verdicts(ran, "REAL-MEM0-CATALOG")
    caught = [f for f in verdict["findings"] if f["id"] == "hashes"]
    assert len(caught) == len(EXACT)
    assert {f["expectation"] for f in caught} == {"exact"}


def test_its_key_and_log_stay_where_they_belong(whole: Ran) -> None:
    text = (whole.folder / "mem0-server" / "server.log").read_text(encoding="utf-8")
    assert "Uvicorn running" in text
    for file in (path for path in whole.folder.rglob("*") if path.is_file()):
        assert not KEY.search(file.read_text(encoding="utf-8", errors="replace")), file.name


# ---- the server alone, without a gateway


class Caller:
    def __init__(self, session: WireSession) -> None:
        self._session = session

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        """What the tool says; every answer here is one that does not claim to be an error."""
        answer = await self._session.call(tool, arguments, meta={}, timeout=30.0)
        assert answer.result is not None, answer
        assert answer.result["isError"] is False, answer.result
        return json_of(answer.result)


async def every_tool(call: Caller) -> None:
    assert (await call("add_memory", text="The navigator keeps a compass.", user_id="ann"))["status"] == "PENDING"
    await asyncio.sleep(INDEX_DELAY_S)
    (hit,) = (await call("search_memories", query="navigator compass", filters={"user_id": "ann"}))["results"]
    same = {"memory_id": hit["id"]}
    assert [m["id"] for m in (await call("get_memories", filters={"user_id": "ann"}, page=1, page_size=5))["results"]] == [hit["id"]]
    assert (await call("update_memory", text="The navigator lost it.", **same))["memory"] == "The navigator lost it."
    assert (await call("get_memory", **same))["memory"] == "The navigator lost it."
    assert [e["name"] for e in (await call("list_entities"))["results"]] == ["ann"]
    assert "error" not in await call("delete_memory", **same)
    assert (await call("get_memory", **same))["error"] == "Memory not found!"  # masked: isError is false
    assert "error" not in await call("delete_all_memories", user_id="ann")
    assert "error" not in await call("delete_entities", user_id="ann")
    assert (await call("delete_entities"))["error"] == "scope_missing"


def test_all_nine_tools_work_and_nobody_else_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEM0_API_KEY", "not-for-a-child")
    inventory = load_inventory(inventories_folder(), "mem0")
    agreed = {record.name: record.schema_hash for record in inventory.tools}

    async def whole() -> int:
        client = httpx2.AsyncClient(verify=ssl.create_default_context(), trust_env=False, timeout=httpx2.Timeout(60.0))
        async with servers()["mem0"].start(SystemClock(), tmp_path) as up, client as http:
            async with wire_session(up.base_url + up.path, http, "2025-11-25") as session:
                listing = await session.list_tools(timeout=30.0)
                hashes = {t["name"]: schema_hash(t["inputSchema"]) for t in listing.tools}
                assert hashes.keys() == EXACT | DIFFERENT
                assert {name for name, found in hashes.items() if found == agreed[name]} == EXACT
                assert agreed.keys() - hashes.keys() == MISSING
                await every_tool(Caller(session))
                assert KEY.fullmatch(up.credential)
                assert "not-for-a-child" not in Path(f"/proc/{up.process_id}/environ").read_text(encoding="utf-8")
                others = [c.raddr.ip for c in psutil.Process(up.process_id).net_connections() if c.raddr]
                assert set(others) <= {"127.0.0.1"}
            return up.process_id

    process_id = asyncio.run(whole())
    assert not psutil.pid_exists(process_id)


def test_the_versions_are_the_pinned_ones() -> None:
    python = Path(servers()["mem0"].installed.python)  # type: ignore[attr-defined]  # this one has an installation
    program = "import json, importlib.metadata as m; print(json.dumps({n: m.version(n) for n in ('mem0-mcp-server', 'mcp')}))"
    ended = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    versions = json.loads(ended.stdout)
    assert versions["mem0-mcp-server"] == "0.2.1"
    assert versions["mcp"].startswith("1.")
