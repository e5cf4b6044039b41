"""Discovery from a command and from files, and what a user may name as a side."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.discover.capture import capture_stdio
from harness.discover.sources import capture_file, inventory_file, load_side
from harness.discover.wire import Limits
from harness.drift.compare import compare
from harness.errors import HarnessError, LoadError, Unreachable, UsageError

from .conftest import http_client, legacy, raw_app, serving

ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "tests" / "inventory" / "data" / "published-2026-09-24.json"

SDK_SERVER = """
import anyio, mcp_types as t
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
async def lt(ctx, p):
    second = p is not None and p.cursor == ""
    return t.ListToolsResult(tools=[t.Tool(name="b" if second else "a", input_schema={"type": "object"})],
                             next_cursor=None if second else "", ttl_ms=0, cache_scope="private")
async def main():
    s = Server("io", version="3", on_list_tools=lt)
    async with stdio_server() as (r, w):
        await s.run(r, w, s.create_initialization_options())
anyio.run(main)
"""

RAW_SERVER = """
import json, sys, os
print("starting up, please wait")
sys.stderr.write("x" * 200000 + "\\n"); sys.stderr.flush()
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        print(json.dumps({"jsonrpc": "2.0", "id": "s1", "method": "ping"}))
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "raw"}}}))
    elif m.get("method") == "tools/list":
        tool = {"name": "env", "title": os.environ.get("SECRET_ONLY_HERE", "none")}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": {"tools": [tool]}}))
    elif "method" in m and "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "?"}}))
    sys.stdout.flush()
