"""The whole report over real wires: a relay that changes what it is known to change, the command, and gateways that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.clock import SystemClock
from harness.errors import Exit, HarnessError
from harness.target.base import Ability
from harness.target.child import Command
from harness.target.installed import Installation
from harness.target.light import LightTarget, Served, secret_of
from harness.transparency.facts import Report
from harness.transparency.lab_tools import lab_tools
from harness.transparency.measure import Seat
from harness.transparency.page import page
from harness.transparency.render import as_html, as_json, as_markdown, as_text
from harness.transparency.report import exit_code, transparency
from harness.transparency.written import read_report, stable

LAB = Path(__file__).parents[1] / "target" / "lab_gateway.py"


@dataclass
class Lab(LightTarget):
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
        key = secret_of(served.request)
        words = [sys.executable, str(LAB), str(served.port), str(served.request.url), self.mode]
        ready = 1.0 if self.mode == "silent" else 60.0
        return Command(words, served.port, served.home, served.log, {"LAB_KEY": key}, (key,), ready_within_s=ready, end_within_s=3.0)


async def reported(mode: str, folder: Path, *, whole: bool) -> Report:
    kind: Any = Lab(mode, folder)
    return await transparency(Seat(kind, folder / "work", SystemClock()), (), None, whole=whole)


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """No process of a lab gateway outlives the block."""
    try:
        yield
    finally:
        left = [p.cmdline() for p in psutil.Process().children(recursive=True) if p.status() != psutil.STATUS_ZOMBIE]
        assert not [words for words in left if str(LAB) in words]


@pytest.fixture(scope="module")
def relayed(tmp_path_factory: pytest.TempPathFactory) -> Report:
    with nothing_left():
        return asyncio.run(reported("honest", tmp_path_factory.mktemp("relay"), whole=True))


def test_a_relay_shows_what_it_is_known_to_change_and_nothing_else(relayed: Report) -> None:
    """It hands bodies on as they are, lets no header through but the protocol's, and holds answers until they are whole."""
    found = {one.fact.key for one in relayed.judged if one.counts != "same"}
    headers = {"context.header_custom", "context.header_key_of_agent", "context.header_traceparent"}
    assert headers <= found
    whole = {"progress.steps", "progress.own_token", "cancellation.reached", "cancellation.with_own_id", "cancellation.notices"}
    late = {"case.b05"}  # it hands on what the provider still answers to a cancelled call
    assert found - headers <= whole | late
    assert len(relayed.judged) > 100
    assert relayed.incomplete == ""
    assert {one.id for one in relayed.measures} == {"latency.p50", "latency.added", "cpu.per_call"}


def test_a_relay_hides_no_change_of_the_catalog_and_has_no_record(relayed: Report) -> None:
    views = {each.change: (each.registry, each.session, each.fresh_session, each.refresh) for each in relayed.catalog}
    short = next(word for word in views.pop("cursor-dropped") if word != "none")
    assert short == f"incomplete: 8 of {len(lab_tools())} tools are missing"
    assert set(views.values()) == {("none", "new", "new", "none")}
    assert {entry.case: entry.why.partition(": ")[2] for entry in relayed.audit} == {
        "ok": "audit",
        "tool_error": "audit",
        "denied": "permissions",
        "pending": "approvals",
        "upstream_error": "audit",
        "timeout": "audit",
    }
    shown = {one.case: one.outcome for one in relayed.cases}
    assert [one.what for one in relayed.cases if one.case == "b05"] == ["a result came for the cancelled call"]
    assert (shown["b06"], shown["b07"], shown["a08"]) == ("pass", "pass", "pass")
    assert (shown["b08"], shown["b09"]) == ("untestable", "untestable")


def test_pages_hold_everything_and_no_word_of_others_is_markup(relayed: Report, tmp_path: Path) -> None:
    evil = relayed.model_copy(update={"gateway": "<script>alert(1)</script> | [x](javascript:1)\n# h"})
    assert "<script" not in as_html(evil)
    assert "\n# h" not in as_markdown(evil)
    assert "<script" not in page([evil], {})
    assert json.loads(as_json(relayed))["format"] == "transparency/v1"
    (tmp_path / "r.json").write_text(as_json(relayed), encoding="utf-8")
    assert stable(read_report(tmp_path / "r.json")) == stable(relayed)
    assert "Catalog honesty" in as_text(relayed)
    assert "untestable: audit" in page([relayed], {})


def test_faults_are_exit_1_and_a_list_that_lost_tools_is_5_at_least(relayed: Report) -> None:
    facts_only = relayed.model_copy(update={"audit": (), "cases": (), "judged": tuple(j for j in relayed.judged if j.counts != "fault")})
    assert exit_code(facts_only) == Exit.OK
    assert exit_code(facts_only.model_copy(update={"incomplete": "1 tools"})) == Exit.INCOMPLETE
    assert exit_code(facts_only.model_copy(update={"news": ("x",)})) == Exit.FAILED
    assert exit_code(facts_only.model_copy(update={"audit": relayed.audit})) == Exit.INCOMPLETE


MISBEHAVING = [
    ("busy", "lab 1.2.3: no MCP session at 2025-11-25: HTTP 429", Exit.UNREACHABLE),
    ("mortal", "lab 1.2.3 ended by itself with code 9", Exit.UNREACHABLE),
    ("forger", "lab 1.2.3 gave answers to calls that never reached the provider", Exit.INCOMPLETE),
    ("hoarder", "lab 1.2.3 left 1 of its processes behind", Exit.INCOMPLETE),
    ("silent", "lab 1.2.3 was not ready within 1 s", Exit.UNREACHABLE),
    ("choosy", "lab 1.2.3 ended with code 1 before it was ready: upstream http", Exit.UNREACHABLE),
    ("modern", "lab 1.2.3 ended with code 1 before it was ready: this gateway needs Python 9.0 or newer", Exit.UNREACHABLE),
    ("limited", r"lab 1.2.3 answered HTTP 429 to \d+ requests", Exit.UNREACHABLE),
    ("shut", "lab 1.2.3 lets no call through: .*no calls today", Exit.UNREACHABLE),
    ("crosser", "lab 1.2.3 gave a call the answer of another call", Exit.INCOMPLETE),
    ("stranger", r"lab 1.2.3 answered \d+ requests with an answer to another", Exit.INCOMPLETE),
]


@pytest.fixture(scope="module")
def misbehaved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report | BaseException]:
    """Mode → how its report ended. Each has a lab and processes of its own and mostly waits, so all of them wait at once."""
    folder = tmp_path_factory.mktemp("misbehaving")

    async def each() -> list[Report | BaseException]:
        reports = [reported(mode, folder / mode, whole=False) for mode, *_ in MISBEHAVING]
        return await asyncio.gather(*reports, return_exceptions=True)

    with nothing_left():
        return dict(zip((mode for mode, *_ in MISBEHAVING), asyncio.run(each()), strict=True))


@pytest.mark.parametrize(("mode", "says", "code"), MISBEHAVING)
def test_a_gateway_that_misbehaves_is_told_by_name_and_version(
    mode: str, says: str, code: Exit, misbehaved: dict[str, Report | BaseException]
) -> None:
    found = misbehaved[mode]
    assert isinstance(found, HarnessError), found
    assert re.search(says, str(found))
    assert found.exit_code == code
