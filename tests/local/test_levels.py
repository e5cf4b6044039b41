"""At which level a claim speaks, and that what is not installed is red and says what to do."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from harness.clock import SystemClock
from harness.engine.fold import level_of
from harness.engine.legs import LegSource
from harness.engine.plan import make_plan, unavailable
from harness.engine.vocabulary import kinds
from harness.errors import Exit, Untestable
from harness.local.base import servers
from harness.local.installation import Installation
from harness.local.mem0 import Mem0Server
from harness.model.evidence import PlanItemRecord
from harness.model.scenario import LEVELS, Level

CATALOG = {"access", "discovered", "drifted", "hashes", "no_drift", "risk"}


def start(**legs: Level) -> PlanItemRecord:
    named = {name.replace("_", "/"): level for name, level in legs.items()}
    return PlanItemRecord(
        phase="start", item="S[local,reference,2026-07-28]", at="", scenario="S", level="local", target="reference", protocol="2026-07-28", legs=named
    )


def test_what_is_about_the_tool_list_speaks_at_the_schema_legs_level() -> None:
    record = start(mem0_schema="local", mem0_memory="fake")
    assert level_of(record, {"schema"}) == "local"
    assert level_of(record, {"memory"}) == "fake"
    assert level_of(record, {"schema", "memory"}) == "fake"


def test_the_lowest_of_several_connections_counts() -> None:
    record = start(mem0_schema="local", mem0_memory="fake", zep_schema="fake", zep_memory="fake")
    assert level_of(record, {"schema"}) == "fake"


def test_without_legs_the_items_own_level_counts() -> None:
    assert level_of(start(), {"schema"}) == "local"


def test_which_kinds_rest_on_the_tool_list_alone() -> None:
    assert {kind.id for kind in kinds().values() if kind.leg == "schema"} == CATALOG | {"answered", "dialled", "quarantined", "relayed", "sandboxed"}


def test_the_gateway_converts_only_where_the_software_lacks_the_agents_version() -> None:
    old = LegSource("mem0", "http://127.0.0.1:1", "/mcp", False, "local", "fake", protocols=("2025-11-25",))
    assert [old.pin(p) for p in ("2025-06-18", "2025-11-25", "2026-07-28")] == ["auto", "2025-11-25", "auto"]
    fake = LegSource("mem0", "http://127.0.0.1:1", "/mcp", False, "fake", "fake")
    assert fake.pin("2026-07-28") == "2026-07-28"


# ---- what is not there is red


def installed(folder: Path, *, made_from: str | None) -> Installation:
    lock = folder / "mem0-requirements.txt"
    lock.write_text("a==1\n")
    found = Installation(folder / ".real" / "mem0", lock)
    if made_from is not None:
        found.python.parent.mkdir(parents=True)
        found.python.symlink_to(sys.executable)
        found.made_from.write_text(made_from)
    return found


def test_an_installation_is_there_missing_or_out_of_date(tmp_path: Path) -> None:
    for name, made_from, words in (("a", None, "not installed"), ("b", "a==0\n", "out of date"), ("c", "a==1\n", "")):
        (tmp_path / name).mkdir()
        reason = installed(tmp_path / name, made_from=made_from).missing()
        assert (words in reason) if words else not reason
        assert not reason or "run make real" in reason


def test_a_torn_installation_is_not_taken_for_one(tmp_path: Path) -> None:
    found = installed(tmp_path, made_from="a==1\n")
    found.made_from.unlink()
    assert "unfinished" in found.missing()


def test_starting_what_is_not_installed_says_what_to_do(tmp_path: Path) -> None:
    server = Mem0Server(installed(tmp_path, made_from=None))

    async def begin() -> None:
        async with server.start(SystemClock(), tmp_path):
            raise AssertionError("started without an installation")

    with pytest.raises(Untestable) as caught:
        asyncio.run(begin())
    assert caught.value.fix == "run make real"
    assert caught.value.exit_code is Exit.INCOMPLETE


def test_a_provider_without_a_server_of_its_own_is_named() -> None:
    assert unavailable("zep", "local") == "zep has no server of its own that runs on this machine"
    items = make_plan([], level="local", providers=["zep"]).items
    assert all(item.missing or item.not_applicable for item in items)
    assert any(item.missing for item in items)


def test_what_is_planned_at_level_local_is_what_is_installed() -> None:
    reason = servers()["mem0"].missing()
    assert unavailable("mem0", "local") == (f"mem0: {reason}" if reason else "")
    assert all(level in LEVELS for s in servers().values() for level in (s.schema_level, s.memory_level))


def test_the_local_scenarios_apply_nowhere_else() -> None:
    for item in make_plan(["REAL-*"], level="fake").items:
        assert item.not_applicable
        assert not item.missing
