"""`summary.md`: what a CI step summary shows. It fits its limit in bytes, and what a reader needs most is never what is cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.model.verdict import Results, Verdict
from harness.report.inert import clip_text, cut, one_line, to_json
from harness.report.reading import answer, cause, comparison_line, counts_line, in_order, not_proven, standing_in_the_way

LIMIT = 1_048_576
"""Bytes that a CI step summary takes; the whole file, its last line included."""

_CELL = 400
"""UTF-8 bytes of one table cell before escaping; whole values are in results.json."""

_ACTIVE = re.compile(r"[\\`*_\[\]|~$]|(?<=[a-z]):(?=//)|(?<=www)\.|^[-+#=]", re.IGNORECASE)
"""Signs that mean something to a Markdown reader where they stand: everywhere, in a bare link, or at the start."""

_NUMBERED = re.compile(r"^(\d{1,9})([.)])(?=\s|$)")
_NOTICE_ROOM = 200


@dataclass(frozen=True, slots=True)
class _Part:
    """A heading with what introduces its rows, and the rows; between rows, and only there, the file may be cut."""

    head: str
    rows: Sequence[str]


class Markdown:
    id = "markdown"
    summary = "summary.md: the answer first, sized for a CI step summary"
    by_default = True

    def files(self, results: Results) -> Mapping[str, bytes]:
        return {"summary.md": document(results)}


def document(results: Results, limit: int = LIMIT) -> bytes:
    """At most `limit` bytes of UTF-8, ending in a newline; when rows had to go, the last line says how many."""
    text, left_out = _fill(_lead(results), list(_parts(results)), limit - _NOTICE_ROOM)
    if left_out:
        text += f"\n{left_out} more, see results.json\n"
    return text.encode("utf-8")


def escape(text: str, limit: int = _CELL) -> str:
    """Others' words for use in a table cell or a list item: one line, no markup, no HTML, no links, no mentions."""
    short = cut(one_line(text), limit)
    if short != one_line(text):
        short += "…"
    quiet = short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    # A word joiner keeps "@name" from calling somebody when the summary is posted as a comment.
    return _NUMBERED.sub(r"\1\\\2", _ACTIVE.sub(r"\\\g<0>", quiet.strip())).replace("@", "@\u2060")


def _fill(lead: str, parts: Sequence[_Part], room: int) -> tuple[str, int]:
    """The text, and the number of rows that did not fit. Once one did not, none after it is written: no gap in between."""
    pieces, used, left_out = [lead], len(lead.encode("utf-8")), 0
    for part in parts:
        pending = part.head
        for position, row in enumerate(part.rows):
            size = len((pending + row).encode("utf-8"))
            if left_out or used + size > room:
                left_out += len(part.rows) - position
                break
            pieces.append(pending + row)
            used, pending = used + size, ""
    return "".join(pieces), left_out


def _lead(results: Results) -> str:
    lines = [escape(results.level_line, 2_000), "", f"# {escape(answer(results))}", "", escape(counts_line(results))]
    if results.comparison:
        lines += ["", escape(comparison_line(results))]
    if results.exit_reasons:
        lines += ["", *_reasons(results)]
    return "\n".join(lines) + "\n"


def _reasons(results: Results) -> Iterator[str]:
    """The first few in full; all of them are in results.json, and scenarios name theirs below."""
    most = 50
    yield from (f"- {escape(reason)}" for reason in results.exit_reasons[:most])
    if len(results.exit_reasons) > most:
        yield f"- and {len(results.exit_reasons) - most} more reasons, see results.json"


def _parts(results: Results) -> Iterator[_Part]:
    yield _in_the_way(results)
    findings = [row for verdict in in_order(results) for row in _finding_rows(verdict)]
    yield _table("Findings", ("Severity", "Finding", "Scenario", "Where", "What", "Expected", "Actual", "What to do"), findings)
    yield _table("Scenarios", ("Outcome", "Scenario", "Level", "Proven", "Seconds", "Title"), [_row(verdict) for verdict in in_order(results)])
    claims = [_cells(verdict.item, claim.level, claim.claim) for verdict in in_order(results) for claim in verdict.claims if claim.proven]
    yield _table("Proven", ("Scenario", "Level", "Claim"), claims)
    unproven = [_cells(verdict.item, sentence) for verdict in in_order(results) for sentence in not_proven(verdict)]
    yield _table("Not proven", ("Scenario", "What"), unproven)


def _in_the_way(results: Results) -> _Part:
    """Never cut: thousands of them fall back to outcome and name before a single one is left out."""
    red = standing_in_the_way(results)
    columns: tuple[str, ...] = ("Outcome", "Scenario", "Level", "Finding", "Title")
    rows = [_red_row(verdict) for verdict in red]
    if sum(len(row.encode("utf-8")) for row in rows) > LIMIT // 2:
        columns, rows = ("Outcome", "Scenario"), [f"| {verdict.outcome} | {escape(verdict.item, 80)} |\n" for verdict in red]
    return _table("What stands in the way", columns, rows)


def _table(title: str, columns: Sequence[str], rows: list[str]) -> _Part:
    head = f"\n## {title}\n\n| {' | '.join(columns)} |\n|{' --- |' * len(columns)}\n"
    return _Part(head, rows)


def _cells(*values: str) -> str:
    return f"| {' | '.join(escape(value) for value in values)} |\n"


def _red_row(verdict: Verdict) -> str:
    first = cause(verdict)
    finding = first.id if first else ""
    # Short on purpose: these rows come first and must fit, however many there are.
    return f"| {verdict.outcome} | {escape(verdict.item, 120)} | {verdict.level} | {escape(finding, 60)} | {escape(verdict.title, 120)} |\n"


def _row(verdict: Verdict) -> str:
    proven = f"{sum(claim.proven for claim in verdict.claims)} of {len(verdict.claims)}"
    return _cells(verdict.outcome, verdict.item, verdict.level, proven, f"{verdict.seconds:.2f}", verdict.title)


def _finding_rows(verdict: Verdict) -> Iterator[str]:
    for finding in verdict.findings:
        where = " ".join(filter(None, (finding.where, finding.expectation)))
        yield _cells(
            finding.severity,
            finding.id,
            verdict.item,
            where,
            finding.message,
            _value(finding.expected),
            _value(finding.actual),
            finding.fix,
        )


def _value(value: object) -> str:
    if value is None:
        return ""
    return clip_text(value if isinstance(value, str) else to_json(value), _CELL, _CELL // 2)


REPORT = Markdown()
