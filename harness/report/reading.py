"""What every report says first, in the same words: the answer, the counts, and what stands in the way."""

from __future__ import annotations

from collections import Counter

from harness.errors import Exit
from harness.model.finding import Finding
from harness.model.scenario import LEVELS
from harness.model.verdict import Outcome, Results, Verdict

OUTCOMES: tuple[Outcome, ...] = ("error", "fail", "pass", "not_applicable")
"""The order in which reports list scenarios: what stops a release comes first."""

MEANING: dict[Exit, str] = {
    Exit.OK: "accepted",
    Exit.FAILED: "a scenario or contract failed",
    Exit.USAGE: "usage or configuration",
    Exit.CREDENTIALS: "credentials or consent missing",
    Exit.UNREACHABLE: "target or provider unreachable",
    Exit.INCOMPLETE: "incomplete evidence",
    Exit.DRIFT: "drift, and nothing else",
}


def answer(results: Results) -> str:
    """Such as "Not accepted: exit code 1, a scenario or contract failed"."""
    code = Exit(results.exit_code)
    if code is Exit.OK:
        return "Accepted: exit code 0"
    return f"Not accepted: exit code {code.value}, {MEANING[code]}"


def outcome_counts(results: Results) -> dict[Outcome, int]:
    """Every outcome with its number of scenarios, zeros too; counted from the verdicts, so that all formats agree."""
    found = Counter(verdict.outcome for verdict in results.verdicts)
    return {outcome: found[outcome] for outcome in OUTCOMES}


def counts_line(results: Results) -> str:
    """Such as "3 scenarios: 1 error, 0 fail, 2 pass, 0 not applicable"."""
    parts = ", ".join(f"{count} {outcome.replace('_', ' ')}" for outcome, count in outcome_counts(results).items())
    return f"{len(results.verdicts)} scenarios: {parts}"


def comparison_line(results: Results) -> str:
    """What was compared with the inventory, each apart, such as "Compared: names 82, shape 64, hash 0"; empty when nothing was."""
    if not results.comparison:
        return ""
    others = {word: count for word, count in results.comparison.items() if not word.startswith("own_")}
    own = {word.removeprefix("own_"): count for word, count in results.comparison.items() if word not in others}
    line = "Compared: " + ", ".join(f"{word} {count}" for word, count in others.items())
    apart = "; a bridge of ours with our own word for it, which says nothing about its provider: "
    return line + (apart + ", ".join(f"{word} {count}" for word, count in own.items()) if own else "")


def in_order(results: Results) -> tuple[Verdict, ...]:
    """Errors, failures, passes, not applicable; within one outcome as planned."""
    return tuple(sorted(results.verdicts, key=lambda verdict: OUTCOMES.index(verdict.outcome)))


def standing_in_the_way(results: Results) -> tuple[Verdict, ...]:
    return tuple(verdict for verdict in in_order(results) if verdict.outcome in ("error", "fail"))


RUN_ITSELF = "run"
"""Item, scenario and area of the entry that stands for the run as a whole."""


def with_run_itself(results: Results) -> tuple[Verdict, ...]:
    """The verdicts; and where none of them is red although the run is not accepted, an error for the run as a whole, with the reasons.

    For formats whose readers look at entries only: a run that never began, or broke off, must not look like one in which nothing failed.
    """
    if results.exit_code == Exit.OK or any(verdict.outcome in ("error", "fail") for verdict in results.verdicts):
        return results.verdicts
    reasons = results.exit_reasons or (answer(results),)
    findings = tuple(Finding(id="run-not-accepted", severity="error", message=reason) for reason in reasons)
    whole = Verdict(
        item=RUN_ITSELF,
        scenario=RUN_ITSELF,
        title="The run as a whole",
        area=RUN_ITSELF,
        level=min((verdict.level for verdict in results.verdicts), key=LEVELS.index, default="fake"),
        target="",
        protocol="",
        providers=(),
        outcome="error",
        exit_code=results.exit_code,
        findings=findings,
    )
    return (*results.verdicts, whole)


def cause(verdict: Verdict) -> Finding | None:
    """The finding a reader should see first: the gravest, and of those the first.

    When nobody could tell, what befell the scenario as a whole comes before the expectations that it left unevaluated.
    """
    ranks = {"error": 0, "fail": 1, "drift": 2, "warn": 3, "info": 4}
    return min(verdict.findings, key=lambda f: (ranks[f.severity], f.severity == "error" and bool(f.expectation)), default=None)


def not_proven(verdict: Verdict) -> tuple[str, ...]:
    """What the scenario says it does not prove, then its claims that were not proven here, with the reason."""
    unproven = tuple(f"{c.claim} ({c.unproven_because or 'not proven'})" for c in verdict.claims if not c.proven)
    return verdict.not_proven + tuple(sentence for sentence in unproven if sentence not in verdict.not_proven)
