"""One function per kind of rule: facts in, a RuleAnswer out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from harness.claims.ledger import ToolRow, state_from, tool_rows
from harness.errors import Exit, fold_exit
from harness.gate.answer import Proof, RuleAnswer, RuleWord
from harness.gate.policy import BudgetRule, CoverageRule, DriftRule, Policy, ProviderRule, Require
from harness.gate.sightings import Acceptance, Sighting, fingerprint, known_scenarios, newest, selects
from harness.model.location import NOWHERE, Location
from harness.model.scenario import LEVELS, Level
from harness.model.verdict import TOOL_STATES, ToolState

FUTURE_SECONDS = 300.0
"""How far clocks of two machines may be apart before evidence counts as dated in the future."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is judged. `known`: scenario → tags, of this checkout; `agreed`: provider → its agreed tools."""

    policy: Policy
    now: datetime
    sightings: tuple[Sighting, ...]
    acceptance: Acceptance
    known: Mapping[str, Sequence[str]]
    agreed: Mapping[str, Sequence[str]]

    def age(self, sighting: Sighting) -> float:
        return (self.now - sighting.at).total_seconds()

    def too_old(self, sighting: Sighting, rule: ProviderRule) -> str:
        """Why its date does not do, or ""."""
        age = self.age(sighting)
        if age < -FUTURE_SECONDS:
            return f"{sighting.said()} is dated in the future"
        if rule.max_age is not None and age > rule.max_age:
            return f"{sighting.said()} is {_span(age)} old, at most {_span(rule.max_age)} is allowed"
        return ""

    def short_of(self, sighting: Sighting) -> str:
        """Why it does not count by the rules of its providers, or ""."""
        for rule in [self.policy.rule_of(provider) for provider in sighting.verdict.providers]:
            if LEVELS.index(sighting.level) < LEVELS.index(rule.level):
                return f"{sighting.said()} is {sighting.level} evidence, {rule.level} is the least that counts"
            if reason := self.too_old(sighting, rule):
                return reason
        return self.too_old(sighting, ProviderRule(level="fake"))


@dataclass
class Said:
    """A rule's answer while it is made."""

    rule: RuleWord
    about: str
    at: Location = NOWHERE
    codes: set[Exit] = field(default_factory=set)
    evidence: list[Proof] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    green: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def breaks(self, code: Exit, why: str, green: str) -> None:
        self.codes.add(code)
        self.broken.append(why)
        self.green.append(green)

    def answer(self) -> RuleAnswer:
        return RuleAnswer(
            rule=self.rule,
            about=self.about,
            where=str(self.at) if self.at.file else "",
            holds=not self.broken,
            exit_code=int(fold_exit(self.codes)),
            evidence=tuple(self.evidence),
            broken=tuple(self.broken),
            green=tuple(dict.fromkeys(self.green)),
            notes=tuple(self.notes),
        )


def require(rule: Require, case: Case) -> RuleAnswer:
    """Every selected scenario: newest evidence that counts, of each item, passes with all claims proven, or failed as accepted."""
    said = Said("require", rule.select, rule.at)
    chosen = [name for name, tags in known_scenarios(case.sightings, case.known) if selects(rule.select, name, tags)]
    if not chosen:
        said.breaks(Exit.INCOMPLETE, f"nothing is selected by {rule.select}", "name scenarios that exist; `harness list` shows them")
    for scenario in chosen:
        _require_one(scenario, case, said)
    return said.answer()


def _require_one(scenario: str, case: Case, said: Said) -> None:
    seen = [s for s in case.sightings if s.verdict.scenario == scenario]
    applied = [s for s in seen if s.verdict.outcome != "not_applicable"]
    if not applied:
        why = "only ran where it does not apply" if seen else "was not run"
        said.breaks(Exit.INCOMPLETE, f"{scenario} {why}", f"harness run {scenario}{_levels_needed(case, applied)}")
        return
    counting = [s for s in applied if not case.short_of(s)]
    if not counting:
        reason = case.short_of(applied[-1])
        said.breaks(Exit.INCOMPLETE, f"{scenario}: {reason}", f"harness run {scenario}{_levels_needed(case, applied)}")
        return
    for sighting in newest(counting):
        _judge_one(sighting, case, said)


