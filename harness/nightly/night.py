"""One night: look at the providers, run what there is at the highest level there is, say whose trouble each failure is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from harness.clock import Clock
from harness.drift.compare import compare
from harness.engine.evidence_log import read_evidence
from harness.engine.judge import judge
from harness.engine.plan import every_scenario
from harness.engine.run import run_plan
from harness.engine.vocabulary import manifests_for
from harness.errors import Exit, HarnessError, Incomplete, fold_exit
from harness.expect.view import of_item
from harness.inventory.side import capture_side, inventory_side
from harness.inventory.store import load_inventories
from harness.live.endpoint import is_hosted
from harness.live.options import LiveOptions
from harness.model.cause import Cause
from harness.model.evidence import EvidenceRecord
from harness.model.inventory import Inventory
from harness.model.manifest import Manifest
from harness.model.plan import Plan, PlanItem
from harness.model.scenario import LEVELS, Level, Scenario
from harness.model.verdict import Results, Verdict
from harness.nightly.case import Case
from harness.nightly.choose import Choice, choose
from harness.nightly.doctor import Checkup, checkup
from harness.nightly.freshness import Judged, judge_freshness, read_cassettes, recorded
from harness.nightly.probe import Probe, probe
from harness.nightly.quarantine import Quarantined, excusing, problems_of
from harness.nightly.triage import triage
from harness.risk.oracle import Oracle
from harness.scenario.files import cassettes_folder, data_root, inventories_folder
from harness.scenario.select import select, sources

BREAKING = ("breaking", "risk")


@dataclass(frozen=True, slots=True)
class Wish:
    """What a night is asked for. `up_to`: the highest level that may be used. `folder`: of this run.

    `paths`: scenarios in place of the shipped ones.
    """

    select: tuple[str, ...]
    up_to: Level
    live: LiveOptions
    folder: Path
    run_id: str
    jobs: int = 1
    target: str = "reference"
    protocol: str | None = None
    defects: tuple[str, ...] = ()
    quarantine: tuple[Quarantined, ...] = ()
    paths: tuple[Path, ...] = ()
    exact: bool = False
    """At the level `up_to` and no other: what is missing there is red."""
    providers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """What was run at one level. `trouble`: what kept it from being run to its end."""

    level: Level
    results: Results | None
    records: Sequence[EvidenceRecord] = ()
    trouble: HarnessError | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    verdict: Verdict
    level: Level
    cause: Cause
    excused_by: tuple[Quarantined, ...] = ()


@dataclass(frozen=True, slots=True)
class Night:
    """Everything a report of a night may say."""

    run_id: str
    started_at: str
    ended_at: str
    checkups: tuple[Checkup, ...]
    drift: Mapping[str, tuple[str, ...]]
    choices: tuple[Choice, ...]
    parts: tuple[Part, ...]
    failures: tuple[Failure, ...]
    freshness: tuple[Judged, ...]
    problems: tuple[str, ...]
    exit_code: int
    reasons: tuple[str, ...] = field(default=())

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        return tuple(v for part in self.parts if part.results for v in part.results.verdicts)


async def night(wish: Wish, clock: Clock) -> Night:
    """Raises HarnessError for what is wrong before anything is looked at: a scenario file, a selection, the quarantine."""
    started = clock.now()
    every = every_scenario(paths=wish.paths or sources(wish.select, data_root() / "scenarios"))
    scenarios = chosen(wish, every)
    known = manifests_for(s.file for s in scenarios)
    inventories = load_inventories(inventories_folder())
    wanted = wanted_providers(scenarios, wish)
    probes = await look(wanted, known, wish)
    looked = [name for name in wanted if name in known and is_hosted(known[name])] if wish.up_to == "live" else []
    checkups = tuple(checkup(known[name], wish.live, recorded, probes.get(name)) for name in looked)
    drift = drifted(probes, inventories, rehearsed=wish.live.rehearsed)
    oracle = Oracle(inventories)
    choices = tuple(
        choose(s, up_to=wish.up_to, live=wish.live, oracle=oracle, target=wish.target, protocol=wish.protocol, exact=wish.exact) for s in scenarios
    )
    parts = await run_parts(choices, wish)
    failures = tuple(judge_failures(parts, choices, known, probes, wish, started.date()))
    causes = {f.verdict.item: f.cause.cause for f in failures}
    verdicts = [v for part in parts if part.results for v in part.results.verdicts]
    fresh = judge_freshness(read_cassettes(cassettes_folder(), started, inventories), verdicts, causes, drift, spoken(probes, wish))
    problems = problems_of(wish.quarantine, {s.id: s for s in every}, started.date())
    codes, reasons = outcome(wish, checkups, choices, parts, failures, fresh, problems, drift)
    return Night(
        run_id=wish.run_id,
        started_at=started.isoformat(),
        ended_at=clock.now().isoformat(),
        checkups=checkups,
        drift=drift,
        choices=choices,
        parts=parts,
        failures=failures,
        freshness=tuple(fresh),
        problems=tuple(problems),
        exit_code=int(fold_exit(codes)),
        reasons=tuple(reasons),
    )


def chosen(wish: Wish, every: tuple[Scenario, ...]) -> tuple[Scenario, ...]:
    found = select(every, wish.select or [str(p.absolute()) for p in wish.paths])
    kept = tuple(s for s in found.scenarios if not wish.providers or set(wish.providers) & {c.provider or n for n, c in s.connections.items()})
    if not kept or found.idle:
        idle = ", ".join(found.idle) or " ".join(wish.select) or "SELECT"
        raise Incomplete(f"nothing is selected by {idle}", where="SELECT", fix="`harness list` shows what there is; nothing selected is never a pass")
    return kept


def wanted_providers(scenarios: Sequence[Scenario], wish: Wish) -> tuple[str, ...]:
    """In a rehearsal only what has a stand-in is wanted live."""
    named = dict.fromkeys(c.provider or name for s in scenarios for name, c in s.connections.items())
    return tuple(sorted(p for p in named if not wish.live.rehearsed or p in wish.live.rehearse))


async def look(wanted: Sequence[str], known: Mapping[str, Manifest], wish: Wish) -> dict[str, Probe]:
    """One request for the tools of each provider that can be had live; all at once, since they know nothing of one another."""
    if wish.up_to != "live":
        return {}
    asked: list[Awaitable[Probe]] = [probe(known[name], wish.live) for name in wanted if name in known]
    return {found.provider: found for found in await asyncio.gather(*asked)}


def drifted(probes: Mapping[str, Probe], inventories: Mapping[str, Inventory], *, rehearsed: bool) -> dict[str, tuple[str, ...]]:
    """Provider → how today's own list differs from the reviewed inventory; a stand-in is compared as far as one can be."""
    found: dict[str, tuple[str, ...]] = {}
    for name, seen in probes.items():
        inventory = inventories.get(name)
        if seen.capture is None or not seen.capture.complete or inventory is None:
            continue
        report = compare(inventory_side(inventory), capture_side(seen.capture), against="fake" if rehearsed else "live")
        lines = tuple(f"{f.id}: {f.message}" for f in report.findings if f.severity in BREAKING)
        if lines:
            found[name] = lines
    return found


