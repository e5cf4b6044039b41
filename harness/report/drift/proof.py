"""What proves a break: per tool the relation of old and new schema, and the call that was valid and is refused now."""

from __future__ import annotations

from collections.abc import Iterator

from harness.model.drift import DriftFinding, Relation
from harness.model.drift_result import DriftResult
from harness.report.drift.reading import call
from harness.report.inert import to_json


def relations(result: DriftResult) -> Iterator[tuple[str, str, Relation]]:
    """(tool, "input" or "output", relation) for each schema that was compared."""
    for tool, found in result.report.relations.items() if result.report else ():
        if found.input is not None:
            yield tool, "input", found.input
        if found.output is not None:
            yield tool, "output", found.output


def proof_lines(result: DriftResult, finding: DriftFinding) -> Iterator[str]:
    """The relation behind a finding on a schema, and its witness, as lines for people."""
    if result.report is None or not finding.pointer.startswith(("/inputSchema", "/outputSchema")):
        return
    found = result.report.relations.get(finding.tool)
    relation = None if found is None else found.output if finding.direction == "output" else found.input
    if relation is not None:
        yield from relation_lines(finding.tool, finding.direction, relation)


def relation_lines(tool: str, direction: str, relation: Relation) -> Iterator[str]:
    if relation.strict == "unproven" or relation.documented == "unproven":
        yield f"not decided: {relation.reason or 'no reason was given'}"
    if direction == "input" and relation.witness is not None:
        who = "a documented call" if relation.documented_witness else "a call with undeclared properties"
        yield f"was valid and is refused now ({who}): {call(tool, relation.witness)}"
    if direction == "output" and relation.reverse_witness is not None:
        yield f"may come back now and was ruled out before: {to_json(relation.reverse_witness)}"
