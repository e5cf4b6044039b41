"""The gateways' own audit logs in the evidence: checked against their signatures, and the records that verdicts rest on against them. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.audit.read import Exported, Mark, parse_export, parse_marks
from harness.audit.verify import MOST, verify
from harness.errors import LoadError
from harness.model.evidence import AuditLogRecord, AuditRecord, EvidenceRecord, PlanItemRecord
from harness.model.finding import Finding
from harness.model.secret import MARKER

_FIX = "do not rely on these audit records"


@dataclass(frozen=True, slots=True)
class Log:
    """One bench's. `findings` is empty when it is whole, signed by the gateway's key, and holds what the evidence says it recorded."""

    record: AuditLogRecord
    number: int
    records: int
    marks: tuple[Mark, ...]
    findings: tuple[Finding, ...]

    @property
    def kept(self) -> bool:
        return bool(self.record.export)

    @property
    def said(self) -> str:
        """What reports say of it in one line."""
        if not self.kept:
            return f"{self.record.target}: no signed audit log, so its audit records rest on the gateway's word alone: {self.record.why_not}"
        state = "whole and unaltered" if not self.findings else f"NOT what the gateway signed: {self.findings[0].message}"
        return f"{self.record.target}: {self.records} audit records, {len(self.marks)} checkpoints signed by {self.record.key}: {state}"


@dataclass(frozen=True, slots=True)
class AuditLogs:
    """`unvouched`: plan items with audit records that no signed log covers."""

    logs: tuple[Log, ...]
    unvouched: tuple[str, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(finding for log in self.logs for finding in log.findings)

    def lines(self) -> Iterator[str]:
        """In plain words, what vouches for the audit records and what does not."""
        yield from (log.said for log in self.logs)
        if self.unvouched:
            some = f"{self.unvouched[0]} and {len(self.unvouched) - 1} more" if len(self.unvouched) > 1 else self.unvouched[0]
            yield f"no signed audit log vouches for the audit records of {some}"

    def document(self) -> list[dict[str, Any]]:
        """For `audit.json`: each log with its checkpoints in full, as the gateway signed them."""
        return [
            {
                "target": log.record.target,
                "items": list(log.record.items),
                "offered": log.record.offered,
                "why_not": log.record.why_not,
                "key": log.record.key,
                "records": log.records,
                "checkpoints": [mark for mark in map(_object, _marks_text(log.record)) if mark],
                "whole": log.kept and not log.findings,
                "findings": [{"id": finding.id, "message": finding.message, "where": finding.where} for finding in log.findings],
            }
            for log in self.logs
        ]


def audit_logs(records: Sequence[EvidenceRecord]) -> AuditLogs:
    """Never raises: a log that cannot be read is a log with findings."""
    mine: dict[str, list[Mapping[str, Any]]] = {}
    runs: dict[str, tuple[str, str]] = {}
    for record in records:
        if isinstance(record, AuditRecord):
            mine.setdefault(record.item, []).append(record.record)
        elif isinstance(record, PlanItemRecord) and record.gateway_run:
            runs[record.item] = (record.tenant, record.gateway_run)
    found = [r for r in records if isinstance(r, AuditLogRecord)]
    logs = tuple(_checked(record, number, mine, runs) for number, record in enumerate(found, start=1))
    vouched = {item for log in logs if log.kept for item in log.record.items}
    return AuditLogs(logs, tuple(item for item in mine if item not in vouched))


def _checked(
    record: AuditLogRecord, number: int, mine: Mapping[str, Sequence[Mapping[str, Any]]], runs: Mapping[str, tuple[str, str]]
) -> Log:
    if not record.export:
        return Log(record, number, 0, (), ())
    where = f"audit log {number}"
    try:
        export = parse_export(record.export.encode(), where)
        kept = parse_marks(record.checkpoints.encode(), f"checkpoints of {where}")
    except LoadError as error:
        return Log(record, number, 0, (), (_finding("audit-log-unreadable", error.what, error.where),))
    if not kept:
        return Log(record, number, len(export.records), export.marks, (_finding("audit-log-unreadable", "no checkpoint from its beginning", where),))
    findings = [*verify(export, where, key=record.key, kept=kept, begun=kept[0])]
    if any(MARKER[0] in json.dumps(r, ensure_ascii=False) for _, r in export.records) and findings:
        findings.append(_finding("audit-record-redacted", "a secret stood in the log and was redacted from it", where))
    held = {int(r["seq"]): r for _, r in export.records}
    for item in record.items:
        findings += _same(item, mine.get(item, ()), held, runs.get(item), where)
    return Log(record, number, len(export.records), (*kept, *_new(export, kept)), tuple(findings[:MOST]))


def _same(
    item: str, mine: Sequence[Mapping[str, Any]], held: Mapping[int, Mapping[str, Any]], run: tuple[str, str] | None, where: str
) -> Iterator[Finding]:
    """The records that this item's verdict rests on are those of the log, and none of its run is missing between them."""
    for record in mine:
        # Where a scenario never got its run, the whole tenant was read; in a store that is kept, that goes back before the bench began.
        if held.get(_seq(record)) != record and (run is not None or _seq(record) >= min(held, default=0)):
            yield _finding("audit-evidence-differs", f"record {_seq(record)} of {item} is not in the log that the gateway signed", where)
    seen = {_seq(record) for record in mine}
    last = max(seen, default=0)
    for seq, record in held.items():
        if seq <= last and (record.get("tenant"), record.get("run")) == run and seq not in seen:
            yield _finding("audit-evidence-lacks", f"record {seq} of the signed log is missing from the evidence of {item}", where)


def _seq(record: Mapping[str, Any]) -> int:
    found = record.get("seq")
    return found if isinstance(found, int) else 0


def _new(export: Exported, kept: Sequence[Mark]) -> Iterator[Mark]:
    known = {(mark.seq, mark.hash) for mark in kept}
    return (mark for mark in export.marks if (mark.seq, mark.hash) not in known)


def _marks_text(record: AuditLogRecord) -> list[str]:
    """Those that were kept, and the one that closes the export."""
    return [*record.checkpoints.splitlines(), *record.export.splitlines()[-1:]]


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "signature" in found else None


def _finding(name: str, message: str, where: str) -> Finding:
    return Finding(id=name, severity="fail", message=message, where=where, fix=_FIX)
