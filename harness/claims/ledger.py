"""The claim ledger: every claim with its evidence, over one or many runs, and what is missing, in plain words. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from pydantic import Field

from harness.claims.runs import StoredRun
from harness.model.location import Frozen
from harness.model.scenario import LEVELS, Level
from harness.model.verdict import TOOL_STATES, ClaimVerdict, Outcome, ToolCoverage, ToolState, Verdict

FAKE_GAP = "rests on our own stand-in: it says nothing about the provider"


class Entry(Frozen):
    """One claim in one plan item of one run. `level` is that of its weakest leg; `gaps` is what still keeps it from being more."""

    claim: str
    scenario: str
    item: str
    providers: tuple[str, ...]
    level: Level
    date: str
    run: str
    outcome: Outcome
    proven: bool
    witnesses: int
    by: tuple[str, ...]
    gaps: tuple[str, ...]


class Standing(Frozen):
    """One claim over all runs: proven at `level` when the newest entries at that level, of every target and protocol, all prove it."""

    claim: str
    scenario: str
    providers: tuple[str, ...]
    proven: bool
    level: Level | None
    date: str
    run: str
    gaps: tuple[str, ...]


class ToolRow(Frozen):
    """One tool: level → how far it was exercised at that level. No levels: not even discovered. `own`: a tool of a bridge of ours."""

    provider: str
    tool: str
    levels: Mapping[Level, ToolState]
    own: bool = False


class Ledger(Frozen):
    """`claims/v1`. `not_proven`: what scenarios themselves say they do not prove, by scenario."""

    schema_id: str = Field(default="claims/v1", alias="schema")
    runs: tuple[str, ...]
    standings: tuple[Standing, ...]
    entries: tuple[Entry, ...]
    not_proven: Mapping[str, tuple[str, ...]]
    tools: tuple[ToolRow, ...]

    model_config = Frozen.model_config | {"populate_by_name": True}


def ledger(runs: Sequence[StoredRun], agreed: Mapping[str, Sequence[str]] | None = None, own: Collection[str] = ()) -> Ledger:
    """`agreed`: provider → the tools of its inventory, so that tools nobody touched are listed too. `own`: those whose inventory is our own word."""
    entries = tuple(entry for run in sorted(runs, key=_when) for entry in entries_of(run))
    said: dict[str, dict[str, None]] = {}
    for run in runs:
        for verdict in run.results.verdicts:
            said.setdefault(verdict.scenario, {}).update(dict.fromkeys(verdict.not_proven))
    return Ledger(
        runs=tuple(run.results.run for run in runs),
        standings=tuple(standings(entries)),
        entries=entries,
        not_proven={scenario: tuple(sentences) for scenario, sentences in sorted(said.items()) if sentences},
        tools=tool_rows(coverage_of(runs), agreed or {}, own),
    )


def _when(run: StoredRun) -> tuple[str, str]:
    return run.results.started_at, run.results.run


def entries_of(run: StoredRun) -> Iterator[Entry]:
    for verdict in run.results.verdicts:
        for claim in verdict.claims:
            gaps = tuple(gaps_of(run, verdict, claim))
            yield Entry(
                claim=claim.claim,
                scenario=verdict.scenario,
                item=verdict.item,
                providers=verdict.providers,
                level=weakest((claim.level, verdict.level)),
                date=run.results.started_at,
                run=run.results.run,
                outcome=verdict.outcome,
                proven=claim.proven and not run.broken,
                witnesses=verdict.witnesses,
                by=claim.by,
                gaps=gaps,
            )


def gaps_of(run: StoredRun, verdict: Verdict, claim: ClaimVerdict) -> Iterator[str]:
    if run.broken:
        yield "the gateway of this run was broken on purpose"
    if not claim.proven:
        yield claim.unproven_because or "not proven"
    elif verdict.outcome != "pass":
        yield f"the scenario as a whole is {verdict.outcome.replace('_', ' ')}"
    if claim.level == "fake":
        yield FAKE_GAP
    elif claim.level != verdict.level:
        yield f"run at level {verdict.level}, but a leg that it rests on is {claim.level}"
    if claim.level == "replayed":
        yield "rests on a recording: the provider may have changed since"
    if verdict.witnesses < 3:
        yield "the target has no audit: two witnesses, not three"
    doubted = sorted({t.tool for t in verdict.tools if t.state == "called"})
    if doubted and claim.proven:
        yield f"called, but not with agent, audit and witness agreeing on every call: {', '.join(doubted)}"


def weakest(levels: Iterable[Level]) -> Level:
    return min(levels, key=LEVELS.index)


def standings(entries: Sequence[Entry]) -> Iterator[Standing]:
    """Newest evidence wins at its level; the strongest level at which everything newest holds is the one that is shown."""
    grouped: dict[tuple[str, str, tuple[str, ...]], list[Entry]] = {}
    for entry in entries:
        if entry.outcome != "not_applicable":
            grouped.setdefault((entry.scenario, entry.claim, entry.providers), []).append(entry)
    for (scenario, claim, providers), found in sorted(grouped.items()):
        newest = {entry.item: entry for entry in found}  # entries come oldest first
        best, gaps = None, []
        for level in reversed(LEVELS):
            here = [entry for entry in newest.values() if entry.level == level]
            if here and all(entry.proven for entry in here):
                best = min(here, key=lambda entry: entry.date)
                gaps += [gap for entry in here for gap in entry.gaps]
                break
            gaps += [f"{entry.level}, {entry.item}: {gap}" for entry in here for gap in entry.gaps]
        yield Standing(
            claim=claim,
            scenario=scenario,
            providers=providers,
            proven=best is not None,
            level=best.level if best else None,
            date=best.date if best else max(entry.date for entry in found),
            run=best.run if best else found[-1].run,
            gaps=tuple(dict.fromkeys(gaps)),
        )


def tool_rows(coverage: Iterable[ToolCoverage], agreed: Mapping[str, Sequence[str]], own: Collection[str] = ()) -> tuple[ToolRow, ...]:
    """Each tool at its best state per level, the tools that nobody touched included."""
    found: dict[tuple[str, str], dict[Level, ToolState]] = {(p, t): {} for p, tools in agreed.items() for t in tools}
    for seen in coverage:
        levels = found.setdefault((seen.provider, seen.tool), {})
        levels[seen.level] = max(levels.get(seen.level, "listed"), seen.state, key=TOOL_STATES.index)
    return tuple(ToolRow(provider=p, tool=t, levels=levels, own=p in own) for (p, t), levels in sorted(found.items()))


def coverage_of(runs: Iterable[StoredRun]) -> Iterator[ToolCoverage]:
    """Runs whose gateway was broken on purpose count for nothing."""
    for run in runs:
        for verdict in run.results.verdicts if not run.broken else ():
            yield from verdict.tools


def state_from(row: ToolRow, level: Level) -> ToolState | None:
    """The tool's best state at `level` or stronger; None: not even listed."""
    states = [state for name, state in row.levels.items() if LEVELS.index(name) >= LEVELS.index(level)]
    return max(states, key=TOOL_STATES.index, default=None)
