"""The comparison page: gateways as columns, what they do as rows, each cell with a link to the line that it was read from. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.report.inert import cut, one_line
from harness.transparency.comparison import ROWS, Cell, Shown, text_of
from harness.transparency.facts import Report
from harness.transparency.known import Known, is_known, look
from harness.transparency.render import as_json

FORMAT = "gateways/v1"
Lines = Mapping[str, Sequence[int]]
"""List of a file → the lines on which its members begin."""
HEAD = """# Gateways, compared

Generated from `gateways/measured/`, `gateways/expected/` and `gateways/known.yaml` by `python gateways/make_page.py`; nothing here is
written by hand. Format {format}. The arrow of each cell leads to the line of the measurement that it was read from; `make gateways` measures
again, and what comes out otherwise is red there. Whether a difference is a fault is a rule, see [targets](targets.md); figures of cost hold
for one machine under load.
"""
KNOWN = """What others had measured of these versions, or read in their source, before they were judged here; each line was looked for in our own
measurement. `otherwise` says why ours differs. Below it, what was not known before, with the reason that was found for it by hand.
"""


def page(reports: Sequence[Report], scenarios: Mapping[str, Mapping[str, Any]], known: Mapping[str, Sequence[Known]] | None = None) -> str:
    """`scenarios`: target → its written-down verdicts (gateways/expected). `known`: target → what was known of it before."""
    return "\n".join(_page(reports, scenarios, known or {})) + "\n"


def _page(reports: Sequence[Report], scenarios: Mapping[str, Mapping[str, Any]], known: Mapping[str, Sequence[Known]]) -> Iterator[str]:
    yield HEAD.format(format=FORMAT)
    lines = {report.target: places(as_json(report)) for report in reports}
    at = (("version", lambda r: Shown(text_of(r.gateway))), ("on", lambda r: Shown(r.measured)), ("MCP version", lambda r: Shown(r.protocol)))
    yield from _table("Measured", reports, at, lines)
    for title, rows in ROWS:
        yield from _table(title, reports, rows, lines)
    judged = [report for report in reports if report.target in scenarios]
    names = sorted({name for each in scenarios.values() for name in each.get("scenarios", {})})
    written = {report.target: {"scenarios": _lines_of(names, scenarios[report.target])} for report in judged}
    yield from _table("Scenarios", judged, tuple((name, _verdict(number, name, scenarios)) for number, name in enumerate(names)), written, "expected")
    yield "What a team must switch on to have a record of calls:"
    yield ""
    yield from (f"* {report.target}: {text_of(report.advice, 400)}" for report in reports if report.advice)
    if known:
        yield ""
        yield "## Checked against what was known"
        yield ""
        yield KNOWN
        for report in reports:
            yield from _checked(report, known.get(report.target, ()), lines[report.target])


def _checked(report: Report, known: Sequence[Known], lines: Lines) -> Iterator[str]:
    if not known:
        return
    yield f"### {report.target}"
    yield ""
    yield "| known before | here | |"
    yield "|---|---|---|"
    for one in known:
        found = look(one, report)
        word = "not looked at" if found is None else "found" if found.holds else "otherwise"
        at = Shown("") if found is None else Shown("", found.section, found.index)
        yield f"| {_escaped(one.said)} | {word}{_link(report.target, at, lines)} | {_escaped(one.why)} |"
    for key, at in _new(report, known):
        yield f"| (not known) `{key}` | found{_link(report.target, at, lines)} | {_escaped(at.text)} |"
    yield ""


def _new(report: Report, known: Sequence[Known]) -> Iterator[tuple[str, Shown]]:
    """Differences that nobody had told of; several tools' under one reason are one."""
    told: set[tuple[str, str]] = set()
    for index, one in enumerate(report.judged):
        if one.counts != "same" and not is_known(one.fact.key, known) and (one.fact.id, one.why) not in told:
            told.add((one.fact.id, one.why))
            yield one.fact.id, Shown(one.why, "judged", index)


def places(text: str) -> dict[str, list[int]]:
    """Of a report's JSON text, pure: each list at its top → the line numbers (from 1) at which its members begin."""
    found: dict[str, list[int]] = {}
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.startswith(' "'):
            section = line[2:].partition('"')[0]
        elif line.startswith("  {"):
            found.setdefault(section, []).append(number)
    return found


def _lines_of(names: Sequence[str], written: Mapping[str, Any]) -> list[int]:
    """The line of each scenario in its target's file; 0 for one that is not there."""
    text = as_written(written).splitlines()
    return [next((number for number, line in enumerate(text, start=1) if line == f'    "{name}": {{'), 0) for name in names]


def as_written(verdicts: Mapping[str, Any]) -> str:
    """gateways/expected/TARGET.json."""
    return json.dumps(verdicts, indent=2, ensure_ascii=False) + "\n"


def _verdict(number: int, name: str, scenarios: Mapping[str, Mapping[str, Any]]) -> Cell:
    def cell(report: Report) -> Shown:
        one = scenarios.get(report.target, {}).get("scenarios", {}).get(name)
        if one is None:
            return Shown("not run")
        lacking = sorted({f.rpartition(": ")[2] for f in one.get("findings", ()) if ": untestable @" in f})
        text = f"{one['outcome']}, {len(one['proven'])} of {len(one['proven']) + len(one['not_proven'])} claims proven"
        return Shown(text + (f"; untestable: {', '.join(lacking)}" if lacking else ""), "scenarios", number)

    return cell


def _table(
    title: str, reports: Sequence[Report], rows: Sequence[tuple[str, Cell]], lines: Mapping[str, Lines], folder: str = "measured"
) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| | " + " | ".join(f"[{report.target}](../gateways/{folder}/{report.target}.json)" for report in reports) + " |"
    yield "|---|" + "---|" * len(reports)
    for name, cell in rows:
        shown = [(report, cell(report)) for report in reports]
        yield f"| {name} | " + " | ".join(_escaped(at.text) + _link(report.target, at, lines[report.target], folder) for report, at in shown) + " |"
    yield ""


def _link(target: str, at: Shown, lines: Lines, folder: str = "measured") -> str:
    numbers = lines.get(at.section, ())
    return f" [↗](../gateways/{folder}/{target}.json#L{numbers[at.index]})" if 0 <= at.index < len(numbers) and numbers[at.index] else ""


def _escaped(value: str) -> str:
    return cut(one_line(value), 320).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")
