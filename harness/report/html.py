"""`report.html`: one file that needs nothing else: no network, light and dark; others' words in it are text and only text.

Its one script finds and filters; without it the page is whole.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from harness.model.finding import Finding
from harness.model.scenario import LEVELS
from harness.model.timeline import TimelineRow
from harness.model.trend import MAX_POINTS
from harness.model.verdict import TOOL_STATES, Results, ToolState, Verdict
from harness.report.inert import BODY_RULE, clip_text, one_line, shown, visible
from harness.report.reading import answer, comparison_line, counts_line, in_order, not_proven, outcome_counts
from harness.report.sparkline import bars, line

if TYPE_CHECKING:
    from jinja2 import Template

_NOT_URL = re.compile(r"[^A-Za-z0-9._]+")


class Html:
    id = "html"
    summary = "report.html: one self-contained page for people"
    by_default = True

    def files(self, results: Results) -> Mapping[str, bytes]:
        return {"report.html": document(results).encode("utf-8")}


PAGE_BUDGET = 9_000_000
"""Bytes of scenarios' rows and details that the page holds; beyond it a scenario has its row in the table, and the page says so."""

TIMELINE_BUDGET = 2_000_000
"""Bytes of details up to which passing scenarios show their timeline too; failing ones always do."""

FIRST_ROWS, FIRST_BYTES = 200, 150_000
"""Rows, and bytes of details, that a browser draws when the page opens. The rest stands in `noscript` elements: without a script it is shown
like the rest, with one it is text until the script shows, finds or prints it."""

MOST_OPEN, MOST_LISTED, MOST_TRENDS = 12, 200, 300
"""Entries of the lists that come before the scenarios, those that are seen at once and all of them; and rows of trends."""


def document(results: Results) -> str:
    """The page. Its content policy allows nothing but its own style sheet and script, each by hash, so an escaping fault could run nothing."""
    from markupsafe import Markup

    style, script = (_template_file(name) for name in ("report.css", "report.js"))
    outer, inner, row = (_template(name) for name in ("report.html.j2", "scenario.html.j2", "row.html.j2"))
    verdicts = anchored(in_order(results))
    rows = [Markup(row.render(v=_row(anchor, verdict))) for anchor, verdict in verdicts]  # with everything in it escaped, as below
    sections = [Markup(section) for section in _sections(verdicts, inner, PAGE_BUDGET - sum(map(len, rows)))]
    first = _first(sections)
    page = _page(results, verdicts) | {
        "rows": rows[:FIRST_ROWS],
        "later_rows": rows[FIRST_ROWS:],
        "sections": sections[:first],
        "later_sections": sections[first:],
        "left_out": len(verdicts) - len(sections),
    }
    return outer.render(
        page=page,
        style=Markup(style),  # our own files, no input
        style_hash=_hash(style),
        script=Markup(script),
        script_hash=_hash(script),
    )


def _template_file(name: str) -> str:
    return (files("harness.report") / "templates" / name).read_text("utf-8")


@cache
def _template(name: str) -> Template:
    """Compiled once: compiling takes fifty times as long as drawing a small page."""
    # Imported here: most commands draw no page, and `--help` must not pay for a template engine.
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(_template_file(name))


def _first(sections: Sequence[str]) -> int:
    """How many are drawn at once: at least one, so that a page about one scenario is never empty."""
    size = 0
    for number, section in enumerate(sections[:FIRST_ROWS]):
        size += len(section)
        if size > FIRST_BYTES and number:
            return number
    return min(len(sections), FIRST_ROWS)


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _sections(verdicts: Sequence[tuple[str, Verdict]], template: Any, budget: int) -> list[str]:
    """Details in order, what stops a release first, until the page is full."""
    sections: list[str] = []
    size = 0
    for anchor, verdict in verdicts:
        told = size < TIMELINE_BUDGET or verdict.outcome in ("fail", "error")
        section = template.render(v=_verdict(anchor, verdict, told))
        size += len(section.encode("utf-8", "surrogatepass"))
        if size > budget and sections:
            return sections
        sections.append(section)
    return sections


def anchored(verdicts: Sequence[Verdict]) -> list[tuple[str, Verdict]]:
    """Each verdict with the anchor that a link to it keeps from run to run: its plan item, spelt for a URL."""
    seen: Counter[str] = Counter()
    found = []
    for verdict in verdicts:
        anchor = "s-" + (_NOT_URL.sub("-", verdict.item).strip("-")[:120] or "item")
        seen[anchor] += 1
        found.append((anchor if seen[anchor] == 1 else f"{anchor}--{seen[anchor]}", verdict))
    return found


def _page(results: Results, verdicts: Sequence[tuple[str, Verdict]]) -> dict[str, Any]:
    anchors = {verdict.item: anchor for anchor, verdict in verdicts}
    trends = _trends(results, [verdict for _, verdict in verdicts])
    return {
        "level_line": one_line(results.level_line),
        "answer": answer(results),
        "accepted": results.exit_code == 0,
        "counts": counts_line(results),
        "outcomes": [(outcome, outcome.replace("_", " "), count) for outcome, count in outcome_counts(results).items()],
        "comparison": comparison_line(results),
        "reasons": [visible(clip_text(reason)) for reason in results.exit_reasons],
        "changes": _changes(results, anchors),
        "run": one_line(results.run),
        "started_at": one_line(results.started_at),
        "ended_at": one_line(results.ended_at),
        "version": one_line(results.harness_version),
        "totals": {one_line(word): count for word, count in results.totals.items()},
        "environment": {one_line(word): shown(value) for word, value in results.environment.items()},
        "verdicts": len(verdicts),
        "levels": LEVELS,
        "tools": _tools(results),
        "trends": trends[:MOST_TRENDS],
        "trends_left_out": max(len(trends) - MOST_TRENDS, 0),
        "most_points": MAX_POINTS,
        "most_open": MOST_OPEN,
        "most_listed": MOST_LISTED,
        "body_rule": BODY_RULE,
    }


