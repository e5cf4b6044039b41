"""Papr's own MCP server, unchanged, behind tap and gateway; its backend is our REST stand-in, which it reaches by Papr's own SDK.

Run by `make real` and by nothing else. Nothing here skips: a missing installation is red.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from harness.clock import SystemClock
from harness.inventory.canonical import schema_hash
from harness.inventory.store import read_inventory
from harness.local.base import servers
from harness.model.answer import json_of
from harness.target.wire import WireSession, wire_session

pytestmark = pytest.mark.timeout(300)

HERE = Path(__file__).resolve().parent
PROTOCOLS = ("2025-06-18", "2025-11-25", "2026-07-28")
KEY = re.compile(r"\bpapr-[0-9a-f]{32}")
FALLBACK = "get_memories"
"""A tool that only the fallback has, which answers for everything without asking anybody."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, str, Path]:
    """Its local scenarios, once, at all three protocol versions: exit code, output, the run's folder."""
    reports = tmp_path_factory.mktemp("reports")
    command = [sys.executable, "-m", "harness", "run", "REAL-PAPR-*", "--level", "local", "--protocol", "all", "--reports-dir", str(reports)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    (folder,) = [f for f in reports.iterdir() if f.is_dir() and not f.is_symlink()]
    return ended.returncode, ended.stdout + ended.stderr, folder


def results(whole: tuple[int, str, Path]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((whole[2] / "results.json").read_text(encoding="utf-8"))
    return found


def test_it_is_installed_from_the_lock_that_is_shipped() -> None:
    assert servers()["papr-mcp"].missing() == ""


def test_every_local_scenario_passes_at_every_protocol_version(whole: tuple[int, str, Path]) -> None:
    assert whole[0] == 0, whole[1]
    outcomes = {v["item"]: v["outcome"] for v in results(whole)["verdicts"]}
    wanted = {f"{s}[local,reference,{p}]" for s in ("REAL-PAPR-CATALOG", "REAL-PAPR-ROUNDTRIP") for p in PROTOCOLS}
    assert outcomes == dict.fromkeys(sorted(wanted), "pass")


def test_schema_claims_are_local_and_memory_claims_fake(whole: tuple[int, str, Path]) -> None:
    levels = {(v["scenario"], c["level"], c["proven"]) for v in results(whole)["verdicts"] for c in v["claims"]}
    assert {each for each in levels if each[0] == "REAL-PAPR-ROUNDTRIP"} == {("REAL-PAPR-ROUNDTRIP", "fake", True)}
    assert ("REAL-PAPR-CATALOG", "local", True) in levels
    assert results(whole)["level_line"].startswith("Evidence level: local")


def test_its_key_stays_where_it_belongs(whole: tuple[int, str, Path]) -> None:
    assert "Uvicorn running" in (whole[2] / "papr-server" / "server.log").read_text(encoding="utf-8")
    for file in (path for path in whole[2].rglob("*") if path.is_file()):
        assert not KEY.search(file.read_text(encoding="utf-8", errors="replace")), file.name


# ---- the server alone, without a gateway


async def asked(session: WireSession, tool: str, **arguments: Any) -> tuple[bool, Any]:
    """(isError, what the tool says)."""
    answer = await session.call(tool, arguments, meta={}, timeout=30.0)
    assert answer.result is not None, answer
    text = answer.result["content"][0]["text"] if answer.result["isError"] else json_of(answer.result)
    return answer.result["isError"], text


async def tools_work(session: WireSession) -> None:
    failed, added = await asked(session, "add_memory", content="The navigator keeps a compass.", metadata={"external_user_id": "ann"})
    memory = added["data"][0]["memoryId"]
    assert not failed
    failed, found = await asked(session, "search_memory", query="navigator compass", external_user_id="ann")
    assert (failed, [m["id"] for m in found["data"]["memories"]]) == (False, [memory])
    assert (await asked(session, "update_memory", memory_id=memory, content="The navigator lost it."))[1]["memory_items"][0]["memoryId"] == memory
    assert (await asked(session, "get_memory", memory_id=memory))[1]["data"]["memories"][0]["content"] == "The navigator lost it."
    failed, batch = await asked(session, "add_memory_batch", memories=[{"content": "one"}, {"content": "x" * 15_001}])
    assert (failed, batch["status"], batch["total_failed"]) == (False, "partial", 1)
    failed, text = await asked(session, "add_memory", content="é" * 7_501)
    assert failed
    assert "413" in text
    assert (await asked(session, "delete_memory", memory_id=memory))[1]["status"] == "success"
    failed, text = await asked(session, "get_memory", memory_id=memory)
    assert failed
    assert "404" in text


def test_its_tools_are_the_captured_ones_and_work_and_nobody_else_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAPR_API_KEY", "not-for-a-child")
    agreed = {record.name: record.schema_hash for record in read_inventory(HERE / "inventories" / "papr.yaml").tools}

    async def run() -> int:
        client = httpx2.AsyncClient(verify=ssl.create_default_context(), trust_env=False, timeout=httpx2.Timeout(60.0))
        async with servers()["papr-mcp"].start(SystemClock(), tmp_path) as up, client as http:
            async with wire_session(up.base_url + up.path, http, "2025-11-25") as session:
                listing = await session.list_tools(timeout=30.0)
                found = {tool["name"]: schema_hash(tool["inputSchema"]) for tool in listing.tools}
                assert found == agreed
                assert FALLBACK not in found
                await tools_work(session)
                assert "not-for-a-child" not in Path(f"/proc/{up.process_id}/environ").read_text(encoding="utf-8")
                others = [c.raddr.ip for c in psutil.Process(up.process_id).net_connections() if c.raddr]
                assert set(others) <= {"127.0.0.1"}
            return up.process_id

    process_id = asyncio.run(run())
    assert not psutil.pid_exists(process_id)


def test_the_versions_are_the_pinned_ones() -> None:
    python = Path(servers()["papr-mcp"].installed.python)  # type: ignore[attr-defined]  # this one has an installation
    program = "import json, importlib.metadata as m; print(json.dumps([m.version(n) for n in ('papr-memory-mcp', 'papr-memory', 'fastmcp', 'mcp')]))"
    ended = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    mcp_server, sdk, fastmcp, mcp = json.loads(ended.stdout)
    assert (mcp_server, sdk) == ("0.1.8", "2.29.0")
    assert fastmcp.startswith("2.")
    assert mcp.startswith("1.")
