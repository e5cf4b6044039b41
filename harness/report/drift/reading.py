"""What every drift format says first, in the same words."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from harness.errors import Exit
from harness.model.drift import SEVERITIES, RiskRow
from harness.model.drift_result import DriftResult, Judged
from harness.report.inert import to_json
from harness.report.reading import MEANING

_UNSEEN = re.compile("[\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\uffff\U000e0000-\U000e007f]")
MOST_SHOWN = 2_000
"""Findings that a format for people shows; all of them are in the JSON document."""


def answer(result: DriftResult) -> str:
    """Such as "drift: 3 findings, 1 at or above the threshold; exit code 6, drift, and nothing else"."""
    accepted = f", {len(result.accepted)} accepted" if result.accepted else ""
    unproven = f", {result.unproven} unproven" if result.unproven else ""
    counts = f"{count(len(result.judged), 'finding')}, {len(result.failing)} at or above the threshold{accepted}{unproven}"
    meaning = MEANING[Exit(result.exit_code)]
    return f"{result.verdict}: {counts}; exit code {result.exit_code}, {meaning}"


def count(number: int, noun: str) -> str:
    """Such as "1 finding" and "2 findings"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def told(result: DriftResult) -> tuple[str, ...]:
    """The reasons that say more than the counts do: those of everything but plain drift."""
    return result.reasons if result.exit_code not in (Exit.OK, Exit.DRIFT) else ()


def sides(result: DriftResult) -> str:
    kind = f", as evidence of a {result.report.against} provider" if result.report else ""
    return f"{result.old} → {result.new}{kind}"


def severity_counts(result: DriftResult) -> dict[str, int]:
    """Open findings by severity, zeros too."""
    found = Counter(judged.finding.severity for judged in result.open)
    return {severity: found[severity] for severity in SEVERITIES}


def in_order(result: DriftResult) -> list[Judged]:
    """Failing first, then reported, then accepted; within each the worst first, then as found."""
    states = ("failing", "reported", "accepted")
    return sorted(result.judged, key=lambda judged: (states.index(judged.state), SEVERITIES.index(judged.finding.severity)))


def json_bytes(data: Any) -> bytes:
    """JSON in UTF-8, indented. Characters that are not seen, or turn text round, are escapes: a document is also read on terminals."""
    return (_UNSEEN.sub(_escaped, to_json(data, indent=1)) + "\n").encode("utf-8")


def _escaped(match: re.Match[str]) -> str:
    units = match.group().encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def call(tool: str, arguments: Any) -> str:
    """A `tools/call` request, ready to paste."""
    return to_json({"method": "tools/call", "params": {"name": tool, "arguments": arguments}})


def place(judged: Judged) -> str:
    """Tool and JSON pointer into its wire object."""
    return " ".join(filter(None, (judged.finding.tool, judged.finding.pointer)))


RISK_PARTIES = ("gateway", "oracle", "inventory", "hints")


def risk_line(row: RiskRow) -> str:
    """Such as "forget: gateway write, oracle destructive (verb forget), inventory destructive"."""
    said = [f"{party} {getattr(row, party)}" for party in RISK_PARTIES if getattr(row, party) is not None]
    reasons = "; ".join(filter(None, (row.oracle_reason, row.hint_reason)))
    return f"{row.tool}: {', '.join(said)}" + (f" ({reasons})" if reasons else "")
