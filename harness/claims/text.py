"""The ledger for people and for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.claims.ledger import Ledger, ToolRow
from harness.model.scenario import LEVELS
from harness.model.verdict import ToolState
from harness.report.inert import one_line, to_json

_SIGN = {"listed": "l", "called": "c", "agreed": "A"}


def document(ledger: Ledger) -> str:
    """claims/v1 as JSON text."""
    return to_json(ledger.model_dump(mode="python", by_alias=True), indent=1) + "\n"


def summary(ledger: Ledger) -> str:
    """Claims with level, date and run; what is not proven; the tools by level."""
    return "\n".join(one_line(line) for line in _lines(ledger)) + "\n"


def _lines(ledger: Ledger) -> Iterator[str]:
    proven = [s for s in ledger.standings if s.proven]
    yield f"{len(proven)} of {len(ledger.standings)} claims are proven, by {len(ledger.runs)} run(s)"
    yield ""
    for standing in ledger.standings:
        word = f"proven at {standing.level}" if standing.proven else "NOT PROVEN"
        yield f"{word:<18} {standing.scenario}: {standing.claim}"
        yield f"                   {', '.join(standing.providers) or 'no provider'}; {standing.date[:10]}; run {standing.run}"
        for gap in standing.gaps:
            yield f"                   gap: {gap}"
    if ledger.not_proven:
        yield ""
        yield "Not claimed, and not proven:"
        for scenario, sentences in ledger.not_proven.items():
            yield from (f"  {scenario}: {sentence}" for sentence in sentences)
    yield ""
    yield from _tools(ledger)


def _tools(ledger: Ledger) -> Iterator[str]:
    yield "Tools by level (l: listed only, c: called, A: agent, audit and witness agree on every call, -: nothing):"
    width = max((len(f"{row.provider}/{row.tool}") for row in ledger.tools), default=0)
    yield f"  {'':<{width}}  " + "  ".join(LEVELS)
    for row in ledger.tools:
        yield f"  {f'{row.provider}/{row.tool}':<{width}}  " + "  ".join(_sign(row, level).ljust(len(level)) for level in LEVELS)
    for level in LEVELS:
        others = [row.levels.get(level) for row in ledger.tools if not row.own]
        own = [row.levels.get(level) for row in ledger.tools if row.own]
        apart = f"; apart from them, of {len(own)} of our own bridges {_counts(own)}" if own else ""
        yield f"  {level}: of {len(others)} tools {_counts(others)}{apart}"


def _counts(states: Sequence[ToolState | None]) -> str:
    called = sum(state in ("called", "agreed") for state in states)
    return f"{sum(state is not None for state in states)} listed, {called} called, {states.count('agreed')} agreed"


def _sign(row: ToolRow, level: str) -> str:
    state = next((state for name, state in row.levels.items() if name == level), None)
    return _SIGN[state] if state else "-"
