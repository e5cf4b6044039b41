"""Findings folded into a verdict, verdicts into results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from statistics import median

from harness.engine.compared import COMPARED, OWN
from harness.engine.coverage import tool_coverage
from harness.engine.development import sentence
from harness.engine.timeline import timeline
from harness.engine.vocabulary import kinds
from harness.errors import Exit, HarnessError, fold_exit
from harness.expect.base import LegKind
from harness.expect.view import View
from harness.live.visibility import queued, visible
from harness.model.evidence import PlanItemRecord, RunRecord, StepRecord, Trouble
from harness.model.finding import Finding
from harness.model.scenario import LEVELS, Level, Scenario
from harness.model.trend import Trend
from harness.model.verdict import ClaimVerdict, Outcome, Results, Verdict

INCOMPLETE_IDS = frozenset({"untestable", "witness-blind", "scenario-broken-off", "could-not-tell", "prerequisite-missing"})
TWO_WITNESSES = "two witnesses, agent and tap: the target keeps no record of calls, so what is proven here is proven without an audit"
PREREQUISITES: Mapping[str, tuple[str, str]] = {
    "credentials": ("credentials-missing", "`harness doctor` says what is missing; what cannot be run is never a pass"),
    "consent": ("consent-missing", "allow it, or select scenarios that need it not; what cannot be run is never a pass"),
    "foreign": ("foreign-data", "use values made of ${nonce} or ${run.id}, or captured from what the run made"),
}
"""Kind of a live run's reason → the finding's id, and what to do."""
REHEARSED = "rehearsed: the live path, with stand-ins of ours under the providers' real names; nothing here is evidence about a provider"
BY_ID: Mapping[str, Exit] = {
    "unreachable": Exit.UNREACHABLE,
    "credentials-missing": Exit.CREDENTIALS,
    "port-in-use": Exit.USAGE,
    "usage": Exit.USAGE,
    "consent-missing": Exit.CREDENTIALS,
    "foreign-data": Exit.USAGE,
}


def fold(
    start: PlanItemRecord,
    scenario: Scenario,
    view: View,
    evaluated: Sequence[str],
    findings: Sequence[Finding],
    compared: Mapping[str, int],
) -> Verdict:
    """pass needs: no failing finding, every expectation evaluated, and at least one witnessed call. `compared`: tools, by aspect."""
    found = list(findings)
    if start.missing:
        found += [prerequisite(scenario, reason) for reason in start.missing]
    found += [beyond_target(start, scenario, reason) for reason in start.untestable]
    if not start.not_applicable and not start.missing and not start.untestable:
        found += witnessed_something(scenario, view)
    outcome = outcome_of(start, found)
    steps = [r for r in view.records if isinstance(r, StepRecord) and r.phase == "steps"]
    ends = [r for r in view.records if isinstance(r, PlanItemRecord) and r.phase == "end"]
    polled = {s.id for s in scenario.steps if s.eventually is not None}
    return Verdict(
        item=start.item,
        scenario=scenario.id,
        title=scenario.title,
        area=scenario.area,
        level=start.level,
        target=start.target,
        protocol=start.protocol,
        providers=tuple(dict.fromkeys(view.providers.values())),
        tags=scenario.tags,
        outcome=outcome,
        exit_code=int(fold_exit(exit_codes(outcome, found))),
        evaluated=tuple(evaluated),
        findings=tuple(found),
        claims=tuple(claims_of(start, scenario, evaluated, found, outcome)),
        not_proven=scenario.does_not_prove,
        counts=counts_of(view, compared),
        seconds=ends[-1].seconds if ends else 0.0,
        time_to_visible_s={r.step: r.elapsed_s for r in steps if r.step in polled},
        attempts={r.step: r.attempts for r in steps if r.attempts > 1},
        tools=tool_coverage(start, view),
        witnesses=2 if start.two_witness else 3,
        latency_ms=latency_of(view),
        timeline=timeline(view, found),
        development=start.development,
        visibility=visible(scenario, view.records, view.providers, view.manifests, frozenset(f.step for f in found if f.severity != "warn")),
        queued=queued(view.records, view.providers, view.manifests),
        recorded=start.recorded,
        rehearsed=start.rehearsed,
        notes=tuple(one.told() for one in start.recorded)
        + ((TWO_WITNESSES,) if start.two_witness else ()) + ((REHEARSED,) if start.rehearsed else ()),
    )


def prerequisite(scenario: Scenario, reason: str) -> Finding:
    kind, colon, rest = reason.partition(": ")
    told, fix = PREREQUISITES.get(kind if colon else "", ("", "make it available, or select another level; what cannot be run is never a pass"))
    return Finding(
        id=told or "prerequisite-missing",
        severity="error",
        message=rest if told else reason,
        where=str(scenario.location),
        fix=fix,
    )


def beyond_target(start: PlanItemRecord, scenario: Scenario, reason: str) -> Finding:
    return Finding(
        id="untestable",
        severity="error",
        message=reason,
        where=str(scenario.location),
        fix=f"target {start.target} cannot be set up for it; docs/targets.md says what each target can do",
    )


def witnessed_something(scenario: Scenario, view: View) -> list[Finding]:
    """A run that no party but the gateway saw is never a pass, whatever its catalog says."""
    if view.exchanges:
        return []
    return [
        Finding(
            id="witness-blind",
            severity="error",
            message="the tap saw nothing at all",
            where=str(scenario.location),
            fix="check that the gateway was given the tap's address",
        )
    ]


def outcome_of(start: PlanItemRecord, findings: Sequence[Finding]) -> Outcome:
    if start.not_applicable:
        return "not_applicable"
    severities = {f.severity for f in findings}
    if "error" in severities:
        return "error"
    return "fail" if severities & {"fail", "drift"} else "pass"


def exit_codes(outcome: Outcome, findings: Sequence[Finding]) -> set[Exit]:
    """Every cause's own code; drift counts as 6 only when nothing else failed."""
    codes: set[Exit] = set()
    for finding in findings:
        if finding.severity == "error":
            codes.add(BY_ID.get(finding.id, Exit.INCOMPLETE))
        elif finding.severity == "fail":
            codes.add(Exit.FAILED)
        elif finding.severity == "drift":
            codes.add(Exit.DRIFT)
    return codes