def _levels_needed(case: Case, seen: Sequence[Sighting]) -> str:
    rules = [case.policy.rule_of(p) for s in seen for p in s.verdict.providers] or [case.policy.rule_of("")]
    return f" --level {max((rule.level for rule in rules), key=LEVELS.index)}"


def _judge_one(sighting: Sighting, case: Case, said: Said) -> None:
    verdict = sighting.verdict
    said.evidence.append(sighting.proof())
    unproven = [claim for claim in verdict.claims if not claim.proven]
    if verdict.outcome == "pass" and not unproven:
        return
    if verdict.outcome == "pass":
        why = f"{sighting.said()}: not proven: {unproven[0].claim} ({unproven[0].unproven_because})"
        said.breaks(Exit.INCOMPLETE, why, f"find out why, then run {verdict.scenario} again")
    elif case.acceptance.accepts(verdict):
        owners = {w.owner: w.issue for f in verdict.findings if (w := case.acceptance.waiver_of(verdict, f))}
        said.notes.append(f"{sighting.said()} fails as accepted by {', '.join(f'{o} ({i})' for o, i in owners.items())}; its claims are not proven")
    else:
        for finding in case.acceptance.remaining(verdict) or verdict.findings[:1]:
            code = Exit(verdict.exit_code) if verdict.exit_code else Exit.INCOMPLETE
            mark = fingerprint(verdict, finding)
            green = finding.fix or "mend what it found"
            said.breaks(
                code, f"{sighting.said()}: {finding.id}: {finding.message} (fingerprint {mark})", f"{green}, then run {verdict.scenario} again"
            )


def provider(name: str, rule: ProviderRule, case: Case) -> RuleAnswer:
    """At least one scenario of this provider passed at the level and within the age."""
    age = f", at most {_span(rule.max_age)} old" if rule.max_age is not None else ""
    said = Said("provider", f"{name}: {rule.level}{age}", rule.at)
    passed = [s for s in case.sightings if name in s.verdict.providers and s.verdict.outcome == "pass"]
    at_level = [s for s in passed if LEVELS.index(s.level) >= LEVELS.index(rule.level)]
    good = [s for s in at_level if not case.too_old(s, rule)]
    if good:
        said.evidence.append(good[-1].proof())
    elif at_level:
        said.breaks(Exit.INCOMPLETE, case.too_old(at_level[-1], rule), f"harness run --provider {name} --level {rule.level}")
    else:
        best = max((s.level for s in passed), key=LEVELS.index, default=None)
        why = f"the best evidence of {name} is {best}" if best else f"no scenario of {name} passed"
        said.breaks(Exit.INCOMPLETE, f"{why}, {rule.level} is the least that counts", f"harness run --provider {name} --level {rule.level}")
    return said.answer()


def drift(rule: DriftRule, case: Case) -> RuleAnswer:
    """Counts each drift finding once per provider and kind of change, whatever the number of protocols that saw it."""
    said = Said("drift", f"at most {rule.at_most} findings", rule.at)
    found: dict[tuple[str, str, str], Sighting] = {}
    looked = 0
    for sighting in newest(case.sightings):
        drifted = [f for f in case.acceptance.remaining(sighting.verdict) if f.severity == "drift"]
        counted = {word for word, count in sighting.verdict.counts.items() if count}
        looked += any(word.startswith("compared_") and not word.startswith("compared_own_") for word in counted)
        for finding in drifted:
            found.setdefault((sighting.verdict.scenario, finding.id, finding.message), sighting)
    if not looked:
        said.breaks(Exit.INCOMPLETE, "no tool list was compared with an inventory", "harness run 'DISCOVER-*'")
    if len(found) > rule.at_most:
        for (_, finding_id, message), sighting in found.items():
            said.evidence.append(sighting.proof())
            green = "agree to the change in the inventory, or accept it in the waivers"
            said.breaks(Exit.DRIFT, f"{sighting.said()}: {finding_id}: {message}", green)
    said.notes.append(f"{len(found)} drift finding(s) in {looked} comparison(s)")
    return said.answer()


