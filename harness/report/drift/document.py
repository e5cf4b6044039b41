"""The JSON document `drift/v1` as a model: what is written, and what docs/drift.schema.json promises."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from harness.model.drift import AspectCount, DriftSeverity, Relation, RelationWord
from harness.model.drift_result import DriftResult, Judged, State, VerdictWord
from harness.model.location import Frozen
from harness.model.risk import Risk
from harness.report.drift.proof import relations
from harness.report.inert import clip


class Place(Frozen):
    file: str
    line: int
    column: int


class FindingEntry(Frozen):
    """`expected` and `actual` above 8,192 bytes are {"prefix", "bytes", "sha256"}. `fingerprint` is the same for the same change."""

    id: str
    severity: DriftSeverity
    state: State
    tool: str
    pointer: str
    message: str
    fix: str
    expected: Any = None
    actual: Any = None
    fingerprint: str
    accepted_by: str = ""
    location: Place | None = None


class Call(Frozen):
    """A `tools/call` request, ready to send."""

    method: Literal["tools/call"] = "tools/call"
    params: dict[str, Any]


class SchemaEntry(Frozen):
    """`relation` is strict JSON Schema semantics, `documented` for callers that keep to declared properties.

    `breaking` says whether a documented caller (for output: a reader) is hurt. `witness` proves it: for input arguments that were
    valid and are refused now, for output a result that was ruled out and may come now.
    """

    relation: RelationWord
    documented: RelationWord
    breaking: Literal["yes", "no", "unproven"]
    witness: Any = None
    call: Call | None = None
    ignored_arguments: tuple[str, ...] = ()
    format_only: bool = False
    method: str = ""
    reason: str = ""


class ToolEntry(Frozen):
    """A tool whose schema differs, or that has findings. A schema that is absent here did not change."""

    name: str
    findings: int
    input: SchemaEntry | None = None
    output: SchemaEntry | None = None


class RiskEntry(Frozen):
    """One tool whose risk class is disputed. None where a party says nothing of it; `oracle_reason` names the review, hint or verb."""

    tool: str
    gateway: Risk | None
    oracle: Risk
    inventory: Risk | None
    hints: Risk | None
    oracle_basis: str
    oracle_reason: str
    hint_reason: str


class Document(Frozen):
    """One comparison. `failing` counts findings at or above the threshold that are not accepted; `reasons` are all causes of `exit_code`."""

    schema_: Literal["drift/v1"] = Field(default="drift/v1", alias="schema")
    harness_version: str
    subject: str
    old: str
    new: str
    against: str
    verdict: VerdictWord
    exit_code: int
    reasons: tuple[str, ...]
    fail_on: tuple[str, ...]
    failing: int
    accepted: int
    unproven: int
    complete: bool
    reason: str
    headers: tuple[str, ...]
    compared: dict[str, AspectCount]
    tools: tuple[ToolEntry, ...]
    risks: tuple[RiskEntry, ...]
    risks_agreed: int
    findings: tuple[FindingEntry, ...]


def document(result: DriftResult) -> dict[str, Any]:
    """The document as JSON data."""
    report = result.report
    found = Document(
        schema="drift/v1",
        harness_version=result.harness_version,
        subject=result.subject,
        old=result.old,
        new=result.new,
        against=report.against if report else "",
        verdict=result.verdict,
        exit_code=result.exit_code,
        reasons=result.reasons,
        fail_on=result.fail_on,
        failing=len(result.failing),
        accepted=len(result.accepted),
        unproven=result.unproven,
        complete=report.complete if report else False,
        reason=report.reason if report else "",
        headers=result.headers,
        compared={name: value for name, value in report if isinstance(value, AspectCount)} if report else {},
        tools=tuple(_tools(result)),
        risks=tuple(RiskEntry(**row.model_dump()) for row in result.risks),
        risks_agreed=result.risks_agreed,
        findings=tuple(_finding(judged) for judged in result.judged),
    )
    return found.model_dump(mode="python", by_alias=True)


def _finding(judged: Judged) -> FindingEntry:
    finding, at = judged.finding, judged.location
    return FindingEntry(
        id=finding.id,
        severity=finding.severity,
        state=judged.state,
        tool=finding.tool,
        pointer=finding.pointer,
        message=finding.message,
        fix=finding.fix,
        expected=clip(finding.expected),
        actual=clip(finding.actual),
        fingerprint=judged.fingerprint,
        accepted_by=judged.accepted_by,
        location=Place(file=at.file, line=at.line, column=at.column) if at else None,
    )


def _tools(result: DriftResult) -> list[ToolEntry]:
    schemas: dict[str, dict[str, SchemaEntry]] = {}
    for tool, direction, relation in relations(result):
        schemas.setdefault(tool, {})[direction] = _schema(tool, direction, relation)
    counts: dict[str, int] = {}
    for judged in result.judged:
        if judged.finding.tool:
            counts[judged.finding.tool] = counts.get(judged.finding.tool, 0) + 1
    return [
        ToolEntry(name=name, findings=counts.get(name, 0), input=schemas.get(name, {}).get("input"), output=schemas.get(name, {}).get("output"))
        for name in dict.fromkeys([*counts, *schemas])
    ]


def _schema(tool: str, direction: str, relation: Relation) -> SchemaEntry:
    reads = direction == "output"
    witness = relation.reverse_witness if reads else relation.witness
    return SchemaEntry(
        relation=relation.strict,
        documented=relation.documented,
        breaking=relation.breaks_readers if reads else relation.breaks,
        witness=witness,
        call=None if reads or witness is None else Call(params={"name": tool, "arguments": witness}),
        ignored_arguments=relation.ignored_arguments,
        format_only=relation.format_only,
        method=relation.method,
        reason=relation.reason,
    )


def json_schema() -> dict[str, Any]:
    """What docs/drift.schema.json holds: the JSON Schema (2020-12) of the document."""
    schema = Document.model_json_schema(by_alias=True, mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "drift/v1", **schema}