def spoken(probes: Mapping[str, Probe], wish: Wish) -> dict[str, str]:
    """Provider → the newest version that it speaks today; a stand-in says nothing of it."""
    return {} if wish.live.rehearsed else {name: seen.capture.protocol_version for name, seen in probes.items() if seen.capture is not None}


async def run_parts(choices: Sequence[Choice], wish: Wish) -> tuple[Part, ...]:
    parts = []
    for level in reversed(LEVELS):
        items = tuple(item for choice in choices if choice.level == level for item in choice.items)
        if items:
            parts.append(await run_part(level, items, wish))
    return tuple(parts)


async def run_part(level: Level, items: tuple[PlanItem, ...], wish: Wish) -> Part:
    """What breaks a level off is told with it; the other levels are run all the same."""
    evidence = wish.folder / level / "evidence.jsonl"
    trouble: HarnessError | None = None
    try:
        await run_plan(
            Plan(items=items),
            jobs=wish.jobs,
            evidence=evidence,
            run_id=wish.run_id,
            defects=wish.defects,
            live=wish.live if level == "live" else None,
        )
    except HarnessError as error:
        trouble = error
    try:
        records = read_evidence(evidence)
        return Part(level, judge(records), records, trouble)
    except HarnessError as error:
        return Part(level, None, (), trouble or error)


