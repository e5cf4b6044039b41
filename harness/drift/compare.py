"""Two sides in, a report out: facts from inventory.diff, judged by the table."""

from __future__ import annotations

from harness.drift.rules import judge_fact
from harness.inventory.diff import ASPECTS, Aspect, Diff, diff
from harness.inventory.side import Side
from harness.model.drift import SEVERITIES, Against, AspectCount, DriftReport

_FAKE: frozenset[Aspect] = frozenset({"names", "parameters", "risk", "status", "shape"})


def aspects_against(against: Against) -> frozenset[Aspect]:
    """What may be compared. A fake's prose, hints, output schemas and so its hashes are its own, and prove nothing either way."""
    return _FAKE if against == "fake" else frozenset(ASPECTS)


def compare(old: Side, new: Side, *, against: Against = "live") -> DriftReport:
    """Judge `new` by `old`. Findings come with the worst first, then in the order of the list."""
    return judge_diff(diff(old, new), old, new, against=against)


def judge_diff(found: Diff, old: Side, new: Side, *, against: Against) -> DriftReport:
    """As `compare`, on facts already found."""
    wanted = aspects_against(against)
    findings = [judge_fact(fact) for fact in found.facts if fact.aspect in wanted]
    findings.sort(key=lambda finding: SEVERITIES.index(finding.severity))

    def count(aspect: Aspect) -> AspectCount:
        if aspect not in wanted:
            return AspectCount(compared=0, agreed=0)
        return AspectCount(compared=found.compared[aspect], agreed=found.agreed[aspect])

    short = [f"{side.label}: {side.reason}" for side in (old, new) if not side.complete]
    return DriftReport(
        old=old.label,
        new=new.label,
        against=against,
        complete=not short,
        reason="; ".join(short),
        names=count("names"),
        parameters=count("parameters"),
        risk=count("risk"),
        status=count("status"),
        shape=count("shape"),
        hash=count("hash"),
        findings=tuple(findings),
    )
