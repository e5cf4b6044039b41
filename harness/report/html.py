"""`report.html`: one file that needs nothing else: no network, no script, light and dark; others' words in it are text and only text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from harness.model.finding import Finding
from harness.model.scenario import LEVELS
from harness.model.verdict import TOOL_STATES, Results, ToolState, Verdict
from harness.report.inert import BODY_RULE, clip_text, one_line, shown, visible
from harness.report.reading import answer, comparison_line, counts_line, in_order, not_proven, outcome_counts


class Html:
    id = "html"
    summary = "report.html: one self-contained page for people"
    by_default = True

    def files(self, results: Results) -> Mapping[str, bytes]:
        return {"report.html": document(results).encode("utf-8")}


def document(results: Results) -> str:
    """The page. Its content policy allows nothing but its own style sheet, by hash, so even an escaping fault could load or run nothing."""
    # Imported here: most commands draw no page, and `--help` must not pay for a template engine.
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("harness.report") / "templates"
    style = (folder / "report.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((folder / "report.html.j2").read_text(encoding="utf-8"))
    return template.render(page=_page(results), style=Markup(style), style_hash=digest)  # our own file, no input


def _page(results: Results) -> dict[str, Any]:
    return {
        "level_line": one_line(results.level_line),
        "answer": answer(results),
        "accepted": results.exit_code == 0,
        "counts": counts_line(results),
        "outcomes": {outcome.replace("_", " "): count for outcome, count in outcome_counts(results).items()},
        "comparison": comparison_line(results),
        "reasons": [visible(clip_text(reason)) for reason in results.exit_reasons],
        "run": one_line(results.run),
        "started_at": one_line(results.started_at),
        "ended_at": one_line(results.ended_at),
        "version": one_line(results.harness_version),
        "totals": {one_line(word): count for word, count in results.totals.items()},
        "environment": {one_line(word): shown(value) for word, value in results.environment.items()},
        "verdicts": [_verdict(verdict, number) for number, verdict in enumerate(in_order(results), start=1)],
        "levels": LEVELS,
        "tools": _tools(results),
        "body_rule": BODY_RULE,
    }


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


def _verdict(verdict: Verdict, number: int) -> dict[str, Any]:
    return {
        "anchor": f"s{number}",
        "item": one_line(verdict.item),
        "title": one_line(verdict.title),
        "outcome": verdict.outcome.replace("_", " "),
        "css": verdict.outcome,
        "level": verdict.level,
        "target": one_line(verdict.target),
        "protocol": one_line(verdict.protocol),
        "providers": ", ".join(one_line(provider) for provider in verdict.providers),
        "tags": ", ".join(one_line(tag) for tag in verdict.tags),
        "seconds": f"{verdict.seconds:.2f}",
        "witnesses": verdict.witnesses,
        "evaluated": len(verdict.evaluated),
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
        "findings": [_finding(finding) for finding in verdict.findings],
        "counts": {one_line(word): count for word, count in verdict.counts.items()},
        "waits": {one_line(step): f"{seconds:.2f} s" for step, seconds in verdict.time_to_visible_s.items()},
        "attempts": {one_line(step): count for step, count in verdict.attempts.items()},
        "notes": [visible(clip_text(note)) for note in verdict.notes],
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "id": one_line(finding.id),
        "severity": finding.severity,
        "message": shown(finding.message),
        "where": one_line(" ".join(filter(None, (finding.where, finding.expectation, f"step {finding.step}" if finding.step else "")))),
        "expected": shown(finding.expected),
        "actual": shown(finding.actual),
        "fix": shown(finding.fix),
    }


REPORT = Html()
