"""One check from its two sides to its exit code, and many of them: what the drift reports draw."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from harness.model.drift import DriftFinding, DriftReport, DriftSeverity, RiskRow
from harness.model.location import Frozen, Location

State = Literal["failing", "reported", "accepted"]
ThresholdWord = Literal["breaking", "risk", "text", "any"]
VerdictWord = Literal["same", "drift", "incomplete", "error"]
SEVERITY_OF: dict[str, tuple[DriftSeverity, ...]] = {
    "breaking": ("breaking",),
    "risk": ("breaking", "risk"),
    "text": ("breaking", "text"),
    "any": ("breaking", "risk", "text", "info"),
}


def threshold(words: Collection[str]) -> frozenset[DriftSeverity]:
    """The severities that fail. Breaking always does; each further word adds its own, "any" adds all."""
    return frozenset(severity for word in (*words, "breaking") for severity in SEVERITY_OF[word])


class RuleInfo(Frozen):
    """One rule as reports list it. `severity` is the one in force; `default` is the table's own."""

    id: str
    severity: DriftSeverity
    default: DriftSeverity
    direction: str
    title: str
    fix: str


class Judged(Frozen):
    """A finding and what became of it. `fingerprint` names this very change: rule, place, old value, new value; 32 hexadecimal digits.

    `location` is where the agreed side says otherwise (a file, line and column); None when that side is no file.
    `accepted_by` tells owner, reason, issue and expiry of the waiver, in words.
    """

    finding: DriftFinding
    fingerprint: str
    state: State
    accepted_by: str = ""
    location: Location | None = None


class SchemaPair(Frozen):
    """The two schemas of a tool that findings point into, to be shown beside each other. `root` is the pointer of the schema itself."""

    tool: str
    root: Literal["/inputSchema", "/outputSchema"]
    old: Any = None
    new: Any = None


class DriftResult(Frozen):
    """`subject` names what was checked (a provider or server id). `report` is None when a side could not be had: then `reasons` says why.

    `reasons` are all causes of `exit_code`, worst first. `unproven` counts relations that were not decided and not accepted.
    `headers` are the names of connection headers that were sent, never their values.
    """

    subject: str
    old: str
    new: str
    report: DriftReport | None
    judged: tuple[Judged, ...] = ()
    rules: tuple[RuleInfo, ...] = ()
    fail_on: tuple[str, ...] = ("breaking",)
    exit_code: int
    reasons: tuple[str, ...] = ()
    unproven: int = 0
    pairs: tuple[SchemaPair, ...] = ()
    headers: tuple[str, ...] = ()
    risks: tuple[RiskRow, ...] = ()
    """Tools whose risk class is disputed, each as every party has it."""
    risks_agreed: int = 0
    """Tools of which every party that says anything says the same."""
    harness_version: str = ""

    @property
    def verdict(self) -> VerdictWord:
        """Accepted findings still count as drift here: the verdict says what is, the exit code what follows."""
        return "error" if self.report is None else self.report.verdict

    @property
    def failing(self) -> tuple[Judged, ...]:
        return tuple(judged for judged in self.judged if judged.state == "failing")

    @property
    def accepted(self) -> tuple[Judged, ...]:
        return tuple(judged for judged in self.judged if judged.state == "accepted")

    @property
    def open(self) -> tuple[Judged, ...]:
        """Everything that is not accepted."""
        return tuple(judged for judged in self.judged if judged.state != "accepted")


class FleetEntry(Frozen):
    """One server of a fleet, small enough to keep ten thousand of them. `plan` is the digest of what was asked of it."""

    id: str
    plan: str
    exit_code: int
    verdict: VerdictWord
    tools: int = 0
    breaking: int = 0
    risk: int = 0
    text: int = 0
    info: int = 0
    accepted: int = 0
    unproven: int = 0
    reason: str = ""
    used_waivers: tuple[str, ...] = ()


class FleetResult(Frozen):
    entries: tuple[FleetEntry, ...]
    exit_code: int
    reasons: tuple[str, ...] = ()
    notices: tuple[DriftFinding, ...] = ()
    workers: str = ""
    harness_version: str = ""
