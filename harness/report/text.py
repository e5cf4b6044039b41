"""The results for a terminal: a few lines, the level first, then the answer, then what stands in the way and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.inert import cut, one_line, shown
from harness.report.reading import answer, comparison_line, counts_line, in_order, not_proven

_SIGN = {"pass": "pass ", "fail": "FAIL ", "error": "ERROR", "not_applicable": "n/a  "}
_VALUE = 300


def terminal_summary(results: Results) -> str:
    """Plain text ending in a newline; hidden characters of others are escapes, so nothing in it steers the terminal."""
    return "\n".join(_lines(results)) + "\n"


def verdict_lines(verdict: Verdict) -> list[str]:
    """One scenario: outcome, name, time, title; then each finding that counts, with its place and remedy."""
    head = f"{_SIGN[verdict.outcome]} {one_line(verdict.item)}  {verdict.seconds:.2f} s  {one_line(verdict.title)}"
    lines = [head]
    for finding in verdict.findings:
        if finding.severity != "info":
            lines += _finding(finding)
    return lines


def _lines(results: Results) -> Iterator[str]:
    yield one_line(results.level_line)
    yield ""
    for verdict in reversed(in_order(results)):
        yield from verdict_lines(verdict)
    said = [f"  {one_line(verdict.scenario)}: {one_line(line)}" for verdict in in_order(results) for line in not_proven(verdict)]
    unproven = list(dict.fromkeys(said))  # the same for every protocol version, so said once
    if unproven:
        yield ""
        yield "Not proven:"
        yield from unproven
    yield ""
    if results.comparison:
        yield one_line(comparison_line(results))
    yield counts_line(results)
    yield answer(results)
    shown_above = tuple(f"{verdict.item}: " for verdict in results.verdicts)
    for reason in results.exit_reasons:
        if not reason.startswith(shown_above):
            yield f"  {one_line(reason)}"


def _finding(finding: Finding) -> Iterator[str]:
    place = " ".join(filter(None, (finding.where, finding.expectation)))
    yield f"        {finding.severity}: {one_line(finding.id)}: {_short(finding.message)}"
    for word, value in (("at", place), ("expected", finding.expected), ("actual", finding.actual), ("fix", finding.fix)):
        text = _short(value)
        if text:
            yield f"          {word}: {text}"


def _short(value: object) -> str:
    text = one_line(shown(value))
    short = cut(text, _VALUE)
    return short if short == text else f"{short}… (whole in results.json)"
