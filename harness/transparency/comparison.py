"""The comparison page: gateways as columns, what they do as rows, each cell with a link to what it was read from. Pure; its input is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.report.inert import cut, one_line
from harness.transparency.facts import Report

FORMAT = "gateways/v1"
Cell = Callable[[Report], str]


def _fact(key: str, words: Mapping[Any, str] | None = None) -> Cell:
    """What the gateway shows for this fact: a word for the value, else `as the provider` or `other`."""

    def cell(report: Report) -> str:
        one = report.named(key)
        if one is None:
            return "not measured"
        value = one.fact.through
        if words is not None and not isinstance(value, (dict, list)) and value in words:
            return words[value]
        return "as the provider" if not one.fact.differs else f"other ({one.counts})"

    return cell


def _component(name: str) -> Cell:
    """Over all tools that both legs list."""

    def cell(report: Report) -> str:
        listed = {one.fact.subject for one in report.judged if one.fact.id == "list.tool" and one.fact.through is not None}
        ones = [one for one in report.judged if one.fact.id == f"component.{name}" and one.fact.subject in listed]
        changed = [one for one in ones if one.fact.differs]
        return "as the provider" if not changed else f"other in {len(changed)} of {len(ones)} ({changed[0].counts})"

    return cell


def _listed(report: Report) -> str:
    ones = [one for one in report.judged if one.fact.id == "list.tool" and one.fact.direct is not None]
    hidden = sum(one.fact.through is None for one in ones)
    return f"all {len(ones)}" if not hidden else f"incomplete: {hidden} of {len(ones)} hidden"


def _names(report: Report) -> str:
    one = report.named("list.names")
    own, shown = (one.fact.direct, one.fact.through) if one is not None else ([], [])
    return "bare" if shown == own else f"`{_text(sorted(shown)[0])}`" if shown else "none"


def _rpc_error(report: Report) -> str:
    one = report.named("error.rpc_error")
    if one is None:
        return "not measured"
    return "code, message and data" if not one.fact.differs else "flattened to isError text" if "is_error" in (one.fact.through or {}) else "other"


def _requests(report: Report) -> str:
    one = report.named("requests.per_call")
    return f"{sum(one.fact.through.values()):g}" if one is not None and one.fact.through else "not measured"


def _measure(name: str) -> Cell:
    def cell(report: Report) -> str:
        found = next((one for one in report.measures if one.id == name), None)
        return "not measured" if found is None or found.through is None else f"{found.through:g} {found.unit}"

    return cell


def _stale(change: str) -> Cell:
    def cell(report: Report) -> str:
        one = next((each for each in report.catalog if each.change == change), None)
        if one is None:
            return "not measured"
        views = f"session {one.session}, fresh {one.fresh_session}, refresh {one.refresh}, own list {one.registry}"
        return f"{views}; {'told' if one.told else 'not told'}" + (f"; **{one.trouble.partition(':')[0]}**" if one.trouble else "")

    return cell


def _audit(case: str) -> Cell:
    def cell(report: Report) -> str:
        one = next((each for each in report.audit if each.case == case), None)
        if one is None:
            return "not measured"
        return f"honest ({one.record})" if one.counts == "same" else f"**{one.why}**"

    return cell


def _case(case: str) -> Cell:
    def cell(report: Report) -> str:
        one = next((each for each in report.cases if each.case == case), None)
        return "not measured" if one is None else f"{one.outcome}: {one.what}"

    return cell


YES_NO = {True: "yes", False: "no", None: "no"}
ROWS: tuple[tuple[str, tuple[tuple[str, Cell], ...]], ...] = (
    (
        "Tools",
        (
            ("tools listed", _listed),
            ("names", _names),
            ("pages (the provider has three)", lambda r: str((r.named("list.pages") or r.judged[0]).fact.through)),
            ("order", _fact("list.order")),
            *((f"hash of {name}", _component(name)) for name in ("inputSchema", "outputSchema", "annotations", "title", "description", "_meta")),
        ),
    ),
    (
        "Calls",
        (
            *((f"content: {kind}", _fact(f"content.{kind}")) for kind in ("text", "image", "audio", "resource_link", "resource")),
            ("structured content", _fact("structured.content")),
            ("metadata of a result", _fact("result.meta")),
            ("isError result", _fact("error.tool_error")),
            ("JSON-RPC error -32050", _rpc_error),
            ("unknown tool is sent to the provider", _fact("error.unknown_tool_dispatched", {0: "no", 1: "yes"})),
            ("missing required argument", _fact("arguments.missing_required")),
            ("integer beyond 2^53", _fact("arguments.large_integer")),
            ("fraction", _fact("arguments.fraction")),
            ("progress", _fact("progress.steps")),
            ("cancelled at the provider", _fact("cancellation.reached", YES_NO)),
        ),
    ),
    (
        "Versions and context",
        (
            *((version, _fact(f"protocol.{version}")) for version in ("2025-06-18", "2025-11-25", "2026-07-28")),
            ("a header of the agent's reaches the provider", _fact("context.header_custom", YES_NO)),
            ("an API key of the agent's reaches the provider", _fact("context.header_key_of_agent", YES_NO)),
            ("trace in a header", _fact("context.header_traceparent", {"none": "no", "as sent": "yes", "continued": "continued"})),
            ("trace in the metadata", _fact("context.meta_traceparent", {"none": "no", "as sent": "yes", "continued": "continued"})),
        ),
    ),
    (
        "Cost, on the machine of this measurement",
        (
            ("messages to the provider per call", _requests),
            ("added latency (median)", _measure("latency.added")),
            ("CPU per call", _measure("cpu.per_call")),
        ),
    ),
    (
        "Catalog honesty: after the provider's list changed",
        tuple(
            (change, _stale(change))
            for change in (
                "hint-flipped",
                "description-changed",
                "parameter-added",
                "output-schema-changed",
                "tool-added",
                "tool-removed",
                "cursor-dropped",
            )
        ),
    ),
    (
        "Audit honesty: what the record says of a call",
        tuple((case, _audit(case)) for case in ("ok", "tool_error", "denied", "pending", "upstream_error", "timeout")),
    ),
    ("Cases of other projects", tuple((case, _case(case)) for case in ("b05", "b06", "b07", "b08", "b09", "a08"))),
)
HEAD = """# Gateways, compared

