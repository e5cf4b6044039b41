"""Results → what the history keeps of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from harness.history.rows import ItemRow, Leftover, RunRow, Stored, VisibleRow
from harness.model.verdict import Results, Verdict

BAD = ("fail", "drift", "error")


def stored(results: Results, *, kind: str, hosts: Mapping[str, str], causes: Mapping[str, str] | None = None, started: str = "") -> Stored:
    """`hosts`: provider → who stood for it ("live", or a loopback address), for what was left there. `causes`: item → triage's class."""
    at = started or results.started_at or results.ended_at
    verdicts = results.verdicts
    return Stored(
        run=RunRow(results.run, at, kind, results.exit_code, results.level_line),
        items=tuple({row.item: row for row in (item_row(v, (causes or {}).get(v.item, "")) for v in verdicts)}.values()),
        visible=tuple(row for v in verdicts for row in visible_rows(v)),
        leftovers=tuple(row for v in verdicts for row in leftover_rows(v, hosts)),
    )


def item_row(verdict: Verdict, cause: str) -> ItemRow:
    bad = [f for f in verdict.findings if f.severity in BAD]
    return ItemRow(
        item=verdict.item,
        scenario=verdict.scenario,
        level=verdict.level,
        rehearsed=verdict.rehearsed,
        providers=verdict.providers,
        outcome=verdict.outcome,
        seconds=verdict.seconds,
        failed_steps=tuple(dict.fromkeys(f.step for f in bad if f.step)),
        findings=tuple(dict.fromkeys(f.id for f in bad)),
        cause=cause,
        latency_ms=verdict.latency_ms,
    )


def visible_rows(verdict: Verdict) -> Iterator[VisibleRow]:
    for seen in verdict.visibility:
        yield VisibleRow(verdict.item, seen.step, seen.provider, seen.tool, seen.kind, verdict.level, seen.seconds, seen.attempts, seen.visible)


def leftover_rows(verdict: Verdict, hosts: Mapping[str, str]) -> Iterator[Leftover]:
    for finding in verdict.findings:
        left = finding.actual
        if finding.id == "left-behind" and isinstance(left, Mapping):
            provider = str(left["provider"])
            names = tuple(map(str, left["names"]))
            yield Leftover(provider, str(left["kind"]), str(left["id"]), names, str(left["tool"]), hosts.get(provider, "live"))
