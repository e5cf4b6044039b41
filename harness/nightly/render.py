"""A night as text, as JSON (nightly/v1), as a Markdown summary, and, when it is red, as an issue that can be opened as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.history.summary import Spread
from harness.model.cause import CLASSES, MEANING
from harness.model.finding import Finding
from harness.model.verdict import Verdict
from harness.nightly.case import BAD
from harness.nightly.doctor import document as doctor_document
from harness.nightly.flaky import Flaky
from harness.nightly.night import Failure, Night
from harness.report.inert import one_line, to_json
from harness.report.markdown import escape

ISSUE_LIMIT = 60_000
"""Bytes; an issue's body takes 65,536 characters."""
SIGNS = 6


def level_line(night: Night) -> str:
    """The first line of each report: at which levels it speaks."""
    lines = [part.results.level_line for part in night.parts if part.results]
    rehearsed = any(c.rehearsed for c in night.checkups) and any(v.rehearsed for v in night.verdicts)
    told = "; ".join(line.removeprefix("Evidence level: ") for line in lines) or "none. Nothing was run, so nothing is proven."
    return "Evidence level: " + told + (" (live path rehearsed: all of it fake)" if rehearsed else "")


def document(night: Night, flaky: Sequence[Flaky] = (), spreads: Sequence[Spread] = ()) -> str:
    """nightly/v1."""
    return to_json(
        {
            "schema": "nightly/v1",
            "run": night.run_id,
            "started_at": night.started_at,
            "ended_at": night.ended_at,
            "level_line": level_line(night),
            "exit_code": night.exit_code,
            "reasons": list(night.reasons),
            "preflight": doctor_document(night.checkups)["providers"],
            "drift": {provider: list(lines) for provider, lines in night.drift.items()},
            "levels": [
                {"scenario": c.scenario.id, "level": c.level, "passed_over": [{"level": level, "why": why} for level, why in c.passed_over]}
                for c in night.choices
            ],
            "outcomes": [{"item": v.item, "level": v.level, "rehearsed": v.rehearsed, "outcome": v.outcome} for v in night.verdicts],
            "failures": [_failure(f) for f in night.failures],
            "freshness": [
                {
                    "file": j.cassette.file,
                    "provider": j.cassette.provider,
                    "scenario": j.cassette.scenario,
                    "state": j.state,
                    "because": list(j.because),
                }
                for j in night.freshness
            ],
            "visibility": [{"item": v.item, **seen.model_dump()} for v in night.verdicts for seen in v.visibility],
            "queued": [{"item": v.item, **one.model_dump()} for v in night.verdicts for one in v.queued],
            "time_to_visible": [_spread(s) for s in spreads],
            "leftovers": [_finding(f) for v in night.verdicts for f in v.findings if f.id == "left-behind"],
            "flaky": [f.told() for f in flaky],
            "problems": list(night.problems),
        },
        indent=1,
    )