def coverage(rule: CoverageRule, case: Case) -> RuleAnswer:
    """Percent of the agreed tools, from evidence that is fresh enough for its provider."""
    floors = {state: getattr(rule, state) for state in TOOL_STATES if getattr(rule, state)}
    wanted = ", ".join(f"{floor}% {state}" for state, floor in floors.items())
    said = Said("coverage", f"{rule.provider or 'all providers'} at {rule.level}: {wanted}", rule.at)
    rows = _rows(rule.provider, case)
    if not rows:
        said.breaks(Exit.INCOMPLETE, "there is no agreed tool to cover", "capture the inventory first")
        return said.answer()
    for state, floor in floors.items():
        covered = [row for row in rows if _reaches(row, rule.level, state)]
        line = f"{len(covered)} of {len(rows)} tools {state} at {rule.level} or better"
        if len(covered) * 100 < floor * len(rows):
            missing = [f"{row.provider}.{row.tool}" for row in rows if row not in covered]
            shown = ", ".join(missing[:12]) + (f" and {len(missing) - 12} more" if len(missing) > 12 else "")
            said.breaks(Exit.INCOMPLETE, f"{line}, {floor}% is the floor; missing: {shown}", f"run scenarios that reach them at level {rule.level}")
        else:
            said.notes.append(line)
    return said.answer()


def _rows(name: str | None, case: Case) -> list[ToolRow]:
    """The agreed tools; one that is discovered but not agreed is drift, not coverage."""
    fresh = [tool for sighting in case.sightings for tool in sighting.verdict.tools if not case.too_old(sighting, case.policy.rule_of(tool.provider))]
    rows = tool_rows(fresh, case.agreed)
    return [row for row in rows if name in (None, row.provider) and row.tool in case.agreed.get(row.provider, ())]


def _reaches(row: ToolRow, level: Level, state: ToolState) -> bool:
    found = state_from(row, level)
    return found is not None and TOOL_STATES.index(found) >= TOOL_STATES.index(state)


def budget(rule: BudgetRule, case: Case) -> RuleAnswer:
    """The newest evidence of each item, against the clock."""
    said = Said("budget", rule.select, rule.at)
    chosen = [s for s in newest(case.sightings) if selects(rule.select, s.verdict.scenario, s.verdict.tags)]
    if not chosen:
        said.breaks(Exit.INCOMPLETE, f"no scenario that {rule.select} selects was run", f"harness run '{rule.select}'")
    for sighting in chosen:
        verdict = sighting.verdict
        said.evidence.append(sighting.proof())
        measured = [("took", verdict.seconds, rule.seconds)]
        measured += [(f"was visible at {step} after", seconds, rule.visible) for step, seconds in verdict.time_to_visible_s.items()]
        for what, seconds, limit in measured:
            if limit is not None and seconds > limit:
                green = "make it faster, or agree to a larger budget"
                said.breaks(Exit.FAILED, f"{sighting.said()} {what} {seconds:.2f} s, {limit:g} s is the budget", green)
    return said.answer()


def _span(seconds: float) -> str:
    for size, word in ((86_400.0, "d"), (3_600.0, "h"), (60.0, "m")):
        if seconds >= size:
            return f"{seconds / size:g}{word}" if seconds % size == 0 else f"{seconds / size:.1f}{word}"
    return f"{seconds:g}s"
