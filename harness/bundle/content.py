"""What a bundle holds beside the evidence, all of it computed from the evidence, so that all of it can be computed again. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from harness.bundle.audit_logs import AuditLogs, audit_logs
from harness.claims.merge import MERGED
from harness.engine.judge import judge
from harness.model.evidence import AuditRecord, EvidenceRecord, NoteRecord, ProcessRecord, RunRecord
from harness.model.verdict import Results
from harness.report.inert import to_json
from harness.report.results_json import document as results_document

EVIDENCE, ENVELOPE = "evidence.jsonl", "statement.dsse.json"
DERIVED = ("audit.json", "drift.json", "environment.json", "results.json")
MEMBERS = (EVIDENCE, *DERIVED, ENVELOPE)
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "https://in-toto.io/attestation/test-result/v0.1"


def derived(records: Sequence[EvidenceRecord]) -> tuple[Results, AuditLogs, dict[str, bytes]]:
    """The results, the audit logs as checked, and every member that follows from the evidence. Raises LoadError when there is nothing to judge."""
    results, logs = judge(records), audit_logs(records)
    members = {
        "results.json": results_document(results),
        "drift.json": _json({"schema": "bundle-drift/v1", "findings": _drift(results)}),
        "audit.json": _json({"schema": "bundle-audit/v2", "logs": logs.document(), "items": _items(records, logs)}),
        "environment.json": _json({"schema": "bundle-environment/v1", "runs": _environment(records), "merged_from": _merged_from(records)}),
    }
    return results, logs, {name: text.encode("utf-8") for name, text in members.items()}


def statement(results: Results, members: Mapping[str, bytes]) -> bytes:
    """in-toto Statement v1 with a test-result predicate; its subjects are the members by hash."""
    passed = [v.item for v in results.verdicts if v.outcome == "pass"]
    failed = [v.item for v in results.verdicts if v.outcome in ("fail", "error")]
    warned = [v.item for v in results.verdicts if v.outcome == "not_applicable"]
    return to_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": sha256(members[name])}} for name in sorted(members)],
            "predicateType": PREDICATE_TYPE,
            "predicate": {
                "result": "PASSED" if results.exit_code == 0 else "FAILED",
                "configuration": [{"name": EVIDENCE, "digest": {"sha256": sha256(members[EVIDENCE])}}],
                "passedTests": passed,
                "warnedTests": warned,
                "failedTests": failed,
            },
        }
    ).encode("utf-8")


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(data: Any) -> str:
    return to_json(data, indent=1) + "\n"


def _drift(results: Results) -> list[dict[str, Any]]:
    return [
        {"item": v.item, "providers": v.providers, "id": f.id, "message": f.message}
        for v in results.verdicts
        for f in v.findings
        if f.severity == "drift"
    ]


def _items(records: Sequence[EvidenceRecord], logs: AuditLogs) -> list[dict[str, Any]]:
    """Per plan item: how many audit records, the range of their numbers, the last link of their chain, and whether a signed log vouches for them."""
    items: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        if isinstance(record, AuditRecord):
            items.setdefault(record.item, []).append(record.record)
    return [
        {
            "item": item,
            "records": len(found),
            "first": found[0].get("seq"),
            "last": found[-1].get("seq"),
            "hash": found[-1].get("hash"),
            "vouched": item not in logs.unvouched,
        }
        for item, found in items.items()
    ]


def _merged_from(records: Sequence[EvidenceRecord]) -> list[Any]:
    """Each run that was merged into this one, with its own environment, as the merge noted it."""
    return [entry for r in records if isinstance(r, NoteRecord) and r.text == MERGED and isinstance(r.data, list) for entry in r.data]


def _environment(records: Sequence[EvidenceRecord]) -> list[dict[str, Any]]:
    processes = [{"name": r.name, "event": r.event} for r in records if isinstance(r, ProcessRecord)]
    return [
        {
            "run": r.run,
            "at": r.at,
            "harness": r.harness_version,
            "environment": dict(r.environment),
            "options": dict(r.options),
            "processes": processes,
        }
        for r in records
        if isinstance(r, RunRecord) and r.phase == "start"
    ]