def _failure(failure: Failure) -> dict[str, Any]:
    return {
        "item": failure.verdict.item,
        "level": failure.level,
        "outcome": failure.verdict.outcome,
        "class": failure.cause.cause,
        "evidence": [sign.model_dump() for sign in failure.cause.because],
        "outweighed": [sign.model_dump() for sign in failure.cause.signs if sign.speaks_for != failure.cause.cause],
        "findings": [_finding(f) for f in failure.verdict.findings if f.severity in BAD],
        "quarantined_by": [{"owner": q.owner, "issue": q.issue, "expires": q.expires.isoformat()} for q in failure.excused_by],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return finding.model_dump(include={"id", "message", "where", "step", "expectation", "expected", "actual", "fix"})


def _spread(found: Spread) -> dict[str, Any]:
    return {name: getattr(found, name) for name in Spread.__dataclass_fields__}


def text(night: Night) -> str:
    """For a terminal and a cron mail."""
    lines = [level_line(night), ""]
    for found in night.checkups:
        state = "MISSING" if found.lacks["live"] else "DOWN" if found.down else "ready"
        lines.append(f"preflight {found.provider}: live {state}{' - ' + (found.lacks['live'] or found.down) if state != 'ready' else ''}")
    lines += [f"drift {provider}: {line}" for provider, all_lines in night.drift.items() for line in all_lines]
    for failure in night.failures:
        word = "quarantined" if failure.excused_by else failure.verdict.outcome
        lines.append(f"{word} {failure.verdict.item} ({failure.level}): {failure.cause.cause}")
        lines += [f"    {sign.what} [{sign.where}]" for sign in failure.cause.because[:SIGNS]]
    lines += [f"cassette {j.cassette.file}: {j.state} - {j.because[0]}" for j in night.freshness if j.state != "fresh"]
    lines += [f"left at the provider: {f.message}" for v in night.verdicts for f in v.findings if f.id == "left-behind"]
    counts = {word: sum(v.outcome == word for v in night.verdicts) for word in ("pass", "fail", "error", "not_applicable")}
    lines += ["", ", ".join(f"{n} {word}" for word, n in counts.items())]
    lines.append("Accepted: exit code 0" if night.exit_code == 0 else f"Not accepted: exit code {night.exit_code}")
    lines += [f"  {reason}" for reason in night.reasons]
    return "\n".join(one_line(line) if line else "" for line in lines) + "\n"


def markdown(night: Night, flaky: Sequence[Flaky] = (), spreads: Sequence[Spread] = ()) -> str:
    """The summary: the answer, preflight, failures by class, recordings, times to visible, what may be flaky."""
    lines = [f"# Night {night.run_id}: {'accepted' if night.exit_code == 0 else f'not accepted (exit code {night.exit_code})'}", ""]
    lines += [escape(level_line(night), 2000), ""]
    lines += [f"- {escape(reason)}" for reason in night.reasons] + ([""] if night.reasons else [])
    lines += list(table("Preflight", ("Provider", "Live", "Highest level here", "Missing"), _preflight(night)))
    lines += list(table("Failures", ("Item", "Level", "Class", "Evidence"), [_row(f) for f in night.failures]))
    lines += list(table("Levels", ("Scenario", "Ran at", "Not higher because"), _levels(night)))
    states = [(j.cassette.file, j.state, "; ".join(j.because)) for j in night.freshness]
    lines += list(table("Recordings", ("File", "State", "Because"), states))
    lines += list(table("Time to visible (all nights)", ("Provider", "Tool", "Kind", "Level", "Seen", "Never", "Seconds"), _visible(spreads)))
    waiting = [(v.item, q.tool, q.said) for v in night.verdicts for q in v.queued]
    lines += list(table("Accepted, and only queued", ("Item", "Tool", "Provider's word"), waiting))
    left = [(v.item, f.message) for v in night.verdicts for f in v.findings if f.id == "left-behind"]
    lines += list(table("Left at providers", ("Item", "What"), left))
    lines += list(table("Flaky, by the history", ("Scenario", "Step", "Failed"), [(f.scenario, f.step, f"{f.failed} of {f.runs}") for f in flaky]))
    return "\n".join(lines).rstrip() + "\n"


def _preflight(night: Night) -> Sequence[tuple[str, ...]]:
    rows = []
    for c in night.checkups:
        state = "**missing**" if c.lacks["live"] else "**down**" if c.down else "ready (rehearsed: fake)" if c.rehearsed else "ready"
        rows.append((c.provider, state, c.best or "none", c.lacks["live"] or c.down))
    return rows


def _row(failure: Failure) -> tuple[str, ...]:
    evidence = "; ".join(f"{sign.what} [{sign.where}]" for sign in failure.cause.because[:3]) or "nothing that tells"
    quarantined = " (quarantined)" if failure.excused_by else ""
    return failure.verdict.item, failure.level, failure.cause.cause + quarantined, evidence


def _levels(night: Night) -> Sequence[tuple[str, ...]]:
    return [
        (c.scenario.id, c.level or "not at all", "; ".join(f"{level}: {why}" for level, why in c.passed_over)) for c in night.choices if c.passed_over
    ]


def _visible(spreads: Sequence[Spread]) -> Sequence[tuple[str, ...]]:
    rows = []
    for s in spreads:
        times = "" if s.middle is None else f"{s.least:g} / {s.middle:g} / {s.most:g}"
        rows.append((s.provider, s.tool, s.kind, s.level, str(s.seen), str(s.never), times))
    return rows


def table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Nothing for no rows. Cells are others' words; only the bold of our own states is let through."""
    if not rows:
        return
    yield from (f"## {title}", "", f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}")
    for row in rows:
        yield "| " + " | ".join(cell if cell in ("**missing**", "**down**") else escape(cell) for cell in row) + " |"
    yield ""


def issue(night: Night) -> str:
    """One issue for the whole night: a title, then by class what failed, with the evidence and how to see it again."""
    red = [f for f in night.failures if not f.excused_by]
    counted = ", ".join(f"{n} {cause.replace('_', ' ')}" for cause in CLASSES if (n := sum(f.cause.cause == cause for f in red)))
    lines = [f"# Night {night.run_id} is red: {counted or 'see below'}", "", escape(level_line(night), 2000), ""]
    lines += ["Why it is not accepted:", "", *(f"- {escape(reason)}" for reason in night.reasons), ""]
    for cause in CLASSES:
        mine = [f for f in red if f.cause.cause == cause]
        if mine:
            lines += [f"## {cause.replace('_', ' ').capitalize()}", "", f"That is: {MEANING[cause]}.", ""]
            for failure in mine:
                lines += list(_told(failure, night))
    body = "\n".join(lines).rstrip() + "\n"
    raw = body.encode()
    if len(raw) <= ISSUE_LIMIT:
        return body
    return raw[:ISSUE_LIMIT].decode(errors="ignore").rpartition("\n")[0] + "\n\nThe rest is in nightly.json.\n"


def _told(failure: Failure, night: Night) -> Iterator[str]:
    verdict: Verdict = failure.verdict
    yield from (f"### {escape(verdict.item)}", "", escape(verdict.title), "")
    yield from ("Evidence for the class:", "")
    yield from (f"- {escape(sign.what)} ({escape(sign.where)})" for sign in failure.cause.because[:SIGNS])
    if not failure.cause.because:
        yield "- nothing in the evidence tells whose trouble it is"
    yield from ("", "Findings:", "")
    for finding in [f for f in verdict.findings if f.severity in BAD][:SIGNS]:
        place = finding.where + (f" {finding.expectation}" if finding.expectation else "")
        yield f"- {finding.id}: {escape(finding.message)} ({escape(place)})"
        if finding.expected is not None or finding.actual is not None:
            yield f"  - expected {escape(to_json(finding.expected))}, actual {escape(to_json(finding.actual))}"
        if finding.fix:
            yield f"  - {escape(finding.fix)}"
    yield from ("", f"The evidence is in `{failure.level}/evidence.jsonl` of the run's artifact; `harness judge` recomputes the verdict from it.", "")


def files(night: Night, flaky: Sequence[Flaky] = (), spreads: Sequence[Spread] = ()) -> Mapping[str, bytes]:
    """What is written into the run's folder; the issue only when the night is red."""
    found = {
        "nightly.json": document(night, flaky, spreads).encode("utf-8", "backslashreplace") + b"\n",
        "nightly.md": markdown(night, flaky, spreads).encode("utf-8", "backslashreplace"),
    }
    if night.exit_code != 0:
        found["issue.md"] = issue(night).encode("utf-8", "backslashreplace")
    return found
