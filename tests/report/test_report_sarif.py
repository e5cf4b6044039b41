"""SARIF: positions, rules, levels, bounds; a run that could not tell is an invocation that did not succeed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.base import choose_reports
from harness.report.sarif import MOST, REPORT


def run_of(results: Results) -> dict[str, Any]:
    data = json.loads(REPORT.files(results)["results.sarif"])
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    return dict(run)


def test_each_finding_is_a_result_at_its_line(mixed: Results) -> None:
    run = run_of(mixed)
    assert [(r["ruleId"], r["level"]) for r in run["results"]] == [("witness-blind", "error"), ("dispatched", "error")]
    place = run["results"][1]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "scenarios/memory/MEM-1.yaml"}, "region": {"startLine": 12, "startColumn": 9}}
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(rules[r["ruleIndex"]] == r["ruleId"] for r in run["results"])
    assert "hold the call until it is approved" in run["results"][1]["message"]["text"]


@pytest.mark.parametrize(("code", "told"), [(0, True), (1, True), (6, True), (2, False), (4, False), (5, False)])
def test_what_could_not_be_told_is_no_success(results: Callable[..., Results], verdict: Callable[..., Verdict], code: int, told: bool) -> None:
    run = run_of(results(verdict(), exit_code=code, exit_reasons=("the reason",)))
    assert run["invocations"][0]["executionSuccessful"] is told
    assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "the reason"


def test_fingerprints_tell_findings_apart_and_outlive_the_run(results: Callable[..., Results], mixed: Results) -> None:
    first = [r["partialFingerprints"] for r in run_of(mixed)["results"]]
    again = [r["partialFingerprints"] for r in run_of(mixed.model_copy(update={"run": "another"}))["results"]]
    assert first == again
    assert first[0] != first[1]


def test_the_gravest_are_kept_of_too_many(results: Callable[..., Results], verdict: Callable[..., Verdict], finding: Callable[..., Finding]) -> None:
    many = (*(finding(severity="warn", expectation=f"e{n}") for n in range(MOST)), finding(id="worst", severity="error"))
    run = run_of(results(verdict(findings=many)))
    assert len(run["results"]) == MOST
    assert run["results"][0]["ruleId"] == "worst"
    assert "1 more findings" in run["invocations"][0]["toolExecutionNotifications"][-1]["message"]["text"]


def test_is_written_on_request_only() -> None:
    assert "sarif" not in {report.id for report in choose_reports(())}


@given(words=st.text(max_size=60))
@settings(deadline=None, max_examples=40)
def test_whatever_is_said_it_is_json_with_usable_places(results: Callable[..., Results], verdict: Callable[..., Verdict], words: str) -> None:
    said = Finding(id="recalled", message=words, where=f"{words}:3:1", expectation=words, fix=words)
    red = verdict(item=words, outcome="fail", exit_code=1, findings=(said,))
    content = REPORT.files(results(red, exit_reasons=(words,)))["results.sarif"]
    assert b"Evidence level: fake" in content.splitlines()[0]
    for result in json.loads(content)["runs"][0]["results"]:
        uri = result["locations"][0].get("physicalLocation", {}).get("artifactLocation", {}).get("uri", "x")
        assert uri.isascii()
        assert " " not in uri
        assert not uri.startswith("/")