def judge_failures(
    parts: Sequence[Part], choices: Sequence[Choice], known: Mapping[str, Manifest], probes: Mapping[str, Probe], wish: Wish, today: date
) -> list[Failure]:
    scenarios = {choice.scenario.id: choice.scenario for choice in choices}
    found = []
    for part in parts:
        for verdict in part.results.verdicts if part.results else ():
            if verdict.outcome not in ("fail", "error"):
                continue
            case = Case(
                verdict=verdict,
                scenario=scenarios[verdict.scenario],
                records=of_item(part.records, verdict.item),
                manifests=known,
                probes=probes if part.level == "live" else {},
                broken_off=part.trouble.what if part.trouble else "",
            )
            cause = triage(case)
            excused = excusing(verdict, cause.cause, wish.quarantine, today)
            found.append(Failure(verdict, part.level, cause, excused))
    return found


Outcome = tuple[set[Exit], list[str]]
Reason = Callable[[Exit, str], None]


def outcome(
    wish: Wish,
    checkups: Sequence[Checkup],
    choices: Sequence[Choice],
    parts: Sequence[Part],
    failures: Sequence[Failure],
    fresh: Sequence[Judged],
    problems: Sequence[str],
    drift: Mapping[str, Sequence[str]],
) -> Outcome:
    """Every reason why the night is not accepted, with its exit code. What is quarantined is no reason."""
    codes: set[Exit] = set()
    reasons: list[str] = []

    def say(code: Exit, why: str) -> None:
        codes.add(code)
        reasons.append(why)

    if wish.up_to == "live":
        preflight(checkups, say)
    for provider, lines in drift.items():
        say(
            Exit.DRIFT, f"{provider}: its tools differ from the reviewed ones: {lines[0]}" + (f" and {len(lines) - 1} more" if len(lines) > 1 else "")
        )
    for choice in choices:
        if choice.level is None and not all("applies" in why for _, why in choice.passed_over):
            say(Exit.INCOMPLETE, f"{choice.scenario.id} cannot be run at any level: {choice.passed_over[-1][1]}")
    for part in parts:
        if part.trouble is not None:
            say(part.trouble.exit_code, f"level {part.level} broke off: {part.trouble.what.splitlines()[0]}")
    for failure in failures:
        if not failure.excused_by:
            say(Exit(failure.verdict.exit_code), f"{failure.verdict.item}: {failure.cause.cause}")
    for judged in fresh:
        if judged.state != "fresh":
            say(Exit.INCOMPLETE, f"{judged.cassette.file} is {judged.state}: {judged.because[0]}")
    for problem in problems:
        say(Exit.INCOMPLETE, problem)
    if not any(part.results and part.results.verdicts for part in parts):
        say(Exit.INCOMPLETE, "nothing was run, so nothing is proven")
    return codes, reasons


def preflight(checkups: Sequence[Checkup], say: Reason) -> None:
    for found in checkups:
        lack = found.lacks["live"]
        if lack.startswith("credentials"):
            say(Exit.CREDENTIALS, f"{found.provider} cannot be run live: {lack.partition(': ')[2]}")
        elif lack:
            say(Exit.INCOMPLETE, f"{found.provider} cannot be run live: {lack}")
        elif found.probe is not None and found.probe.state == "refused":
            say(Exit.CREDENTIALS, f"{found.provider} refuses the credential: {found.probe.detail.splitlines()[0]}")
        elif found.down:
            say(Exit.UNREACHABLE, f"{found.provider} is {found.down.splitlines()[0]}")
