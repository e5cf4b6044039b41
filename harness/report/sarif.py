"""`results.sarif`: SARIF 2.1.0 for code scanning; each finding stands at the line of the scenario that expected otherwise."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from harness.errors import Exit
from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.inert import clip_text, one_line, to_json, visible

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
MOST = 5_000
"""Results that code scanning takes of one run; the gravest come first."""

_LEVEL = {"error": "error", "fail": "error", "drift": "warning", "warn": "warning", "info": "note"}
_RANK = ("error", "fail", "drift", "warn", "info")
_PLACE = re.compile(r"(?P<file>.+?):(?P<line>[1-9]\d{0,8})(?::(?P<column>[1-9]\d{0,8}))?\Z", re.DOTALL)


class Sarif:
    id = "sarif"
    summary = "results.sarif: SARIF 2.1.0 for code scanning"
    by_default = False

    def files(self, results: Results) -> Mapping[str, bytes]:
        level = to_json({"level_line": one_line(results.level_line)})
        text = to_json(document(results), indent=1)
        return {"results.sarif": ('{"properties": ' + level + "," + text[1:] + "\n").encode("utf-8")}


def document(results: Results) -> dict[str, Any]:
    """The log as JSON data, without its first member, which says the level."""
    pairs = sorted(((v, f) for v in results.verdicts for f in v.findings), key=lambda pair: _RANK.index(pair[1].severity))
    kept = pairs[:MOST]
    ids = sorted({one_line(finding.id) for _, finding in kept})
    driver = {"name": "mcp-gateway-acceptance", "semanticVersion": results.harness_version or "0", "rules": [_rule(name) for name in ids]}
    run = {
        "tool": {"driver": driver},
        "automationDetails": {"id": "harness/run/"},
        "invocations": [_invocation(results, len(pairs) - len(kept))],
        "columnKind": "unicodeCodePoints",
        "results": [_result(verdict, finding, ids) for verdict, finding in kept],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(name: str) -> dict[str, Any]:
    words = name.replace("-", " ")
    return {"id": name, "shortDescription": {"text": words}, "help": {"text": f"See docs/findings.md, {name}."}}


def _invocation(results: Results, left_out: int) -> dict[str, Any]:
    """A scenario that could not be judged is a check that was not made: no result, so no all-clear either."""
    notes = [{"level": "error", "message": {"text": visible(clip_text(reason))}} for reason in results.exit_reasons]
    if left_out:
        notes.append({"level": "warning", "message": {"text": f"{left_out} more findings are in results.json only"}})
    told = results.exit_code in (Exit.OK, Exit.FAILED, Exit.DRIFT)
    return {"executionSuccessful": told, "exitCode": results.exit_code, "toolExecutionNotifications": notes}


def _result(verdict: Verdict, finding: Finding, ids: list[str]) -> dict[str, Any]:
    said = "\n".join(_message(verdict, finding))
    name = one_line(finding.id)
    identity = "\0".join((finding.id, verdict.item, finding.step, finding.expectation))
    return {
        "ruleId": name,
        "ruleIndex": ids.index(name),
        "level": _LEVEL[finding.severity],
        "kind": "fail",
        "message": {"text": visible(clip_text(said))},
        "locations": [_location(verdict, finding)],
        "partialFingerprints": {"finding/v1": hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()},
        "properties": {"item": one_line(verdict.item), "evidenceLevel": verdict.level, "providers": [one_line(p) for p in verdict.providers]},
    }


def _message(verdict: Verdict, finding: Finding) -> Iterator[str]:
    yield f"{verdict.item}: {finding.message}"
    if finding.fix:
        yield f"What to do: {finding.fix}"


def _location(verdict: Verdict, finding: Finding) -> dict[str, Any]:
    found = _PLACE.match(finding.where)
    logical = [{"name": one_line(finding.expectation or finding.step or verdict.scenario), "fullyQualifiedName": one_line(verdict.item)}]
    if found is None or "\n" in found["file"]:
        return {"logicalLocations": logical}
    region = {"startLine": int(found["line"])} | ({"startColumn": int(found["column"])} if found["column"] else {})
    uri = quote(found["file"].replace("\\", "/").lstrip("/"), safe="/._-~", errors="backslashreplace")
    return {"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}, "logicalLocations": logical}


REPORT = Sarif()
