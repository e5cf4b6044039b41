"""`results.json`: the results themselves, `results/v1`; what machines read and other reports point to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.inert import clip, clip_text, to_json


class ResultsJson:
    id = "results_json"
    summary = "results.json: verdicts, findings, claims and reasons for machines (results/v1)"
    by_default = True

    def files(self, results: Results) -> Mapping[str, bytes]:
        return {"results.json": document(results).encode("utf-8")}


def document(results: Results) -> str:
    """The text of results.json, ending in a newline. Its first line holds the evidence level, as in every report."""
    data: dict[str, Any] = results.model_dump(mode="python", by_alias=True, exclude={"verdicts"})
    verdicts = [_verdict(verdict) for verdict in results.verdicts]
    text = to_json({"level_line": data.pop("level_line"), **data, "verdicts": verdicts}, indent=1)
    return "{" + text[1:].lstrip() + "\n"


def _verdict(verdict: Verdict) -> dict[str, Any]:
    data = verdict.model_dump(mode="python", exclude={"findings"})
    return {**data, "findings": [_finding(finding) for finding in verdict.findings]}


def _finding(finding: Finding) -> dict[str, Any]:
    """Values come from providers, of any size and shape, so they are clipped rather than dumped."""
    return {
        **finding.model_dump(mode="python", exclude={"message", "fix", "expected", "actual"}),
        "message": clip_text(finding.message),
        "fix": clip_text(finding.fix),
        "expected": clip(finding.expected),
        "actual": clip(finding.actual),
    }


REPORT = ResultsJson()