"""


def _script(folder: Path, text: str) -> list[str]:
    path = folder / "server.py"
    path.write_text(text)
    return [sys.executable, str(path)]


@pytest.mark.parametrize("version", ["auto", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_a_real_stdio_server_in_every_era(tmp_path: Path, version: str) -> None:
    found = asyncio.run(capture_stdio(_script(tmp_path, SDK_SERVER), protocol_version=version))
    assert ([tool.name for tool in found.tools], found.pages, found.complete) == (["a", "b"], 2, True)
    assert found.protocol_version == ("2026-07-28" if version == "auto" else version)
    assert (found.server_name, found.server_version) == ("io", "3")


def test_stray_output_and_much_on_standard_error_do_no_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_ONLY_HERE", "leaked")
    found = asyncio.run(capture_stdio(_script(tmp_path, RAW_SERVER)))
    assert (found.protocol_version, found.tools[0].title) == ("2025-06-18", "none")
    given = asyncio.run(capture_stdio(_script(tmp_path, RAW_SERVER), env={"SECRET_ONLY_HERE": "on purpose"}, cwd=str(tmp_path)))
    assert given.tools[0].title == "on purpose"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("import sys; sys.exit('no key configured')", "code 1: no key configured"),
        ("import os, sys; os.close(1); sys.stdin.read()", "closed its output"),
        ("import time; time.sleep(30)", "within 1 s"),  # this one does not end with its input either
        ("import sys; print('{' * 100, flush=True); sys.stdin.read()", "not JSON"),
        ("import sys; print('{\"a\":\"' + 'x' * 100000, flush=True); sys.stdin.read()", "a line of more than 50000 bytes"),
        ("[print('noise' * 1000, flush=True) for _ in range(1000)]; import time; time.sleep(30)", "more than 200000 bytes"),
    ],
)
def test_a_command_that_does_not_serve(tmp_path: Path, text: str, says: str) -> None:
    limits = Limits(request_s=1, response_bytes=50_000, total_bytes=200_000)
    with pytest.raises(Unreachable) as caught:
        asyncio.run(capture_stdio(_script(tmp_path, text), protocol_version="2025-11-25", limits=limits))
    assert says in caught.value.what
    assert caught.value.fix


def test_a_command_that_cannot_start() -> None:
    with pytest.raises(Unreachable, match="cannot be started"):
        asyncio.run(capture_stdio(["/no/such/program"]))
    with pytest.raises(UsageError, match="empty command"):
        asyncio.run(capture_stdio([]))


def test_children_of_the_command_are_ended_too(tmp_path: Path) -> None:
    """A launcher that starts the real server and dies leaves nothing behind."""
    server = _script(tmp_path, RAW_SERVER)
    note = tmp_path / "pid"
    launcher = tmp_path / "launch.py"
    launcher.write_text(
        "import subprocess, sys, os\n"
        "sleeper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n"
        f"open({str(note)!r}, 'w').write(str(sleeper.pid))\n"
        f"os.execv({server[0]!r}, {server!r})\n"
    )

    async def run() -> bool:
        await capture_stdio([sys.executable, str(launcher)])
        state = Path(f"/proc/{note.read_text()}/stat")
        for _ in range(200):  # a killed process takes a moment to be gone
            if not state.exists() or state.read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
            await asyncio.sleep(0.01)
        return False

    assert asyncio.run(run())


def _write(folder: Path, data: Any) -> Path:
    path = folder / "list.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


A, B = {"name": "a", "inputSchema": {"type": "object"}}, {"name": "b"}


@pytest.mark.parametrize(
    ("data", "found", "complete"),
    [
        ({"tools": [A, B]}, ["a", "b"], True),
        ({"jsonrpc": "2.0", "id": 1, "result": {"tools": [A]}}, ["a"], True),
        ([{"tools": [A], "nextCursor": ""}, {"result": {"tools": [B]}}], ["a", "b"], True),
        ([A, B], ["a", "b"], True),
        ({"tools": []}, [], True),
        ({"tools": [A], "nextCursor": "more"}, ["a"], False),
        ([{"tools": [A], "nextCursor": "x"}, {"tools": [B], "nextCursor": "x"}, {"tools": []}], ["a", "b"], False),
    ],
)
def test_tool_lists_in_files(tmp_path: Path, data: Any, found: list[str], complete: bool) -> None:
    capture = capture_file(_write(tmp_path, data))
    assert ([tool.name for tool in capture.tools], capture.complete) == (found, complete)
    assert complete or capture.reason


@pytest.mark.parametrize("data", [{}, {"tools": 3}, [], "text", '{"tools": [], "tools": []}', [{"result": 1}], "{"])
def test_what_is_no_tool_list(tmp_path: Path, data: Any) -> None:
    with pytest.raises(LoadError) as caught:
        capture_file(_write(tmp_path, data))
    assert "list.json" in caught.value.where
    assert caught.value.fix


def _side(source: str, **options: Any) -> Any:
    return asyncio.run(load_side(source, inventories=ROOT / "inventories", **options))


def test_every_way_to_name_a_side(tmp_path: Path) -> None:
    committed = _side("mem0")
    assert compare(committed, _side(str(ROOT / "inventories" / "mem0.yaml"))).findings == ()
    assert compare(committed, _side(str(PUBLISHED), provider="mem0")).findings == ()
    assert [view.name for view in _side(str(_write(tmp_path, [A]))).views] == ["a"]

    async def over_http() -> Any:
        async with serving(raw_app(legacy(lambda _: {"tools": [A]}))) as url, http_client() as client:
            return await load_side(f"{url}/mcp", inventories=ROOT, client=client)

    assert [view.name for view in asyncio.run(over_http()).views] == ["a"]


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ("memo0", {}, "did you mean 'mem0'"),
        (str(PUBLISHED), {}, "choose one with --provider: mem0"),
        (str(PUBLISHED), {"provider": "hancho"}, "did you mean 'honcho'"),
        ("./nothing.json", {}, "check the path"),
        ("./nothing.yaml", {}, "check the path"),
    ],
)
def test_a_side_that_is_not_there(source: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(HarnessError) as caught:
        _side(source, **options)
    assert says in str(caught.value)


def test_an_inventory_from_either_format() -> None:
    assert inventory_file(PUBLISHED, "zep") == inventory_file(ROOT / "inventories" / "zep.yaml")