def claims_of(
    start: PlanItemRecord, scenario: Scenario, evaluated: Sequence[str], findings: Sequence[Finding], outcome: Outcome
) -> list[ClaimVerdict]:
    """A claim is proven when each expectation it rests on was evaluated and holds, and no witness is in doubt."""
    rests_on = {e.id: kinds()[e.word].leg for e in scenario.every_expectation()}
    doubt = next((f.message for f in findings if f.severity == "error" and not f.expectation), "")
    failed = {f.expectation: f.message for f in findings if f.expectation and f.severity in ("fail", "drift", "error")}
    claims = []
    for claim in scenario.proves:
        broken = next((f"{by}: {failed[by]}" for by in claim.by if by in failed), "")
        missing = next((f"{by} was not evaluated" for by in claim.by if by not in evaluated), "")
        reason = start.not_applicable or broken or missing or doubt
        level = level_of(start, {rests_on[by] for by in claim.by})
        claims.append(ClaimVerdict(claim=claim.claim, proven=not reason, level=level, by=claim.by, unproven_because=reason))
    return claims


def level_of(start: PlanItemRecord, rests_on: Collection[LegKind]) -> Level:
    """The lowest level among the legs that a claim rests on; all of them unless it is about tool lists and nothing else."""
    legs = {name: level for name, level in start.legs.items() if set(rests_on) != {"schema"} or name.endswith("/schema")}
    return min(legs.values() or [start.level], key=LEVELS.index)


def latency_of(view: View) -> float | None:
    """Milliseconds, the median over the scenario's calls."""
    found = [c.latency_ms for c in view.clients if c.method == "tools/call"]
    return round(median(found), 3) if found else None


def counts_of(view: View, compared: Mapping[str, int]) -> dict[str, int]:
    calls = [c for c in view.clients if c.method == "tools/call"]
    counts = {"calls": len(calls), "dispatches": len(view.dispatches), "audit_records": len(view.audit)}
    return counts | {f"compared_{k}": v for k, v in compared.items()}