Generated from `gateways/measured/` and `gateways/expected/` by `python gateways/make_page.py`; nothing here is written by hand.
Format {format}. Each cell is read from the file that its column's head links to; `make gateways` measures again, and what comes out
otherwise is red there. Whether a difference is a fault is a rule, see [targets](targets.md); figures of cost hold for one machine under load.
"""


def page(reports: Sequence[Report], scenarios: Mapping[str, Mapping[str, Any]]) -> str:
    """`scenarios`: target → its written-down verdicts (gateways/expected)."""
    return "\n".join(_page(reports, scenarios)) + "\n"


def _page(reports: Sequence[Report], scenarios: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield HEAD.format(format=FORMAT)
    at: tuple[tuple[str, Cell], ...] = (("version", lambda r: _text(r.gateway)), ("on", lambda r: r.measured), ("MCP version", lambda r: r.protocol))
    yield from _table("Measured", reports, at)
    for title, rows in ROWS:
        yield from _table(title, reports, rows)
    judged = [report for report in reports if report.target in scenarios]
    names = sorted({name for each in scenarios.values() for name in each.get("scenarios", {})})
    rows = tuple((name, _verdict(name, scenarios)) for name in names)
    yield from _table("Scenarios", judged, rows, folder="expected")
    yield "What a team must switch on to have a record of calls:"
    yield ""
    yield from (f"* {report.target}: {_text(report.advice)}" for report in reports if report.advice)


def _verdict(name: str, scenarios: Mapping[str, Mapping[str, Any]]) -> Cell:
    def cell(report: Report) -> str:
        one = scenarios.get(report.target, {}).get("scenarios", {}).get(name)
        if one is None:
            return "not run"
        lacking = sorted({f.rpartition(": ")[2] for f in one.get("findings", ()) if ": untestable @" in f})
        return f"{one['outcome']}, {len(one['proven'])} of {len(one['proven']) + len(one['not_proven'])} claims proven" + (
            f"; untestable: {', '.join(lacking)}" if lacking else ""
        )

    return cell


def _table(title: str, reports: Sequence[Report], rows: Sequence[tuple[str, Cell]], folder: str = "measured") -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| | " + " | ".join(f"[{report.target}](../gateways/{folder}/{report.target}.json)" for report in reports) + " |"
    yield "|---|" + "---|" * len(reports)
    for name, cell in rows:
        yield f"| {name} | " + " | ".join(_escaped(cell(report)) for report in reports) + " |"
    yield ""


def _text(value: object) -> str:
    return cut(one_line(str(value)), 120)


def _escaped(value: str) -> str:
    return cut(one_line(value), 240).replace("|", "\\|").replace("<", "&lt;")
