"""The gate: policy, runs and waivers in, one answer out. Pure: reading is the caller's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from harness.claims.runs import StoredRun
from harness.errors import Exit, HarnessError, fold_exit
from harness.gate import rules
from harness.gate.answer import GateAnswer, RuleAnswer
from harness.gate.policy import OTHERS, Policy
from harness.gate.sightings import Acceptance, Sighting, counted, covers, in_scope, matches, newest, sightings_of
from harness.model.evidence import RunRecord
from harness.model.scenario import LEVELS
from harness.model.waiver import Waiver


def decide(
    policy: Policy,
    runs: Sequence[StoredRun],
    *,
    now: datetime,
    waivers: Sequence[Waiver] = (),
    unreadable: Mapping[str, HarnessError] | None = None,
    known: Mapping[str, Sequence[str]] | None = None,
    agreed: Mapping[str, Sequence[str]] | None = None,
) -> GateAnswer:
    """`unreadable`: run → why it could not be read; `known`: scenario → tags and `agreed`: provider → tools, of this checkout."""
    acceptance = Acceptance(waivers, f"{now:%Y-%m-%d}")
    case = rules.Case(policy, now, sightings_of(runs), acceptance, known or {}, agreed or {})
    answers = [
        *(_unreadable(name, error) for name, error in (unreadable or {}).items()),
        *(_evidence(run) for run in runs),
        *(rules.require(rule, case) for rule in policy.require),
        *(rules.provider(name, rule, case) for name, rule in policy.providers.items() if name != OTHERS),
        *([rules.drift(policy.drift, case)] if policy.drift else []),
        *(rules.coverage(rule, case) for rule in policy.coverage),
        *(rules.budget(rule, case) for rule in policy.budget),
        *([_waivers(waivers, case, policy.waivers)] if policy.waivers else []),
    ]
    if not runs and not unreadable:
        answers.insert(
            0, RuleAnswer(rule="evidence", about="no run", holds=False, exit_code=int(Exit.INCOMPLETE), broken=("there is no run to judge",))
        )
    code = fold_exit({Exit(answer.exit_code) for answer in answers})
    return GateAnswer(
        accepted=code is Exit.OK,
        exit_code=int(code),
        policy=policy.policy,
        policy_file=policy.file,
        at=now.isoformat(),
        level_line=_level_line(case),
        runs=tuple(run.results.run for run in runs),
        rules=tuple(answers),
    )


def _level_line(case: rules.Case) -> str:
    """At which level the evidence of this answer speaks: its weakest first."""
    levels = sorted({s.level for s in newest(case.sightings)}, key=LEVELS.index)
    return f"Evidence level: {', '.join(levels)}" if levels else "Evidence level: none"


def _unreadable(name: str, error: HarnessError) -> RuleAnswer:
    return RuleAnswer(
        rule="evidence",
        about=name,
        holds=False,
        exit_code=int(error.exit_code),
        broken=(f"{error.where}: {error.what}" if error.where else error.what,),
        green=(error.fix,) if error.fix else (),
    )


def _evidence(run: StoredRun) -> RuleAnswer:
    """Whole runs only: what is missing from one may be what failed."""
    said = rules.Said("evidence", f"{run.name} (run {run.results.run})")
    if run.broken:
        said.breaks(Exit.INCOMPLETE, "its gateway was broken on purpose", "leave it out; judge a run without --defect")
    for lack in _lacks(run):
        said.breaks(Exit.INCOMPLETE, lack, "run it again to its end")
    said.notes.append(f"{len(run.results.verdicts)} verdicts, recomputed from the evidence")
    return said.answer()


def _lacks(run: StoredRun) -> Iterator[str]:
    frames = [record for record in run.records if isinstance(record, RunRecord)]
    starts, ends = [r for r in frames if r.phase == "start"], [r for r in frames if r.phase == "end"]
    if not starts:
        yield "the evidence lacks its beginning"
    if len(ends) < max(1, len(starts)):
        yield "the run did not come to its end"
    yield from (f"the run broke off: {end.trouble.what}" for end in ends if end.trouble is not None)
    seen = {verdict.item for verdict in run.results.verdicts}
    for item in (item for start in starts for item in start.options.get("items", ())):
        if item not in seen:
            yield f"{item} was planned and left no evidence"


def _waivers(waivers: Sequence[Waiver], case: rules.Case, name: str) -> RuleAnswer:
    """Expired, stale and unused entries break the gate: an exception that nobody needs any more hides the next failure."""
    said = rules.Said("waivers", name)
    looked = newest(case.sightings)
    today = f"{case.now:%Y-%m-%d}"
    for waiver in waivers:
        place = f"{waiver.at}: {waiver.finding} at {waiver.where.scenario or waiver.where.tool or waiver.where.provider or 'any'}"
        if today > waiver.expires:
            said.breaks(Exit.FAILED, f"{place}: the waiver of {waiver.owner} expired on {waiver.expires}", "end the exception, or accept it anew")
        elif waiver.where.scenario:
            _expected_failure(waiver, place, looked, said)
    said.notes.append(f"{len(waivers)} accepted exception(s); those without a scenario are judged by `harness drift`")
    return said.answer()


def _expected_failure(waiver: Waiver, place: str, looked: Sequence[Sighting], said: rules.Said) -> None:
    scope = [s for s in looked if in_scope(waiver, s.verdict)]
    pairs = [(s, finding) for s in scope for finding in counted(s.verdict)]
    if not scope:
        said.notes.append(f"{place}: its scenario was not run, so nobody can tell whether it is still needed")
    elif used := [s for s, finding in pairs if matches(waiver, s.verdict, finding)]:
        said.evidence += [s.proof() for s in used]
    elif any(covers(waiver, s.verdict, finding) for s, finding in pairs):
        said.breaks(
            Exit.FAILED, f"{place}: stale: it was for another failure than the one found now", "review the failure; accept it anew or mend it"
        )
    elif all(s.verdict.outcome == "error" for s in scope):
        said.notes.append(f"{place}: its scenario could not be judged, so nobody can tell whether it is still needed")
    else:
        word = "now passes" if all(s.verdict.outcome == "pass" for s in scope) else "no longer finds it"
        said.breaks(Exit.FAILED, f"{place}: unused: {waiver.where.scenario} {word}", f"remove the waiver of {waiver.owner}")