def results_of(runs: Sequence[RunRecord], verdicts: tuple[Verdict, ...]) -> Results:
    starts, ends = [r for r in runs if r.phase == "start"], [r for r in runs if r.phase == "end"]
    codes = {Exit(v.exit_code) for v in verdicts}
    reasons = [f"{v.item}: {f.id}: {f.message}" for v in verdicts for f in v.findings if f.severity in ("error", "fail", "drift")]
    if verdicts and all(v.outcome == "not_applicable" for v in verdicts):
        codes.add(Exit.INCOMPLETE)
        reasons.append("nothing that was selected applies here")
    if ends and ends[-1].trouble is not None:
        codes.add(Exit(ends[-1].trouble.exit_code))
        reasons.append(told(ends[-1].trouble))
    for lack in lacks(starts, ends, verdicts):
        codes.add(Exit.INCOMPLETE)
        reasons.append(lack)
    totals = Counter(v.outcome for v in verdicts)
    return Results(
        run=starts[0].run if starts else "",
        started_at=starts[0].at if starts else "",
        ended_at=ends[-1].at if ends else "",
        harness_version=starts[0].harness_version if starts else "",
        level_line=level_line(verdicts) + sentence(verdicts),
        exit_code=int(fold_exit(codes)),
        exit_reasons=tuple(dict.fromkeys(reasons)),
        totals={word: totals.get(word, 0) for word in ("pass", "fail", "error", "not_applicable")},
        comparison=comparison_of(verdicts),
        environment=starts[0].environment if starts else {},
        verdicts=verdicts,
        trends=tuple(Trend.model_validate(trend) for trend in starts[0].options.get("earlier", ())) if starts else (),
    )


def lacks(starts: Sequence[RunRecord], ends: Sequence[RunRecord], verdicts: Sequence[Verdict]) -> list[str]:
    """What the evidence as a whole is short of: its frame, or items that were planned and left no trace."""
    planned = [item for start in starts for item in start.options.get("items", ())]
    judged = {verdict.item for verdict in verdicts}
    found = [] if starts else ["the evidence lacks its beginning"]
    found += [] if ends else ["the run did not come to its end"]
    return found + [f"{item}: was planned and left no evidence" for item in planned if item not in judged]


def told(trouble: Trouble) -> str:
    """As the error itself reads: where, what, how to fix."""
    return str(HarnessError(trouble.what, where=trouble.where, fix=trouble.fix))


def comparison_of(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Each provider counts once, with the most that one scenario compared of it alone."""
    best: dict[tuple[str, ...], dict[str, int]] = {}
    for verdict in verdicts:
        counts = {k.removeprefix("compared_"): n for k, n in verdict.counts.items() if k.startswith("compared_")}
        if len(verdict.providers) == 1 and sum(counts.values()) > sum(best.get(verdict.providers, {}).values()):
            best[verdict.providers] = counts
    totals = {aspect: sum(c.get(aspect, 0) for c in best.values()) for aspect in (*COMPARED, *(OWN + each for each in COMPARED))}
    return {aspect: count for aspect, count in totals.items() if count or not aspect.startswith(OWN)}


def level_line(verdicts: Sequence[Verdict]) -> str:
    """The first line of every report."""
    levels = sorted({v.level for v in verdicts}, key=LEVELS.index)
    words = {
        "fake": "our own stand-ins: this proves the gateway and this harness, and nothing about any provider",
        "replayed": "recordings of earlier exchanges",
        "local": "providers' own server software on this machine",
        "live": "providers' hosted endpoints",
    }
    if recorded := sorted({f"at {r.level} on {r.on[:10]}" for v in verdicts for r in v.recorded}):
        words["replayed"] += ": " + ", ".join(recorded)
    line = "Evidence level: " + "; ".join(f"{level} ({words[level]})" for level in levels)
    below = sorted({c.level for v in verdicts for c in v.claims if LEVELS.index(c.level) < LEVELS.index(v.level)}, key=LEVELS.index)
    return line + "".join(f"; claims marked {level} rest on a lower leg and prove no more than {level} evidence does" for level in below)
