"""Drift against servers of others, unchanged, each in an environment of its own: what is found is what was reviewed.

Run by `make real`. Expected results are in real/expected: a review says there why each set of findings is right. Nothing here skips.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from harness.clock import SystemClock
from harness.local.base import servers

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
INSTALLED = ROOT / ".real"


def npm(folder: str, package: str) -> list[str]:
    """A server from npm, on standard input and output."""
    script = INSTALLED / "npm" / folder / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"
    return ["node", str(script), *(["stdio"] if package == "server-everything" else [])]


PAPR = [str(INSTALLED / "papr" / "bin" / "papr-memory-mcp")]


def harness(folder: Path, *words: str) -> tuple[int, str]:
    """One command line, in a process of its own; its variables hold no secret that is one."""
    variables = {**os.environ, "PAPR_API_KEY": "synthetic-papr-key", "HOME": str(folder), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "harness", *words]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env=variables, cwd=folder)
    return ended.returncode, ended.stdout + ended.stderr


def drift(folder: Path, *words: str, command: list[str] | None = None) -> dict[str, Any]:
    """The drift/v1 document of a comparison."""
    after = ["--", *command] if command else []
    code, said = harness(folder, "drift", *words, "--env", "PAPR_API_KEY", "--env", "HOME", "-o", "out.json", "--format", "json", *after)
    assert (folder / "out.json").exists(), said
    found: dict[str, Any] = json.loads((folder / "out.json").read_text(encoding="utf-8"))
    assert found["exit_code"] == code
    return found


def reviewed(name: str, found: dict[str, Any]) -> None:
    """The findings, relations and verdict are those in real/expected. On a difference, the new ones are left beside the test's own files."""
    actual = {
        "verdict": found["verdict"],
        "exit_code": found["exit_code"],
        "compared": {word: counts["compared"] for word, counts in found["compared"].items()},
        "findings": [{key: f[key] for key in ("id", "severity", "tool", "pointer")} for f in found["findings"]],
        "relations": {
            tool["name"]: {way: [tool[way]["relation"], tool[way]["breaking"]] for way in ("input", "output") if tool[way]}
            for tool in found["tools"]
            if tool["input"] or tool["output"]
        },
    }
    path = HERE / "expected" / f"{name}.json"
    wanted = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    review = wanted.pop("review", "")
    if actual != wanted:
        (Path.cwd() / "reports").mkdir(exist_ok=True)
        text = json.dumps({"review": "TO BE WRITTEN", **actual}, indent=1, ensure_ascii=False) + "\n"
        (Path.cwd() / "reports" / f"expected-{name}.json").write_text(text, encoding="utf-8")
    assert actual == wanted
    assert len(review) > 40, "a result counts as expected once somebody wrote why it is right"
    for finding in found["findings"]:
        if finding["severity"] == "breaking" and finding["pointer"].startswith("/inputSchema"):
            tool = next(t for t in found["tools"] if t["name"] == finding["tool"])
            if tool["input"] is not None:  # None: only names are known of the agreed schema
                assert tool["input"]["breaking"] == "yes"
                assert tool["input"]["call"]["params"]["arguments"] is not None


def test_mem0_s_released_server_against_the_hosted_inventory(tmp_path: Path) -> None:
    async def run() -> dict[str, Any]:
        async with servers()["mem0"].start(SystemClock(), tmp_path) as up:
            return await asyncio.to_thread(drift, tmp_path, "mem0", up.base_url + up.path, "--against", "local")

    reviewed("mem0", asyncio.run(run()))


def test_papr_s_released_server_is_what_was_captured(tmp_path: Path) -> None:
    reviewed("papr", drift(tmp_path, str(HERE / "inventories" / "papr.yaml"), "--against", "local", command=PAPR))


def test_the_memory_server_is_what_was_captured(tmp_path: Path) -> None:
    command = npm("memory", "server-memory")
    reviewed("memory", drift(tmp_path, str(HERE / "inventories" / "memory.yaml"), "--against", "local", command=command))


def test_two_releases_of_one_server(tmp_path: Path) -> None:
    old = tmp_path / "old.yaml"
    capture = ["inventory", "capture", "--provider", "everything", "-o", str(old)]
    code, said = harness(tmp_path, *capture, "--", *npm("everything-old", "server-everything"))
    assert code == 0, said
    reviewed("everything-inventory", drift(tmp_path, str(old), "--against", "local", command=npm("everything-new", "server-everything")))


def test_two_releases_both_alive(tmp_path: Path) -> None:
    """Both lists whole: hints, output schemas and text are compared too."""
    old = "stdio:" + " ".join(f"'{word}'" for word in npm("everything-old", "server-everything"))
    reviewed("everything-live", drift(tmp_path, old, "--against", "local", command=npm("everything-new", "server-everything")))


RELEASES = [("everything-old", "server-everything"), ("everything-new", "server-everything"), ("memory", "server-memory")]


@pytest.mark.parametrize(("folder", "package"), RELEASES)
def test_a_release_does_not_drift_from_itself(folder: str, package: str, tmp_path: Path) -> None:
    command = npm(folder, package)
    found = drift(tmp_path, "stdio:" + " ".join(f"'{word}'" for word in command), "--fail-on", "any", "--against", "local", command=command)
    assert (found["verdict"], found["exit_code"], found["findings"]) == ("same", 0, [])
