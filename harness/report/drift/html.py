"""One page: findings with their proof, and old and new schema beside each other with the changed parts marked. No network, no script."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from harness.model.drift import RiskRow
from harness.model.drift_result import DriftResult, Judged, SchemaPair
from harness.report.drift.marked import marked_lines
from harness.report.drift.proof import proof_lines
from harness.report.drift.reading import MOST_SHOWN, RISK_PARTIES, answer, in_order, place, severity_counts, sides
from harness.report.inert import BODY_RULE, clip_text, one_line, shown, visible


class Html:
    id = "html"
    summary = "one self-contained page, old and new side by side"

    def render(self, result: DriftResult) -> bytes:
        return page(result).encode("utf-8")


@dataclass(frozen=True, slots=True)
class _Drawn:
    """The compiled templates and the style sheet with its hash."""

    page: Any
    section: Any
    style: Any
    style_hash: str


@lru_cache(maxsize=1)
def _templates() -> _Drawn:
    """Compiled once per process: a fleet draws thousands of pages."""
    from jinja2 import DictLoader, Environment, StrictUndefined
    from markupsafe import Markup

    folder = files("harness.report") / "templates"
    style = "".join((folder / name).read_text(encoding="utf-8") for name in ("report.css", "drift.css"))
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    names = ("drift.html.j2", "drift_section.html.j2")
    loader = DictLoader({name: (folder / name).read_text(encoding="utf-8") for name in names})
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, loader=loader)
    section = environment.get_template("drift_section.html.j2").module.drift_section  # type: ignore[attr-defined]
    return _Drawn(environment.get_template("drift.html.j2"), section, Markup(style), digest)  # our own files, no input


def page(result: DriftResult, *, back: str = "") -> str:
    """The page; `back` is a relative link to the page that it belongs to. Its content policy allows its own style sheet and nothing else."""
    drawn = _templates()
    text: str = drawn.page.render(
        title=one_line(f"{result.subject}: {answer(result)}" if result.subject else answer(result)),
        accepted=result.exit_code == 0,
        back=back,
        reasons=[visible(clip_text(reason)) for reason in result.reasons],
        d=section_data(result),
        section=drawn.section,
        style=drawn.style,
        style_hash=drawn.style_hash,
        body_rule=BODY_RULE,
    )
    return text


def section_data(result: DriftResult) -> dict[str, Any]:
    """What `drift_section.html.j2` draws; report.html includes the same section."""
    every = in_order(result)
    return {
        "sides": one_line(sides(result)),
        "counts": ", ".join(f"{count} {word}" for word, count in severity_counts(result).items()) + f", {len(result.accepted)} accepted",
        "compared": result.report.summary if result.report else "",
        "findings": [_finding(judged, result) for judged in every[:MOST_SHOWN]],
        "left_out": max(0, len(every) - MOST_SHOWN),
        "pairs": [_pair(pair, result) for pair in result.pairs],
        "risks": [_risk(row) for row in result.risks[:MOST_SHOWN]],
        "risks_agreed": result.risks_agreed,
    }


def _finding(judged: Judged, result: DriftResult) -> dict[str, Any]:
    finding = judged.finding
    where = " ".join(filter(None, (place(judged), f"({judged.location})" if judged.location else "")))
    return {
        "id": finding.id,
        "severity": finding.severity,
        "css": "text-drift" if finding.severity == "text" else finding.severity,
        "state": judged.state,
        "message": shown(finding.message),
        "where": one_line(where),
        "proof": [{"what": shown(what), "value": shown(value)} for what, _, value in (line.partition(": ") for line in proof_lines(result, finding))],
        "expected": shown(finding.expected),
        "actual": shown(finding.actual),
        "accepted": shown(judged.accepted_by),
        "fix": shown(finding.fix),
    }


def _risk(row: RiskRow) -> dict[str, Any]:
    words = [getattr(row, party) or "–" for party in RISK_PARTIES]
    return {"tool": one_line(row.tool), "words": words, "why": shown("; ".join(filter(None, (row.oracle_reason, row.hint_reason))))}


def _pair(pair: SchemaPair, result: DriftResult) -> dict[str, Any]:
    pointers = {
        judged.finding.pointer.removeprefix(pair.root)
        for judged in result.judged
        if judged.finding.tool == pair.tool and (judged.finding.pointer + "/").startswith(f"{pair.root}/")
    }
    exact = {pointer for pointer in pointers if pointer}
    return {
        "title": one_line(f"{pair.tool} {pair.root}"),
        "sides": [{"title": title, "lines": marked_lines(value, exact)} for title, value in (("agreed", pair.old), ("now", pair.new))],
    }


FORMAT = Html()
