"""The result for a terminal, compact: what fails with its proof and remedy, everything else on one line each."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.drift_result import DriftResult, Judged
from harness.report.drift.proof import proof_lines
from harness.report.drift.reading import MOST_SHOWN, answer, in_order, risk_line, sides, told
from harness.report.inert import cut, one_line

_LONGEST = 400
_COLOURS = {"breaking": "31;1", "risk": "33", "text": "36", "info": "2", "accepted": "2", "good": "32", "bad": "31;1"}


class Text:
    id = "text"
    summary = "a few lines for a terminal"

    def render(self, result: DriftResult) -> bytes:
        return _joined(result, colour=False)


def coloured(result: DriftResult) -> bytes:
    """The same with colours, for a terminal only."""
    return _joined(result, colour=True)


def _joined(result: DriftResult, *, colour: bool) -> bytes:
    return ("\n".join(_lines(result, _Pen(colour))) + "\n").encode("utf-8", "backslashreplace")


class _Pen:
    def __init__(self, colour: bool) -> None:
        self._colour = colour

    def paint(self, text: str, kind: str) -> str:
        return f"\x1b[{_COLOURS[kind]}m{text}\x1b[0m" if self._colour else text


def _lines(result: DriftResult, pen: _Pen) -> Iterator[str]:
    yield one_line(sides(result))
    every = in_order(result)
    for judged in every[:MOST_SHOWN]:
        yield from _finding(judged, result, pen)
    if len(every) > MOST_SHOWN:
        yield f"and {len(every) - MOST_SHOWN} more findings: --format json has all of them"
    if result.report is not None:
        yield f"Compared: {result.report.summary}"
        if not result.report.complete:
            yield pen.paint(one_line(f"INCOMPLETE: {result.report.reason}"), "bad")
    for row in result.risks[:MOST_SHOWN]:
        yield pen.paint(f"risk disputed: {_short(risk_line(row))}", "risk")
    yield pen.paint(answer(result), "good" if result.exit_code == 0 else "bad")
    yield from (f"  {_short(reason)}" for reason in told(result))


def _finding(judged: Judged, result: DriftResult, pen: _Pen) -> Iterator[str]:
    finding, failing = judged.finding, judged.state == "failing"
    mark = "FAIL" if failing else "ok  " if judged.state == "accepted" else "    "
    painted = pen.paint(f"{mark} {finding.severity:8}", "accepted" if judged.state == "accepted" else finding.severity)
    yield f"{painted}  {finding.id}: {_short(finding.message)}"
    if judged.state == "accepted":
        yield f"       accepted by {_short(judged.accepted_by)}"
    if failing:
        yield from (f"       {_short(line)}" for line in proof_lines(result, finding))
        if judged.location:
            yield f"       at: {one_line(str(judged.location))}"
        yield f"       fix: {_short(finding.fix)}"


def _short(text: str) -> str:
    line = one_line(text)
    short = cut(line, _LONGEST)
    return short if short == line else f"{short}…"


FORMAT = Text()
