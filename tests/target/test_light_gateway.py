"""Small gateways judged through the whole bench: what they lack is red by name, and misbehaviour is told by name and version."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from harness.cassette.redact import Redactor
from harness.clock import TestClock
from harness.engine.bench import Bench, BenchOptions
from harness.engine.documents import read_documents
from harness.engine.evidence_log import EvidenceLog, read_evidence
from harness.engine.item import ItemRun
from harness.engine.judge import judge
from harness.engine.plan import out_of_reach
from harness.engine.vocabulary import load_vocabulary, manifests
from harness.errors import Exit, UsageError
from harness.model.plan import PlanItem
from harness.model.scenario import ConsentSpec
from harness.model.verdict import Verdict
from harness.scenario.files import data_root
from harness.scenario.load import load_scenario
from harness.target.base import ABILITIES, Ability
from harness.target.child import Child, Command, free_port
from harness.target.installed import Installation
from harness.target.light import LightTarget, Served, secret_of
from harness.target.streamable_http import TARGET as STREAMABLE
from harness.target.streamable_http import StreamableHttp

LAB = Path(__file__).with_name("lab_gateway.py")
PROTOCOL = "2025-11-25"
PLAIN = """
scenario: LAB
title: A look and a search
connections: {mem0: {grant: personal}}
protocols: ["2025-11-25"]
steps:
  - {id: list, discover: mem0}
  - id: look
    call: mem0.get_memories
    with: {filters: {user_id: nobody}}
    expect:
      - {id: empty, result: {is_error: false, at: /results, count: 0, origin: provider}}
      - {id: trail, audited: success}
      - {id: once, dispatched: {count: 1}}
expect:
  - {id: quiet, nothing_else: true}
  - {id: access, access: {allowed: 11}}
  - {id: clean, no_secret: true}
proves:
  - {claim: nothing is there, by: [empty, once, quiet]}
  - {claim: it is on record, by: [trail]}
