"""Markdown for a pull-request comment: the answer first, then what fails with its call, the rest folded, within a comment's size."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.model.drift_result import DriftResult, Judged
from harness.report.drift.proof import proof_lines
from harness.report.drift.reading import answer, count, in_order, severity_counts, sides, told
from harness.report.inert import one_line
from harness.report.markdown import escape

LIMIT = 60_000
"""UTF-8 bytes; a comment on GitHub takes 65,536 characters."""
MARK = "<!-- harness-drift -->"
"""First line of the comment, by which a later run finds and replaces it."""


class Markdown:
    id = "markdown"
    summary = "Markdown for a pull-request comment, at most 60,000 bytes"

    def render(self, result: DriftResult) -> bytes:
        return _filled([*_lead(result), *_risks(result)], [*_failing(result)], [*_others(result)]).encode("utf-8")


def _filled(lead: list[str], failing: list[str], others: list[str]) -> str:
    """Everything that fits, failing findings before the rest; the last line says how many did not fit."""
    text, left_out = "".join(lead), 0
    tail = "\n</details>\n"
    for entry in failing:
        if len((text + entry).encode()) > LIMIT:
            left_out += 1
        else:
            text += entry
    if others:
        text += f"\n<details><summary>{count(len(others), 'more finding')}</summary>\n\n| | Finding | What |\n| --- | --- | --- |\n"
        for entry in others:
            if left_out or len((text + entry + tail).encode()) > LIMIT:
                left_out += 1
            else:
                text += entry
        text += tail
    return text + (f"\n{left_out} more, see the JSON document\n" if left_out else "")


def _lead(result: DriftResult) -> Iterator[str]:
    sign = "✅" if result.exit_code == 0 else "❌"
    yield f"{MARK}\n### {sign} {escape(answer(result), 500)}\n\n{escape(sides(result), 500)}\n\n"
    counts = ", ".join(f"{count} {word}" for word, count in severity_counts(result).items())
    yield f"Open findings: {counts}."
    if result.report is not None:
        yield f" Compared: {escape(result.report.summary)}."
    yield "\n"
    for reason in told(result)[:20]:
        yield f"- {escape(reason, 500)}\n"


def _risks(result: DriftResult) -> Iterator[str]:
    if result.risks:
        yield "\n| Risk disputed | Gateway | Oracle | Inventory | Hints | Why |\n| --- | --- | --- | --- | --- | --- |\n"
    for row in result.risks[:20]:
        words = (row.tool, row.gateway or "–", row.oracle, row.inventory or "–", row.hints or "–", row.oracle_reason)
        yield "".join(f"| {escape(word, 200)} " for word in words) + "|\n"
    if len(result.risks) > 20:
        yield f"\n{len(result.risks) - 20} more, see the JSON document\n"


def _failing(result: DriftResult) -> Iterator[str]:
    for judged in result.failing:
        finding = judged.finding
        yield f"\n**{escape(finding.severity)}** `{finding.id}` {escape(finding.message, 600)}\n"
        for line in proof_lines(result, finding):
            what, _, value = line.partition(": ")
            yield f"\n{escape(what, 300)}:\n\n{_fenced(value)}" if value else f"\n{escape(what, 300)}\n"
        yield f"\nWhat to do: {escape(finding.fix, 300)}\n"


def _fenced(value: str) -> str:
    """Code that cannot end its own fence: hidden characters are escapes, and there are no three backticks on a line of their own."""
    line = one_line(value)[:2000]
    fence = "`" * (max((len(run) for run in _ticks(line)), default=2) + 1)
    return f"{fence}json\n{line}\n{fence}\n"


def _ticks(text: str) -> list[str]:
    return [*re.findall("`+", text), "``"]


def _others(result: DriftResult) -> Iterator[str]:
    for judged in in_order(result):
        if judged.state != "failing":
            yield _row(judged)


def _row(judged: Judged) -> str:
    finding = judged.finding
    state = "accepted" if judged.state == "accepted" else finding.severity
    said = f" ({judged.accepted_by})" if judged.accepted_by else ""
    return f"| {state} | `{finding.id}` | {escape(finding.message + said, 400)} |\n"


FORMAT = Markdown()
