"""`allure-results/`: one result per plan item, with its expectations as steps and every finding attached; `allure generate` draws them.

The ids follow from run and item, so that writing the same results again adds nothing, and the history of an item is its own.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.inert import clip_text, one_line, shown, to_json, visible
from harness.report.reading import cause, not_proven, with_run_itself

FOLDER = "allure-results"
_STATUS = {"pass": "passed", "fail": "failed", "error": "broken", "not_applicable": "skipped"}
_SEVERITY = {"error": "broken", "fail": "failed", "drift": "failed", "warn": "passed", "info": "passed"}
_SPACE = uuid.UUID("a3b1f7de-2c55-5f0e-9d1b-0b7c9ce2f0a4")


class Allure:
    id = "allure"
    summary = "allure-results/: steps, attachments and labels for the Allure report"
    by_default = False

    def files(self, results: Results) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for verdict in with_run_itself(results):
            found |= {f"{FOLDER}/{name}": content for name, content in _result(verdict, results)}
        found[f"{FOLDER}/environment.properties"] = _environment(results)
        return found


def _result(verdict: Verdict, results: Results) -> Iterator[tuple[str, bytes]]:
    identity = str(uuid.uuid5(_SPACE, f"{results.run}/{verdict.item}"))
    began = _milliseconds(results.started_at)
    attached = list(_attachments(verdict, results, identity))
    yield from ((source, content) for _, source, content in attached)
    first = cause(verdict) if verdict.outcome in ("fail", "error") else None
    data: dict[str, Any] = {
        "description": visible(clip_text("\n\n".join([results.level_line, *(f"Not proven: {line}" for line in not_proven(verdict))]))),
        "uuid": identity,
        "historyId": _digest(verdict.item),
        "testCaseId": _digest(verdict.scenario),
        "fullName": one_line(f"{verdict.area}.{verdict.scenario}#{verdict.item}"),
        "name": one_line(f"{verdict.item}: {verdict.title}"),
        "status": _STATUS[verdict.outcome],
        "statusDetails": {"message": visible(clip_text(f"{first.id}: {first.message}")), "trace": _story(verdict)} if first else {},
        "stage": "finished",
        "start": began,
        "stop": began + round(verdict.seconds * 1000),
        "labels": list(_labels(verdict)),
        "parameters": [{"name": name, "value": one_line(getattr(verdict, name))} for name in ("level", "target", "protocol")],
        "steps": list(_steps(verdict, began)),
        "attachments": [{"name": name, "source": source, "type": "text/plain"} for name, source, _ in attached],
    }
    yield f"{identity}-result.json", (to_json(data) + "\n").encode("utf-8")


def _labels(verdict: Verdict) -> Iterator[dict[str, str]]:
    pairs = [("framework", "mcp-gateway-acceptance"), ("epic", verdict.area), ("feature", verdict.scenario), ("suite", verdict.area)]
    pairs += [("layer", verdict.level), *(("provider", p) for p in verdict.providers), *(("tag", t) for t in verdict.tags)]
    pairs += [("finding", name) for name in dict.fromkeys(f.id for f in verdict.findings)]
    yield from ({"name": name, "value": one_line(value)} for name, value in pairs)


def _steps(verdict: Verdict, began: int) -> Iterator[dict[str, Any]]:
    """Expectations in the order in which they were judged, then what befell the scenario as a whole."""
    by: dict[str, list[Finding]] = {}
    for finding in verdict.findings:
        by.setdefault(finding.expectation, []).append(finding)
    for name in dict.fromkeys([*verdict.evaluated, *(e for e in by if e)]):
        yield _step(f"expect {name}", by.get(name, []), began)
    for finding in by.get("", ()):
        yield _step(finding.id, [finding], began)


def _step(name: str, findings: list[Finding], began: int) -> dict[str, Any]:
    status = max((_SEVERITY[f.severity] for f in findings), key=("passed", "failed", "broken").index, default="passed")
    step: dict[str, Any] = {"name": one_line(name), "status": status, "stage": "finished", "start": began, "stop": began}
    if findings:
        step["statusDetails"] = {"message": visible(clip_text("\n".join(f"{f.id}: {f.message}" for f in findings)))}
    return step


def _attachments(verdict: Verdict, results: Results, identity: str) -> Iterator[tuple[str, str, bytes]]:
    """(name, file, content). Each begins with the level, as every report does."""
    if verdict.findings:
        text = f"{one_line(results.level_line)}\n\n{_story(verdict)}\n"
        yield "findings", f"{identity}-findings-attachment.txt", text.encode("utf-8")
    if verdict.claims:
        lines = [f"{'proven' if c.proven else 'NOT PROVEN'} at {c.level}: {c.claim} {c.unproven_because}".rstrip() for c in verdict.claims]
        text = f"{one_line(results.level_line)}\n\n{visible(clip_text(chr(10).join(lines)))}\n"
        yield "claims", f"{identity}-claims-attachment.txt", text.encode("utf-8")


def _story(verdict: Verdict) -> str:
    return visible(clip_text("\n\n".join("\n".join(_told(finding)) for finding in verdict.findings)))


def _told(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity} {finding.id}: {finding.message}"
    for word in ("where", "expectation", "step", "expected", "actual", "fix"):
        if text := shown(getattr(finding, word) or None):
            yield f"  {word}: {text}"


def _environment(results: Results) -> bytes:
    facts = {"run": results.run, "harness": results.harness_version, **results.environment}
    lines = [f"# {one_line(results.level_line)}", *(f"{_key(name)}={one_line(str(value))}" for name, value in facts.items())]
    return ("\n".join(lines) + "\n").encode("utf-8")


def _key(name: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "_" for c in name)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _milliseconds(at: str) -> int:
    try:
        return round(datetime.fromisoformat(at).timestamp() * 1000)
    except ValueError:
        return 0


REPORT = Allure()