does_not_prove: [anything else]
"""


@dataclass
class Lab(LightTarget):
    """`mode`: see lab_gateway.py. Installed already: its venv is a link to this very interpreter."""

    mode: str
    folder: Path

    id = "lab"
    summary = "for tests"
    package = "lab-gateway"
    abilities = frozenset[Ability]({"credentials"})
    protocols = ("2025-06-18", "2025-11-25")

    def installation(self) -> Installation:
        home, lock = self.folder / "home", self.folder / "requirements.txt"
        if not home.exists():
            (home / "bin").mkdir(parents=True)
            (home / "bin" / "python").symlink_to(sys.executable)
            lock.write_text("lab-gateway==1.2.3 \\\n    --hash=sha256:00\n", encoding="utf-8")
            shutil.copyfile(lock, home / ".locked")
        return Installation("lab", self.package, home, lock)

    def command(self, installed: Installation, served: Served) -> Command:
        return lab_command(self.mode, str(served.request.url), secret_of(served.request), served.port, served.home, served.log)


def lab_command(mode: str, upstream: str, key: str, port: int, home: Path, log: Path) -> Command:
    words, ready = [sys.executable, str(LAB), str(port), upstream, mode], 1.0 if mode == "silent" else 60.0
    return Command(words=words, port=port, home=home, log=log, env={"LAB_KEY": key}, hidden=(key,), ready_within_s=ready, end_within_s=3.0)


def item_of(target: LightTarget, text: str = PLAIN) -> PlanItem:
    scenario = load_scenario(text, "lab.yaml", load_vocabulary(data_root()))
    reasons = tuple(out_of_reach(scenario, target, PROTOCOL))
    lacking = tuple(sorted(ABILITIES - target.abilities))
    return PlanItem(scenario=scenario, level="fake", target=target.id, protocol=PROTOCOL, lacking=lacking, untestable=reasons)


async def carried_out(target: LightTarget, item: PlanItem, folder: Path) -> Path:
    options = BenchOptions(level="fake", providers=["mem0"], manifests=manifests(data_root()))
    log = EvidenceLog(folder / "evidence.jsonl", Redactor())
    async with Bench(target, options, folder) as bench:
        documents = read_documents(data_root(), ["mem0"])
        await ItemRun(bench=bench, item=item, log=log, documents=documents, run_id="lab").run()
    log.close()
    return log.path


def verdict_of(target: LightTarget, folder: Path, text: str = PLAIN) -> Verdict:
    folder.mkdir(exist_ok=True)
    (verdict,) = judge(read_evidence(asyncio.run(carried_out(target, item_of(target, text), folder)))).verdicts
    assert [p for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE and str(LAB) in p.cmdline()] == []
    return verdict


def red(verdict: Verdict) -> list[tuple[str, str, str]]:
    return [(f.id, f.expectation, f.message) for f in verdict.findings if f.severity in ("error", "fail")]


def ids(found: Sequence[tuple[str, str, str]]) -> set[tuple[str, str]]:
    return {(rule, expectation) for rule, expectation, _ in found}


def test_what_a_gateway_lacks_is_red_by_name_and_the_rest_is_judged(tmp_path: Path) -> None:
    verdict = verdict_of(Lab("honest", tmp_path), tmp_path / "run")
    assert ids(red(verdict)) == {("untestable", "trail"), ("untestable", "access")}
    assert {m.partition(":")[0] for _, _, m in red(verdict)} == {"audit", "access"}
    assert (verdict.outcome, verdict.exit_code, verdict.witnesses) == ("error", Exit.INCOMPLETE, 2)
    assert {"empty", "once", "quiet", "clean"} <= set(verdict.evaluated)
    assert [c.proven for c in verdict.claims] == [True, False]


def test_what_cannot_be_set_up_is_not_begun(tmp_path: Path) -> None:
    text = PLAIN.replace("{grant: personal}", "{permissions: {add_memory: ask_first}, quarantine: true}")
    verdict = verdict_of(Lab("honest", tmp_path), tmp_path / "run", text)
    assert [m.partition(":")[0] for _, _, m in red(verdict)] == ["permissions", "quarantine"]
    assert (verdict.exit_code, verdict.counts["calls"], verdict.evaluated) == (Exit.INCOMPLETE, 0, ())


def test_a_step_that_needs_what_is_lacking_breaks_off_as_untestable(tmp_path: Path) -> None:
    text = PLAIN.replace("- {id: list, discover: mem0}", "- {id: list, revoke: mem0}")
    found = red(verdict_of(Lab("honest", tmp_path), tmp_path / "run", text))
    assert [(rule, m.partition(":")[0]) for rule, _, m in found if rule == "untestable"] == [("untestable", "revoke")]


def test_a_result_that_the_tap_never_saw_is_not_believed(tmp_path: Path) -> None:
    verdict = verdict_of(Lab("forger", tmp_path), tmp_path / "run")
    found = red(verdict)
    assert {("result", "empty"), ("dispatched", "once"), ("witness-blind", "")} <= ids(found)
    assert verdict.outcome == "error"
    assert not any(c.proven for c in verdict.claims)


@pytest.mark.parametrize(
    ("mode", "says", "code"),
    [
        ("busy", "lab 1.2.3: the MCP handshake failed", Exit.UNREACHABLE),
        ("mortal", "lab 1.2.3 ended by itself with code 9", Exit.UNREACHABLE),
        ("hoarder", "lab 1.2.3 left 1 of its processes behind", Exit.INCOMPLETE),
        ("silent", "lab 1.2.3 was not ready within 1 s", Exit.UNREACHABLE),
        ("choosy", "lab 1.2.3 ended with code 1 before it was ready: upstream http", Exit.UNREACHABLE),
        ("modern", "before it was ready: this gateway needs Python 9.0 or newer", Exit.UNREACHABLE),
    ],
)
def test_misbehaviour_is_told_by_name_and_version(mode: str, says: str, code: Exit, tmp_path: Path) -> None:
    verdict = verdict_of(Lab(mode, tmp_path), tmp_path / "run")
    assert any(says in message for _, _, message in red(verdict)), red(verdict)
    assert (verdict.outcome, verdict.exit_code) == ("error", code)
    hoarded = [p for p in psutil.process_iter(["cmdline"]) if "signal.SIG_IGN); time.sleep(600)" in " ".join(p.info["cmdline"] or ())]
    assert [p for p in hoarded if p.status() != psutil.STATUS_ZOMBIE] == []


def test_a_standing_gateway_that_was_pointed_at_the_tap_is_judged_with_a_witness(tmp_path: Path) -> None:
    tap = free_port()

    async def work() -> Path:
        port = free_port()
        command = lab_command("honest", f"http://127.0.0.1:{tap}/m/mem0/mcp/", "synthetic-mem0", port, tmp_path, tmp_path / "x.log")
        child = await Child.start("lab", command)
        try:
            target = STREAMABLE.given(f"http://127.0.0.1:{port}/mcp,tap={tap}")
            return await carried_out(target, item_of(target), tmp_path)
        finally:
            with suppress(ProcessLookupError):
                await child.end()

    (verdict,) = judge(read_evidence(asyncio.run(work()))).verdicts
    assert ids(red(verdict)) == {("untestable", "trail"), ("untestable", "access")}
    assert [c.proven for c in verdict.claims] == [True, False]


def test_without_a_tap_in_between_nothing_is_proven(tmp_path: Path) -> None:
    async def work() -> Path:
        async with Bench(Lab("honest", tmp_path), BenchOptions("fake", ["mem0"], manifests(data_root())), tmp_path) as other:
            source = other.sources["mem0"]
            port = free_port()
            upstream, key = source.base_url + source.path, "synthetic-else"

            source.admit(key, "mem0", ConsentSpec(), {}, TestClock())
            child = await Child.start("lab", lab_command("honest", upstream, key, port, tmp_path, tmp_path / "x.log"))
            try:
                target = STREAMABLE.given(f"http://127.0.0.1:{port}/mcp")
                return await carried_out(target, item_of(target), tmp_path)
            finally:
                await child.end()

    (verdict,) = judge(read_evidence(asyncio.run(work()))).verdicts
    assert "witness-blind" in {rule for rule, _, _ in red(verdict)}
    assert not any(c.proven for c in verdict.claims)


@pytest.mark.parametrize("value", ["", "nowhere", "ftp://x/mcp", "http:///mcp", "http://x/mcp,tap=", "http://x/mcp,tap=0", "http://x/mcp,port=9"])
def test_a_value_that_names_no_gateway_is_refused(value: str) -> None:
    with pytest.raises(UsageError):
        STREAMABLE.given(value)


def test_a_value_says_where_the_gateway_and_the_tap_are() -> None:
    found = STREAMABLE.given("http://127.0.0.1:9000/mcp,tap=9100")
    assert isinstance(found, StreamableHttp)
    assert (found.url, found.tap_port) == ("http://127.0.0.1:9000/mcp", 9100)
