"""Whole scenarios in a real sandbox behind the real relay, and each way in which it could be none."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
from harness.expect.sandbox_scene import PLACE, changed
from harness.expect.sandboxed import CHECKS
from harness.model.evidence import ControlRecord, EvidenceRecord
from harness.model.verdict import Results
from harness.sandbox.place import Place

DEFECTS = {
    "relay-leaks-token": ("MEM-6A", {"carries-nothing"}, {"isolated", "unreachable", "as-told", "gone", "clean"}),
    "relay-shares-network": ("MEM-6A", {"isolated", "unreachable"}, {"carries-nothing", "as-told", "gone", "clean"}),
    "first-list-lasts": ("RELAY-CHANNEL", {"declared-anew"}, {"refused-live", "channel-of-other-run", "ended", "carries-nothing"}),
    "relay-open-to-other-run": ("RELAY-CHANNEL", {"channel-of-other-run", "name-of-other-run"}, {"declared-anew", "ended", "carries-nothing"}),
}
"""Defect → scenario, the expectations that must find it, and those that must not."""

AS_PLAIN_USER = """
import ctypes, os, sys
uid, gid = os.getuid(), os.getgid()
assert ctypes.CDLL(None, use_errno=True).unshare(0x10000000) == 0
for name, text in (("setgroups", "deny"), ("uid_map", f"1000 {uid} 1"), ("gid_map", f"1000 {gid} 1")):
    with open(f"/proc/self/{name}", "w") as sink: sink.write(text)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
WITHOUT_NAMESPACES = AS_PLAIN_USER.replace("1000 {", "0 {").replace(
    "os.execv", 'print("0", file=open("/proc/sys/user/max_user_namespaces", "w"), flush=True); os.execv'
)
CHILD = """
import asyncio, sys
from pathlib import Path
from harness.engine.plan import make_plan
from harness.engine.run import run_plan
asyncio.run(run_plan(make_plan([sys.argv[1]]), jobs=1, evidence=Path(sys.argv[2]), run_id="child"))
"""


def ran(tmp_path: Path, *select: str, defects: Sequence[str] = ()) -> tuple[Results, list[EvidenceRecord]]:
    evidence = tmp_path / "evidence.jsonl"
    asyncio.run(run_plan(make_plan(select), jobs=2, evidence=evidence, run_id="relay", defects=defects))
    records = read_evidence(evidence)
    return judge(records), records


def child(tmp_path: Path, program: str, scenario: str) -> Results:
    evidence = tmp_path / "evidence.jsonl"
    subprocess.run([sys.executable, "-c", program, "-c", CHILD, scenario, str(evidence)], check=True, timeout=100, cwd=Path(__file__).parents[1])
    return judge(read_evidence(evidence))


@pytest.mark.parametrize("defect", sorted(DEFECTS))
def test_each_defect_is_found_by_what_is_meant_to_find_it(tmp_path: Path, defect: str) -> None:
    scenario, finds, spares = DEFECTS[defect]
    results, _ = ran(tmp_path, scenario, defects=[defect])
    found = {f.expectation for v in results.verdicts for f in v.findings if f.severity == "fail"}
    assert finds <= found
    assert not spares & found
    assert results.exit_code == 1


def test_the_report_of_a_good_run_is_worth_something(tmp_path: Path) -> None:
    """Not only does nothing red stand in it: it looked at much, found what was planted, and saw the agent's own traffic."""
    results, records = ran(tmp_path, "MEM-6A")
    assert [v.outcome for v in results.verdicts] == ["pass"]
    (told,) = [r.data for r in records if isinstance(r, ControlRecord) and r.action == "sandbox"]
    assert len(told["search"]["looked_for"]) >= 5  # three providers, the run's and the operator's token
    assert told["search"]["memory"]["bytes"] > 1_000_000
    assert told["search"]["files"]["scanned"] > 30
    assert told["traffic"]["bytes"] > 10_000
    assert told["outside"]["uid"] == 61184 or os.getuid() != 0
    text = json.dumps(told)
    assert "planted-control-" not in text
    (left,) = [r.data for r in records if isinstance(r, ControlRecord) and r.action == "sandbox_removed"]
    assert left["left"] == {"process": False, "namespace_members": [], "mounts": [], "folder": False}


def test_a_plain_user_makes_the_same_place_where_the_kernel_lets_it(tmp_path: Path) -> None:
    results = child(tmp_path, AS_PLAIN_USER, "MEM-6A")
    assert [v.outcome for v in results.verdicts] == ["pass"]


def test_without_namespaces_the_scenario_is_red_as_untestable(tmp_path: Path) -> None:
    results = child(tmp_path, WITHOUT_NAMESPACES, "MEM-6A")
    (verdict,) = results.verdicts
    assert verdict.outcome == "error"
    assert "untestable" in {f.id for f in verdict.findings}
    assert results.exit_code == 5


def test_the_agent_dies_with_whoever_made_its_place() -> None:
    """Also when the maker is killed and has no chance to clean up."""

    async def go() -> bool:
        place = await Place({}).start()
        launcher = place._launcher
        assert launcher is not None
        launcher.kill()
        told = await place.remove()
        left = told["left"]
        return not (left["process"] or left["namespace_members"] or left["mounts"] or left["folder"])

    assert asyncio.run(go())


def test_a_place_is_small_and_cannot_be_written_to() -> None:
    async def go() -> dict[str, object]:
        place = await Place({}).start()
        try:
            return await place.ask({"do": "about"})
        finally:
            await place.remove()

    told = asyncio.run(go())
    assert (told["uid"], told["pid"], told["groups"], told["root_writable"]) == (1000, 1, [], False)
    assert (told["capabilities"], told["bounding"], told["no_new_privileges"]) == ("0" * 16, "0" * 16, "1")


def test_what_was_slipped_into_a_place_is_seen_from_both_sides(tmp_path: Path) -> None:
    """An open file of the host and a socket that leads elsewhere, handed in beside an order as a careless runner might."""
    secret = tmp_path / "secret"
    secret.write_text("x")

    async def go() -> tuple[list[str], list[str], list[str]]:
        place = await Place({}).start()
        one, other = socket.socketpair()
        try:
            before = place.seen()["descriptors"]
            with one, other, secret.open() as held:
                for handed in (held.fileno(), other.fileno()):
                    await place.ask({"do": "list"}, handed)
                look = {"roots": [], "file": "/x", "socket": "/x", "abstract": "x", "variable": "X", "gateway": ["127.0.0.1", 9]}
                inside = (await place.ask({"do": "probe", "look": look}))["descriptors"]
                return before, place.seen()["descriptors"], inside
        finally:
            await place.remove()

    before, after, inside = asyncio.run(go())
    assert before == ["0 /dev/null", "1 /dev/null", "2 pipe", "3 script"]
    assert [each.partition(" ")[2] for each in after[4:]] == [str(secret), "socket"]
    place = changed(changed(PLACE, ("outside", "descriptors"), after), ("probe", "inside", "descriptors"), inside)
    assert any("was not given" in what for what, _ in CHECKS["isolated"](place))
    assert any("nobody gave it" in what for what, _ in CHECKS["isolated"](place))
    assert any("leads elsewhere" in what for what, _ in CHECKS["unreachable"](place))
