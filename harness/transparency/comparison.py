"""The rows of the comparison page: what each cell says of a report, and where in the report it was read. Pure; its input is measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.report.inert import cut, one_line
from harness.transparency.facts import Judged, Report


@dataclass(frozen=True, slots=True)
class Shown:
    """What a cell says, and where in the report it was read: a list of the report (`judged`, `catalog`, ...) and the place in it."""

    text: str
    section: str = ""
    index: int = -1


Cell = Callable[[Report], Shown]
UNMEASURED = Shown("not measured")


def _at(report: Report, key: str) -> tuple[int, Judged] | None:
    return next(((index, one) for index, one in enumerate(report.judged) if one.fact.key == key), None)


def _read(key: str, say: Callable[[Judged], str]) -> Cell:
    """A cell about one fact."""

    def cell(report: Report) -> Shown:
        found = _at(report, key)
        return UNMEASURED if found is None else Shown(say(found[1]), "judged", found[0])

    return cell


def _fact(key: str, words: Mapping[Any, str] | None = None) -> Cell:
    """What the gateway shows for this fact: a word for the value, else `as the provider` or `other`."""

    def say(one: Judged) -> str:
        value = one.fact.through
        if words is not None and not isinstance(value, (dict, list)) and value in words:
            return words[value]
        return "as the provider" if not one.fact.differs else f"other ({one.counts})"

    return _read(key, say)


def _component(name: str) -> Cell:
    """Over all tools that both legs list; the evidence is the first that differs."""

    def cell(report: Report) -> Shown:
        listed = {one.fact.subject for one in report.judged if one.fact.id == "list.tool" and one.fact.through is not None}
        ones = [(i, one) for i, one in enumerate(report.judged) if one.fact.id == f"component.{name}" and one.fact.subject in listed]
        changed = [(i, one) for i, one in ones if one.fact.differs]
        if not ones:
            return UNMEASURED
        text = "as the provider" if not changed else f"other in {len(changed)} of {len(ones)} ({changed[0][1].counts})"
        return Shown(text, "judged", (changed or ones)[0][0])

    return cell


def _listed(report: Report) -> Shown:
    ones = [(i, one) for i, one in enumerate(report.judged) if one.fact.id == "list.tool" and one.fact.direct is not None]
    hidden = [(i, one) for i, one in ones if one.fact.through is None]
    if not ones:
        return UNMEASURED
    return Shown(f"all {len(ones)}" if not hidden else f"incomplete: {len(hidden)} of {len(ones)} hidden", "judged", (hidden or ones)[0][0])


def _names(one: Judged) -> str:
    own, shown = one.fact.direct, one.fact.through
    return "bare" if shown == own else f"`{text_of(sorted(shown)[0])}`" if shown else "none"


def _rpc_error(one: Judged) -> str:
    return "code, message and data" if not one.fact.differs else "flattened to isError text" if "is_error" in (one.fact.through or {}) else "other"


def _requests(one: Judged) -> str:
    return f"{sum(one.fact.through.values()):g}: {', '.join(sorted(one.fact.through))}" if one.fact.through else "none"


def _measure(name: str) -> Cell:
    def cell(report: Report) -> Shown:
        found = next(((i, one) for i, one in enumerate(report.measures) if one.id == name), None)
        return UNMEASURED if found is None or found[1].through is None else Shown(f"{found[1].through:g} {found[1].unit}", "measures", found[0])

    return cell


def _stale(change: str) -> Cell:
    def cell(report: Report) -> Shown:
        found = next(((i, each) for i, each in enumerate(report.catalog) if each.change == change), None)
        if found is None:
            return UNMEASURED
        one = found[1]
        views = f"session {one.session}, fresh {one.fresh_session}, refresh {one.refresh}, own list {one.registry}"
        trouble = f"; **{one.trouble.partition(':')[0]}**" if one.trouble else ""
        return Shown(f"{views}; {'told' if one.told else 'not told'}{trouble}", "catalog", found[0])

    return cell


def _audit(case: str) -> Cell:
    def cell(report: Report) -> Shown:
        found = next(((i, each) for i, each in enumerate(report.audit) if each.case == case), None)
        if found is None:
            return UNMEASURED
        one = found[1]
        return Shown(f"honest ({one.record})" if one.counts == "same" else f"**{one.why}**", "audit", found[0])

    return cell


def _case(case: str) -> Cell:
    def cell(report: Report) -> Shown:
        found = next(((i, each) for i, each in enumerate(report.cases) if each.case == case), None)
        return UNMEASURED if found is None else Shown(f"{found[1].outcome}: {found[1].what}", "cases", found[0])

    return cell


YES_NO = {True: "yes", False: "no", None: "no"}
ROWS: tuple[tuple[str, tuple[tuple[str, Cell], ...]], ...] = (
    (
        "Tools",
        (
            ("tools listed", _listed),
            ("names", _read("list.names", _names)),
            ("pages (the provider has three)", _read("list.pages", lambda one: str(one.fact.through))),
            ("cursors", _fact("list.cursors")),
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
            ("JSON-RPC error -32050", _read("error.rpc_error", _rpc_error)),
            ("unknown tool is sent to the provider", _fact("error.unknown_tool_dispatched", {0: "no", 1: "yes"})),
            ("missing required argument", _fact("arguments.missing_required")),
            ("integer beyond 2^53", _fact("arguments.large_integer")),
            ("fraction", _fact("arguments.fraction")),
            ("progress", _fact("progress.steps")),
            ("answers to calls that overlap", _fact("answers.owners")),
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
            ("messages to the provider per call", _read("requests.per_call", _requests)),
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


def text_of(value: object, limit: int = 120) -> str:
    return cut(one_line(str(value)), limit)