def _changes(results: Results, anchors: Mapping[str, str]) -> list[dict[str, str]] | None:
    """Scenarios that ended otherwise than in their last run, or None where no earlier run is known."""
    if not results.trends:
        return None
    now = {verdict.item: verdict.outcome for verdict in results.verdicts}
    return [
        {
            "item": one_line(trend.item),
            "anchor": anchors.get(trend.item, ""),
            "was": trend.points[-1].outcome.replace("_", " "),
            "now": now[trend.item].replace("_", " "),
            "css": now[trend.item],
        }
        for trend in results.trends
        if trend.points and trend.item in now and trend.points[-1].outcome != now[trend.item]
    ]


def _trends(results: Results, verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Earlier runs and this one, per scenario, in order of the verdicts."""
    known = {trend.item: trend for trend in results.trends if trend.points}
    found = []
    for verdict in verdicts:
        trend = known.get(verdict.item)
        if trend is None:
            continue
        outcomes = [point.outcome for point in trend.points] + [verdict.outcome]
        visible_after = max(verdict.time_to_visible_s.values(), default=None)
        series = (
            [point.latency_ms for point in trend.points] + [verdict.latency_ms],
            [point.time_to_visible_s for point in trend.points] + [visible_after],
        )
        found.append(
            {
                "item": one_line(trend.item),
                "passed": outcomes.count("pass"),
                "runs": len(outcomes),
                "words": ", ".join(outcome.replace("_", " ") for outcome in outcomes),
                "bars": bars(outcomes),
                "lines": [{"points": line(values), "now": "–" if values[-1] is None else f"{values[-1]:.2f}"} for values in series],
            }
        )
    return found


def _tools(results: Results) -> list[dict[str, Any]]:
    """Tool × level: the best state of each tool at each level; "" where there is nothing."""
    found: dict[tuple[str, str], dict[str, ToolState]] = {}
    for seen in (tool for verdict in results.verdicts for tool in verdict.tools):
        states = found.setdefault((seen.provider, seen.tool), {})
        states[seen.level] = max(states.get(seen.level, "listed"), seen.state, key=TOOL_STATES.index)
    return [
        {"name": f"{one_line(provider)}.{one_line(tool)}", "states": [states.get(level, "") for level in LEVELS]}
        for (provider, tool), states in sorted(found.items())
    ]


def _row(anchor: str, verdict: Verdict) -> dict[str, Any]:
    """What the table of scenarios and the details of one have in common."""
    return {
        "anchor": anchor,
        "item": one_line(verdict.item),
        "title": one_line(verdict.title),
        "outcome": verdict.outcome.replace("_", " "),
        "css": verdict.outcome,
        "level": verdict.level,
        "providers": ", ".join(one_line(provider) for provider in verdict.providers),
        "seconds": f"{verdict.seconds:.2f}",
    }


def _verdict(anchor: str, verdict: Verdict, with_timeline: bool) -> dict[str, Any]:
    return _row(anchor, verdict) | {
        "target": one_line(verdict.target),
        "protocol": one_line(verdict.protocol),
        "tags": ", ".join(one_line(tag) for tag in verdict.tags),
        "witnesses": verdict.witnesses,
        "evaluated": len(verdict.evaluated),
        "latency": "" if verdict.latency_ms is None else f"{verdict.latency_ms:.1f}",
        "red": verdict.outcome in ("fail", "error"),
        "claims": [
            {
                "claim": visible(claim.claim),
                "proven": claim.proven,
                "level": claim.level,
                "by": ", ".join(one_line(name) for name in claim.by),
                "because": visible(claim.unproven_because),
            }
            for claim in verdict.claims
        ],
        "not_proven": [visible(clip_text(sentence)) for sentence in not_proven(verdict)],
        "findings": [_finding(f"{anchor}--f{n}-{_NOT_URL.sub('-', f.id)}", f) for n, f in enumerate(verdict.findings, start=1)],
        "timeline": [_told(row) for row in verdict.timeline] if with_timeline else [],
        "counts": {one_line(word): count for word, count in verdict.counts.items() if count},
        "waits": {one_line(step): f"{seconds:.2f} s" for step, seconds in verdict.time_to_visible_s.items()},
        "attempts": {one_line(step): count for step, count in verdict.attempts.items()},
        "notes": [visible(clip_text(note)) for note in verdict.notes],
    }


def _told(row: TimelineRow) -> dict[str, Any]:
    cells = (("Agent saw", row.agent), ("Operator did", row.operator), ("Audit says", row.audit), ("Provider received", row.provider))
    return {
        "step": one_line(row.step),
        "attempt": row.attempt,
        "cleanup": row.cleanup,
        "what": one_line(row.what),
        "odds": [one_line(words) for words in row.at_odds],
        "findings": [one_line(name) for name in row.findings],
        "cells": [(name, [one_line(said) for said in lines]) for name, lines in cells],
    }


def _finding(anchor: str, finding: Finding) -> dict[str, str]:
    return {
        "anchor": anchor,
        "id": one_line(finding.id),
        "severity": finding.severity,
        "message": shown(finding.message),
        "where": one_line(" ".join(filter(None, (finding.where, finding.expectation, f"step {finding.step}" if finding.step else "")))),
        "expected": shown(finding.expected),
        "actual": shown(finding.actual),
        "fix": shown(finding.fix),
    }


REPORT = Html()
