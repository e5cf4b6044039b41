"""Which findings are accepted, and which waivers no longer are what they were when somebody accepted them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from harness.model.drift import DriftFinding
from harness.model.waiver import Waiver

EXPIRED, STALE, UNUSED = "waiver-expired", "waiver-stale", "waiver-unused"
FIXES: Mapping[str, str] = {
    EXPIRED: "end the exception, or accept it again with a new date",
    STALE: "review the change that is there now; accept it anew or mend it",
    UNUSED: "remove the waiver",
}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A finding as waivers see it. `fingerprint` names this very change."""

    finding: DriftFinding
    fingerprint: str


@dataclass(frozen=True, slots=True)
class Applied:
    """`accepted`: fingerprint → waiver. `notices`: findings on waivers, each with the waiver it is about. `used`: waivers that matched."""

    accepted: Mapping[str, Waiver]
    notices: tuple[tuple[DriftFinding, Waiver], ...]
    used: frozenset[Waiver]


def apply(
    candidates: Sequence[Candidate], waivers: Iterable[Waiver], *, provider: str, today: str, complete: bool = True, alone: bool = True
) -> Applied:
    """`provider` names what was checked, `today` is YYYY-MM-DD.

    A waiver is called unused only when all that it could cover was looked at: not after a short list (`complete` False), and not when
    it names no provider and others are checked beside this one (`alone` False); see `unused_everywhere`.
    """
    accepted: dict[str, Waiver] = {}
    notices: list[tuple[DriftFinding, Waiver]] = []
    used: set[Waiver] = set()
    for waiver in waivers:
        if waiver.where.provider not in (None, provider) or waiver.where.scenario:
            continue
        here = [candidate for candidate in candidates if _covers(waiver, candidate.finding)]
        same = [candidate for candidate in here if waiver.fingerprint in (None, candidate.fingerprint)]
        if here:
            used.add(waiver)
        if same and today > waiver.expires:
            notices.append((_notice(EXPIRED, waiver, f"the waiver of {waiver.owner} expired on {waiver.expires}"), waiver))
        elif same:
            accepted |= {candidate.fingerprint: waiver for candidate in same}
        elif here:
            notices.append((_notice(STALE, waiver, f"the waiver of {waiver.owner} was for another change than the one found now"), waiver))
        elif complete and (alone or waiver.where.provider is not None):
            notices.append((unused_notice(waiver), waiver))
    return Applied(accepted, tuple(notices), frozenset(used))


def unused_everywhere(waivers: Iterable[Waiver], used: Iterable[Waiver]) -> tuple[DriftFinding, ...]:
    """Notices on waivers for any provider that nothing used, after everything that was to be checked was checked whole."""
    seen = set(used)
    return tuple(unused_notice(waiver) for waiver in waivers if waiver.where.provider is None and not waiver.where.scenario and waiver not in seen)


def _covers(waiver: Waiver, finding: DriftFinding) -> bool:
    return (waiver.finding, waiver.where.tool, waiver.where.pointer) == (finding.id, finding.tool, finding.pointer)


def unused_notice(waiver: Waiver) -> DriftFinding:
    return _notice(UNUSED, waiver, f"the waiver of {waiver.owner} covers nothing that was found")


def _notice(rule: str, waiver: Waiver, what: str) -> DriftFinding:
    place = f"{waiver.at}: " if waiver.at.file else ""
    return DriftFinding(
        id=rule,
        severity="risk",
        tool=waiver.where.tool,
        pointer=waiver.where.pointer,
        expected=waiver.finding,
        message=f"{place}{what} ({waiver.finding}{f' at {waiver.where.tool}' if waiver.where.tool else ''})",
        fix=FIXES[rule],
    )
