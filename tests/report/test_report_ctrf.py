"""CTRF: the members that its schema requires, our counts, and our own words where it has none."""

from __future__ import annotations

import json
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.base import choose_reports
from harness.report.ctrf import REPORT


def test_has_what_the_format_requires(mixed: Results) -> None:
    data = json.loads(REPORT.files(mixed)["ctrf.json"])
    assert set(data) == {"extra", "reportFormat", "specVersion", "reportId", "timestamp", "generatedBy", "results"}
    assert data["reportFormat"] == "CTRF"
    found = data["results"]
    assert found["tool"]["name"]
    assert found["summary"] == {
        "tests": 4,
        "passed": 1,
        "failed": 2,
        "skipped": 1,
        "pending": 0,
        "other": 0,
        "start": 1796032800000,
        "stop": 1796032809000,
    }
    for test in found["tests"]:
        assert {"name", "status", "duration"} <= set(test)
        assert test["status"] in ("passed", "failed", "skipped", "pending", "other")


def test_red_says_why_and_unknown_stays_its_own_word(mixed: Results) -> None:
    tests = {t["name"].partition("[")[0]: t for t in json.loads(REPORT.files(mixed)["ctrf.json"])["results"]["tests"]}
    assert tests["MEM-2"]["message"].startswith("dispatched: ")
    assert "fix: hold the call" in tests["MEM-2"]["trace"]
    assert tests["MEM-3"]["rawStatus"] == "error"
    assert tests["MEM-3"]["extra"]["not_proven"] == ["the 403 is audited (not evaluated)"]
    assert "message" not in tests["MEM-1"]


def test_retries_are_attempts_beyond_the_first(results: Callable[..., Results], verdict: Callable[..., Verdict]) -> None:
    data = json.loads(REPORT.files(results(verdict(attempts={"recall": 3, "list": 2})))["ctrf.json"])
    assert data["results"]["tests"][0]["retries"] == 3


def test_is_written_on_request_only() -> None:
    assert "ctrf" not in {report.id for report in choose_reports(())}


@given(words=st.text(max_size=60))
@settings(deadline=None, max_examples=40)
def test_whatever_is_said_it_is_json(results: Callable[..., Results], verdict: Callable[..., Verdict], words: str) -> None:
    said = Finding(id="recalled", message=words, where=words, fix=words)
    red = verdict(item=words, title=words, outcome="fail", exit_code=1, findings=(said,), tags=(words,))
    content = REPORT.files(results(red, level_line=f"Evidence level: fake {words}", environment={words: words}))["ctrf.json"]
    assert json.loads(content)["extra"]["level_line"].startswith("Evidence level: fake")
    assert b"Evidence level" in content.splitlines()[0]
    assert b"\x1b" not in content
