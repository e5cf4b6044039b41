"""A transparency report as JSON, Markdown and HTML. It decides nothing; what others wrote in it is text and only text."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Mapping, Sequence

from harness.report.inert import cut, one_line, shown
from harness.transparency.facts import Judged, Judgement, Report

WIDTH = 160
ORDER: tuple[Judgement, ...] = ("fault", "note", "waived", "declared")
WORDS: Mapping[Judgement, str] = {"fault": "Faults", "note": "Notes", "waived": "Known of this version", "declared": "Declared"}
Row = tuple[str, ...]
Table = tuple[str, Row, list[Row]]


def as_json(report: Report) -> str:
    """The whole report; `transparency/v1`."""
    return json.dumps(report.model_dump(mode="json"), indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def tables(report: Report) -> list[Table]:
    """(title, columns, rows): what both pages show. Values are clipped; the JSON has them whole."""
    found: list[Table] = []
    for kind in ORDER:
        rows = [_row(one) for one in grouped([one for one in report.judged if one.counts == kind])]
        if rows:
            found.append((f"{WORDS[kind]} ({len(rows)})", ("fact", "direct", "through the gateway", "why"), rows))
    if report.catalog:
        rows = [
            (each.change, each.registry, each.session, each.fresh_session, each.refresh, _yes(each.told), str(each.asked), each.trouble or "-")
            for each in report.catalog
        ]
        columns = ("change", "gateway's own list", "live session", "fresh session", "after a refresh", "told", "pages asked", "trouble")
        found.append(("Catalog honesty", columns, rows))
    if report.audit:
        rows = [(each.case, each.agent, each.witness, each.record, "honest" if each.counts == "same" else "red", each.why) for each in report.audit]
        found.append(("Audit honesty", ("case", "agent", "witness", "record", "", "why"), rows))
    if report.cases:
        found.append(("Cases of other projects", ("case", "outcome", "what"), [(one.case, one.outcome, one.what) for one in report.cases]))
    if report.measures:
        rows = [(one.id, _figure(one.direct), _figure(one.through), one.unit) for one in report.measures]
        found.append(("Cost, on this machine", ("measure", "direct", "through the gateway", "unit"), rows))
    return found


def grouped(judged: Sequence[Judged]) -> list[tuple[Judged, tuple[str, ...]]]:
    """The same difference of several tools is one row, with their names; values that differ from tool to tool are shown of the first."""
    found: dict[tuple[str, str], list[Judged]] = {}
    for one in judged:
        found.setdefault((one.fact.id, one.why), []).append(one)
    return [(ones[0], tuple(one.fact.subject for one in ones if one.fact.subject)) for ones in found.values()]


def head(report: Report) -> list[str]:
    lines = [f"{report.gateway}, at {report.protocol}, measured {report.measured}: the same provider directly and through the gateway."]
    same = len(report.of("same"))
    lines.append(f"{len(report.judged)} facts, {same} the same; " + ", ".join(f"{len(report.of(kind))} {kind}" for kind in ORDER))
    if report.incomplete:
        lines.append(f"incomplete: {report.incomplete}")
    if report.advice:
        lines.append(f"untestable: audit. To have a record of calls: {report.advice}")
    lines += [f"news: {line}" for line in report.news]
    return [one_line(line) for line in lines]


def as_text(report: Report) -> str:
    lines = head(report)
    for title, columns, rows in tables(report):
        lines += ["", title]
        lines += ["  " + " | ".join(f"{name}: {value}" for name, value in zip(columns, row, strict=True) if name and value) for row in rows]
    return "\n".join(lines) + "\n"


def as_markdown(report: Report) -> str:
    return "\n".join(_markdown(report)) + "\n"


def _markdown(report: Report) -> Iterator[str]:
    yield f"# Transparency: {_md(report.gateway)}"
    yield ""
    yield from (_md(line) + "  " for line in head(report))
    for title, columns, rows in tables(report):
        yield ""
        yield f"## {title}"
        yield ""
        yield "| " + " | ".join(columns) + " |"
        yield "|" + "---|" * len(columns)
        yield from ("| " + " | ".join(_md(value) for value in row) + " |" for row in rows)


def as_html(report: Report) -> str:
    """One file, no script, no network; every word in it is escaped."""
    parts = [f"<h1>Transparency: {_h(report.gateway)}</h1>", *(f"<p>{_h(line)}</p>" for line in head(report))]
    for title, columns, rows in tables(report):
        body = "".join("<tr>" + "".join(f"<td>{_h(value)}</td>" for value in row) + "</tr>" for row in rows)
        heads = "".join(f"<th>{_h(column)}</th>" for column in columns)
        parts.append(f"<h2>{_h(title)}</h2><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>")
    policy = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    start = f'<!doctype html><html lang="en"><head><meta charset="utf-8">{policy}<title>Transparency: {_h(report.gateway)}</title>'
    return f"{start}<style>{STYLE}</style></head><body>{''.join(parts)}</body></html>\n"


STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:80rem;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%;margin-bottom:1.5rem}th,td{border:1px solid #8886;padding:.3rem .5rem;text-align:left;"
    "vertical-align:top;overflow-wrap:anywhere}th{background:#8882}"
)


def _row(group: tuple[Judged, tuple[str, ...]]) -> Row:
    one, subjects = group
    named = one.fact.id + (f" ({', '.join(subjects)})" if subjects else "")
    return (named, _value(one.fact.direct), _value(one.fact.through), one.why)


def _value(value: object) -> str:
    return cut(one_line(shown(value)), WIDTH)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _h(text: str) -> str:
    return html.escape(one_line(text))


def _md(text: str) -> str:
    """Nothing of it is markup: what starts a table cell, a link, code or HTML is escaped."""
    return "".join(f"\\{c}" if c in "\\`*_{}[]<>#|!~" else c for c in one_line(text))
