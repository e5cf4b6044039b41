"""`ctrf.json`: the Common Test Report Format, for the tools that read that."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from harness.model.verdict import Results, Verdict
from harness.report.inert import clip_text, one_line, shown, to_json, visible
from harness.report.reading import answer, cause, not_proven, with_run_itself

SPEC = "0.0.0"
_SHA = re.compile("[0-9a-f]{40,64}")
_STATUS = {"pass": "passed", "fail": "failed", "error": "failed", "not_applicable": "skipped"}
_SPACE = uuid.UUID("5d3cf0a8-7b5e-5d0b-8d0a-3c2f1f2a9b11")


class Ctrf:
    id = "ctrf"
    summary = "ctrf.json: Common Test Report Format"
    by_default = False

    def files(self, results: Results) -> Mapping[str, bytes]:
        text = to_json(document(results), indent=1)
        return {"ctrf.json": ("{" + text[1:].lstrip().replace('"extra": {\n  "level_line"', '"extra": {"level_line"', 1) + "\n").encode("utf-8")}


def document(results: Results) -> dict[str, Any]:
    """The report as JSON data. `error` counts as failed there, which knows no other word for red; rawStatus keeps ours."""
    every = with_run_itself(results)
    statuses = [_STATUS[verdict.outcome] for verdict in every]
    start, stop = _milliseconds(results.started_at), _milliseconds(results.ended_at)
    counts = {status: statuses.count(status) for status in ("passed", "failed", "skipped")}
    return {
        "extra": {
            "level_line": one_line(results.level_line),
            "answer": answer(results),
            "exit_code": results.exit_code,
            "exit_reasons": [visible(clip_text(reason)) for reason in results.exit_reasons],
        },
        "reportFormat": "CTRF",
        "specVersion": SPEC,
        "reportId": str(uuid.uuid5(_SPACE, results.run)),
        "timestamp": one_line(results.ended_at),
        "generatedBy": "mcp-gateway-acceptance",
        "results": {
            "tool": {"name": "mcp-gateway-acceptance", "version": one_line(results.harness_version)},
            "summary": {"tests": len(statuses), **counts, "pending": 0, "other": 0, "start": start, "stop": max(start, stop)},
            "tests": [_test(verdict) for verdict in every],
            "environment": {
                **({"commit": shown(commit)} if _SHA.fullmatch(commit := str(results.environment.get("commit", ""))) else {}),
                "extra": {"run": one_line(results.run), **{one_line(k): shown(v) for k, v in results.environment.items()}},
            },
        },
    }


def _test(verdict: Verdict) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": one_line(verdict.item),
        "status": _STATUS[verdict.outcome],
        "rawStatus": verdict.outcome,
        "duration": round(verdict.seconds * 1000),
        "suite": [one_line(verdict.area)],
        "tags": [one_line(tag) for tag in verdict.tags],
        "retries": sum(verdict.attempts.values()) - len(verdict.attempts),
        "extra": {
            "title": one_line(verdict.title),
            "level": verdict.level,
            "target": one_line(verdict.target),
            "protocol": one_line(verdict.protocol),
            "providers": [one_line(provider) for provider in verdict.providers],
            "findings": [one_line(name) for name in dict.fromkeys(f.id for f in verdict.findings)],
            "proven": [visible(claim.claim) for claim in verdict.claims if claim.proven],
            "not_proven": [visible(clip_text(sentence)) for sentence in not_proven(verdict)],
        },
    }
    first = cause(verdict) if verdict.outcome in ("fail", "error") else None
    if first is not None:
        test["message"] = visible(clip_text(f"{first.id}: {first.message}"))
        story = "\n".join(f"{f.severity} {f.id} {f.where}: {f.message}" + (f"\n  fix: {f.fix}" if f.fix else "") for f in verdict.findings)
        test["trace"] = visible(clip_text(story))
    return test


def _milliseconds(at: str) -> int:
    try:
        return round(datetime.fromisoformat(at).timestamp() * 1000)
    except ValueError:
        return 0


REPORT = Ctrf()
