"""SARIF 2.1.0 for code scanning.

Accepted findings are left out: code scanning disregards SARIF suppressions, so an accepted finding that is uploaded becomes an alert
all the same, and one that is left out closes its alert. A check that could not be made is an invocation that did not succeed.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from harness.errors import Exit
from harness.model.drift import DriftSeverity
from harness.model.drift_result import DriftResult, Judged, RuleInfo
from harness.report.drift.proof import proof_lines
from harness.report.drift.reading import json_bytes
from harness.report.inert import clip_text, visible

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
DOCS = "docs/drift.md"
FINGERPRINT = "driftFinding/v1"
MOST = 5_000
"""Results that code scanning takes of one run."""
_LEVEL: dict[DriftSeverity, str] = {"breaking": "error", "risk": "warning", "text": "note", "info": "note"}


class Sarif:
    id = "sarif"
    summary = "SARIF 2.1.0 for code scanning, without accepted findings"

    def render(self, result: DriftResult) -> bytes:
        return json_bytes(log(result))


def log(result: DriftResult) -> dict[str, Any]:
    """The SARIF log as JSON data."""
    index = {rule.id: position for position, rule in enumerate(result.rules)}
    shown = sorted(result.open, key=lambda judged: judged.state != "failing")
    driver = {
        "name": "harness drift",
        "semanticVersion": result.harness_version or "0",
        "rules": [_rule(rule) for rule in result.rules],
    }
    run: dict[str, Any] = {
        "tool": {"driver": driver},
        "automationDetails": {"id": f"drift/{quote(result.subject or 'server', safe='')}/"},
        "invocations": [_invocation(result, len(shown) - MOST)],
        "columnKind": "unicodeCodePoints",
        "results": [_result(judged, result, index) for judged in shown[:MOST]],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(rule: RuleInfo) -> dict[str, Any]:
    anchor = f"{DOCS}#{rule.id}"
    return {
        "id": rule.id,
        "name": "".join(word.capitalize() for word in rule.id.split("-")),
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": f"{rule.title[:1].upper()}{rule.title[1:]}. What to do: {rule.fix}."},
        "help": {"text": f"What to do: {rule.fix}. See {anchor}.", "markdown": f"What to do: {rule.fix}. See `{anchor}`."},
        "defaultConfiguration": {"level": _LEVEL[rule.severity]},
        "properties": {"tags": ["mcp", "drift", rule.direction], "drift-severity": rule.severity, "anchor": anchor},
    }


def _invocation(result: DriftResult, left_out: int) -> dict[str, Any]:
    notes = [{"level": "error", "message": {"text": visible(clip_text(reason))}} for reason in result.reasons]
    if left_out > 0:
        notes.append({"level": "warning", "message": {"text": f"{left_out} more results are in the JSON document only"}})
    told = result.exit_code in (Exit.OK, Exit.DRIFT)
    return {"executionSuccessful": told, "exitCode": result.exit_code, "toolExecutionNotifications": notes}


def _result(judged: Judged, result: DriftResult, index: dict[str, int]) -> dict[str, Any]:
    finding = judged.finding
    proof = "".join(f"\n{line}" for line in proof_lines(result, finding))
    found: dict[str, Any] = {
        "ruleId": finding.id,
        "level": _LEVEL[finding.severity],
        "kind": "fail",
        "message": {"text": visible(clip_text(f"{finding.message}.{proof}\nWhat to do: {finding.fix}.", 4_000, 3_000))},
        "partialFingerprints": {FINGERPRINT: judged.fingerprint},
        "locations": [_location(judged)],
        "properties": {"severity": finding.severity, "state": judged.state, "tool": visible(finding.tool), "pointer": visible(finding.pointer)},
    }
    if finding.id in index:
        found["ruleIndex"] = index[finding.id]
    return found


def _location(judged: Judged) -> dict[str, Any]:
    """Always a file: code scanning drops results without one. Without an agreed file it is the place where one would be."""
    at, finding = judged.location, judged.finding
    region = {"startLine": at.line, "startColumn": at.column} if at else {"startLine": 1}
    logical = [{"fullyQualifiedName": visible(f"{finding.tool}{finding.pointer}"), "kind": "object"}] if finding.tool else []
    artifact = {"uri": quote(at.file.replace("\\", "/")) if at else "tools.json"}
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}, **({"logicalLocations": logical} if logical else {})}


FORMAT = Sarif()
