"""The ledger: no claim stronger than its weakest leg, newest evidence first, coverage from what was witnessed, gaps in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.claims.ledger import coverage_of, entries_of, ledger, state_from, tool_rows
from harness.claims.runs import StoredRun, read_run
from harness.cli.claims import agreed_tools
from harness.cli.main import main
from harness.errors import Exit
from harness.model.verdict import ClaimVerdict, Results, ToolCoverage, Verdict
from harness.report.html import document as html


def verdict(level: Any = "live", outcome: Any = "pass", claim: Any = None, proven: bool | None = None, **changes: Any) -> Verdict:
    proven = outcome == "pass" if proven is None else proven
    fields: dict[str, Any] = {
        "item": f"MEM-1[{level},reference,2026-07-28]",
        "scenario": "MEM-1",
        "title": "t",
        "area": "memory",
        "level": level,
        "target": "reference",
        "protocol": "2026-07-28",
        "providers": ("mem0",),
        "outcome": outcome,
        "exit_code": 0,
        "claims": (ClaimVerdict(claim="it waits", proven=proven, level=claim or level, by=("held",), unproven_because="" if proven else "held: no"),),
    }
    return Verdict(**(fields | changes))


def run(day: int, *verdicts: Verdict, broken: bool = False) -> StoredRun:
    at = f"2026-11-{day:02}T10:00:00+00:00"
    results = Results(
        run=f"r{day}", started_at=at, ended_at=at, harness_version="0.1.0", level_line="Evidence level: x", exit_code=0, exit_reasons=(), totals={},
        verdicts=verdicts,
    )  # fmt: skip
    return StoredRun(f"r{day}", results, (), broken)


def test_a_claim_is_no_stronger_than_its_weakest_leg() -> None:
    (standing,) = ledger([run(1, verdict("live", claim="fake"))]).standings
    assert (standing.proven, standing.level) == (True, "fake")
    assert any("our own stand-in" in gap for gap in standing.gaps)
    (entry,) = ledger([run(1, verdict("local", claim="live"))]).entries
    assert entry.level == "local", "nor stronger than the run it comes from"


def test_the_strongest_level_whose_newest_evidence_holds_is_shown() -> None:
    (standing,) = ledger([run(1, verdict("fake")), run(2, verdict("live"))]).standings
    assert (standing.level, standing.run, standing.date[:10]) == ("live", "r2", "2026-11-02")
    (fallen,) = ledger([run(1, verdict("live")), run(2, verdict("fake")), run(3, verdict("live", "fail"))]).standings
    assert (fallen.proven, fallen.level) == (True, "fake")
    assert any(gap.startswith("live, MEM-1[live") and "held: no" in gap for gap in fallen.gaps)
    (risen,) = ledger([run(3, verdict("live")), run(1, verdict("live", "fail"))]).standings
    assert risen.level == "live", "whatever the order in which runs are named"


def test_one_protocol_that_fails_keeps_the_claim_down() -> None:
    other = verdict("live", "fail", item="MEM-1[live,reference,2025-06-18]", protocol="2025-06-18")
    (standing,) = ledger([run(1, verdict("live"), other)]).standings
    assert not standing.proven


def test_broken_on_purpose_proves_and_covers_nothing() -> None:
    tools = (ToolCoverage(provider="mem0", tool="add_memory", state="agreed", level="live"),)
    found = ledger([run(1, verdict(tools=tools), broken=True)])
    assert not found.standings[0].proven
    assert found.tools == ()


def test_gaps_name_the_witnesses_and_the_tools_in_doubt() -> None:
    tools = (ToolCoverage(provider="mem0", tool="add_memory", state="called", level="live"),)
    (entry,) = entries_of(run(1, verdict(witnesses=2, tools=tools)))
    assert any("two witnesses" in gap for gap in entry.gaps)
    assert any("add_memory" in gap for gap in entry.gaps)


def test_coverage_takes_the_best_state_per_level_and_lists_the_untouched() -> None:
    seen = [
        ToolCoverage(provider="mem0", tool="a", state="listed", level="live"),
        ToolCoverage(provider="mem0", tool="a", state="agreed", level="fake"),
        ToolCoverage(provider="mem0", tool="a", state="called", level="fake"),
    ]
    rows = {row.tool: row for row in tool_rows(seen, {"mem0": ("a", "b")})}
    assert rows["a"].levels == {"live": "listed", "fake": "agreed"}
    assert rows["b"].levels == {}
    assert [state_from(rows["a"], level) for level in ("fake", "local", "live")] == ["agreed", "listed", "listed"]
    assert state_from(rows["b"], "fake") is None


def test_a_real_run_says_which_tools_were_called_in_agreement(shards: tuple[Path, Path]) -> None:
    rows = {(r.provider, r.tool): r.levels for r in tool_rows(coverage_of([read_run(shards[0])]), agreed_tools())}
    assert len(rows) == 82 + 7  # Papr's seven are our own bridge's
    assert rows["mem0", "add_memory"] == {"fake": "agreed"}
    assert rows["mem0", "search_memories"] == {"fake": "agreed"}
    assert rows["mem0", "get_memories"] == {"fake": "listed"}
    assert rows["zep", next(tool for provider, tool in rows if provider == "zep")] == {}


def test_coverage_needs_all_three_witnesses(shards: tuple[Path, Path], tmp_path: Path) -> None:
    """Without the audit, or without the witness, a tool was called and no more."""
    lines = (shards[0] / "evidence.jsonl").read_bytes().splitlines(keepends=True)
    for words in (b'"kind":"audit"', b'"kind":"provider_exchange"'):
        (tmp_path / "evidence.jsonl").write_bytes(b"".join(line for line in lines if words not in line))
        states = {t.tool: t.state for t in coverage_of([read_run(tmp_path)])}
        assert states["add_memory"] == "called"


def test_the_report_shows_tool_by_level(shards: tuple[Path, Path]) -> None:
    page = html(read_run(shards[0]).results)
    assert '<th scope="row">mem0.add_memory</th><td class="heat agreed">agreed</td>' in page
    assert '<th scope="row">mem0.get_memories</th><td class="heat listed">listed</td>' in page


def test_the_command_prints_text_and_json(shards: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", *map(str, shards)]) == 0
    text = capsys.readouterr().out
    assert "proven at fake     MEM-1: " in text
    assert "Not claimed, and not proven:" in text
    assert main(["claims", "--json", *map(str, shards)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "claims/v1"
    assert {entry["scenario"] for entry in data["entries"]} == {"MEM-1", "DISCOVER-MEM0"}
    assert [sum(tool["own"] is own for tool in data["tools"]) for own in (False, True)] == [82, 7]
    assert "fake: of 82 tools " in text
    assert "; apart from them, of 7 of our own bridges 0 listed, 0 called, 0 agreed" in text


def test_no_run_is_a_usage_error(tmp_path: Path) -> None:
    assert main(["claims", "--reports-dir", str(tmp_path)]) == Exit.USAGE
