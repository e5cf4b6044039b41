"""The answer for a terminal, for a CI summary, and for machines."""

from __future__ import annotations

from collections.abc import Iterator

from harness.gate.answer import GateAnswer, RuleAnswer
from harness.report.inert import one_line, to_json
from harness.report.markdown import escape

_MOST = 20


def document(answer: GateAnswer) -> str:
    """gate/v1 as JSON text."""
    return to_json(answer.model_dump(mode="python", by_alias=True), indent=1) + "\n"


def headline(answer: GateAnswer) -> str:
    word = "YES" if answer.accepted else "NO"
    broken = sum(not rule.holds for rule in answer.rules)
    return f"{word}: policy {answer.policy}, {len(answer.rules) - broken} of {len(answer.rules)} rules hold, exit code {answer.exit_code}"


def text(answer: GateAnswer, *, explain: bool = False) -> str:
    """With `explain`, what would turn each broken rule green."""
    return "\n".join(one_line(line) for line in _lines(answer, explain)) + "\n"


def _lines(answer: GateAnswer, explain: bool) -> Iterator[str]:
    yield answer.level_line
    yield headline(answer)
    for rule in answer.rules:
        yield f"{'ok  ' if rule.holds else 'NO  '} {rule.rule}: {rule.about}"
        yield from (f"       {detail}" for detail in _details(rule))
        if not rule.holds and rule.where:
            yield f"       at: {rule.where}"
        if explain:
            yield from (f"       to turn it green: {step}" for step in rule.green)


def _details(rule: RuleAnswer) -> Iterator[str]:
    yield from rule.broken
    for proof in rule.evidence[:_MOST]:
        yield f"evidence: {proof.item} {proof.outcome} at {proof.level}, run {proof.run} of {proof.date[:10]}"
    if len(rule.evidence) > _MOST:
        yield f"evidence: {len(rule.evidence) - _MOST} more, see --format json"
    yield from rule.notes


def markdown(answer: GateAnswer, *, explain: bool = False) -> str:
    """For a step summary: the answer, then a table of rules."""
    lines = [escape(answer.level_line), "", f"# {escape(headline(answer))}", "", "| Rule | Holds | Why |", "| --- | --- | --- |"]
    for rule in answer.rules:
        details = [*_details(rule), *([f"to turn it green: {step}" for step in rule.green] if explain else [])]
        lines.append(
            f"| {escape(f'{rule.rule}: {rule.about}')} | {'yes' if rule.holds else '**no**'} | {'<br>'.join(escape(d, 1_000) for d in details)} |"
        )
    return "\n".join(lines) + "\n"
