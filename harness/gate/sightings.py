"""Verdicts of several runs, in order of time, and which of them waivers accept. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from harness.claims.ledger import weakest
from harness.claims.runs import StoredRun
from harness.gate.answer import Proof
from harness.inventory.canonical import json_hash
from harness.model.finding import Finding
from harness.model.scenario import Level
from harness.model.verdict import Verdict
from harness.model.waiver import Waiver

COUNTED = ("error", "fail", "drift")


@dataclass(frozen=True, slots=True)
class Sighting:
    """One verdict of one run. `level` is the weakest among its own and its claims'."""

    run: str
    at: datetime
    verdict: Verdict
    level: Level

    def proof(self) -> Proof:
        return Proof(run=self.run, item=self.verdict.item, level=self.level, date=self.at.isoformat(), outcome=self.verdict.outcome)

    def said(self) -> str:
        return f"{self.verdict.item} in run {self.run} of {self.at:%Y-%m-%d}"


def sightings_of(runs: Iterable[StoredRun]) -> tuple[Sighting, ...]:
    """Oldest first. Runs of a gateway that was broken on purpose are left out, and so is what did not apply."""
    found = [
        Sighting(run.results.run, instant(run.results.started_at), verdict, weakest((verdict.level, *(c.level for c in verdict.claims))))
        for run in runs
        if not run.broken
        for verdict in run.results.verdicts
    ]
    return tuple(sorted(found, key=lambda s: (s.at, s.run)))


def instant(text: str) -> datetime:
    """A run that does not say when it began is as old as can be."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def newest(sightings: Iterable[Sighting]) -> tuple[Sighting, ...]:
    """The last one of each plan item; not applicable ones never stand for anything."""
    return tuple({s.verdict.item: s for s in sightings if s.verdict.outcome != "not_applicable"}.values())


def selects(select: str, scenario: str, tags: Sequence[str]) -> bool:
    """As `harness run` selects: an id, a glob or tag:NAME."""
    if select.startswith("tag:"):
        return select.removeprefix("tag:") in tags
    return scenario == select or fnmatchcase(scenario, select)


def fingerprint(verdict: Verdict, finding: Finding) -> str:
    """32 hexadecimal digits that name this very failure: the finding, its scenario, step and expectation."""
    return json_hash({"id": finding.id, "scenario": verdict.scenario, "step": finding.step, "expectation": finding.expectation})[:32]


def counted(verdict: Verdict) -> tuple[Finding, ...]:
    return tuple(f for f in verdict.findings if f.severity in COUNTED)


class Acceptance:
    """Which findings are accepted today. What could not be told is never accepted: an error says nothing about the subject."""

    def __init__(self, waivers: Sequence[Waiver], today: str) -> None:
        self._waivers = tuple(w for w in waivers if w.where.scenario)
        self._today = today

    def waiver_of(self, verdict: Verdict, finding: Finding) -> Waiver | None:
        """The waiver in force that covers this finding, if any."""
        if finding.severity == "error":
            return None
        return next((w for w in self._waivers if self._today <= w.expires and matches(w, verdict, finding)), None)

    def remaining(self, verdict: Verdict) -> tuple[Finding, ...]:
        """Findings that count and that nobody accepted."""
        return tuple(f for f in counted(verdict) if self.waiver_of(verdict, f) is None)

    def accepts(self, verdict: Verdict) -> bool:
        """True for a verdict that failed by accepted findings only."""
        return verdict.outcome == "fail" and bool(counted(verdict)) and not self.remaining(verdict)


def in_scope(waiver: Waiver, verdict: Verdict) -> bool:
    return waiver.where.scenario == verdict.scenario and waiver.where.provider in (None, *verdict.providers)


def covers(waiver: Waiver, verdict: Verdict, finding: Finding) -> bool:
    """The kind and place of the finding, whatever the fingerprint."""
    return in_scope(waiver, verdict) and waiver.finding == finding.id and finding.severity != "error"


def matches(waiver: Waiver, verdict: Verdict, finding: Finding) -> bool:
    return covers(waiver, verdict, finding) and waiver.fingerprint in (None, fingerprint(verdict, finding))


def known_scenarios(sightings: Iterable[Sighting], known: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Sequence[str]]]:
    """(scenario, tags): of this checkout and of the runs, so that a required scenario cannot be passed over by not running it."""
    found = {scenario: set(tags) for scenario, tags in known.items()}
    for sighting in sightings:
        found.setdefault(sighting.verdict.scenario, set()).update(sighting.verdict.tags)
    yield from ((scenario, sorted(tags)) for scenario, tags in sorted(found.items()))
