"""Allure results: one per item, with steps, labels and attachments; what others say stays text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.allure import FOLDER, REPORT
from harness.report.base import choose_reports


def parsed(results: Results) -> dict[str, dict[str, Any]]:
    """Item → its result."""
    files = REPORT.files(results)
    found = [json.loads(content) for name, content in files.items() if name.endswith("-result.json")]
    return {result["name"].partition(": ")[0]: result for result in found}


def test_each_outcome_has_its_status(mixed: Results) -> None:
    assert {name.partition("[")[0]: r["status"] for name, r in parsed(mixed).items()} == {
        "MEM-1": "passed",
        "MEM-2": "failed",
        "MEM-3": "broken",
        "LIVE-1": "skipped",
    }


def test_every_attachment_is_a_file_and_begins_with_the_level(mixed: Results) -> None:
    files = REPORT.files(mixed)
    named = [a["source"] for result in parsed(mixed).values() for a in result["attachments"]]
    assert named
    for name in named:
        assert files[f"{FOLDER}/{name}"].startswith(b"Evidence level: fake")
    assert {f"{FOLDER}/{name}" for name in named} == {name for name in files if "attachment" in name}


def test_a_finding_is_step_label_and_detail(mixed: Results) -> None:
    red = next(r for name, r in parsed(mixed).items() if name.startswith("MEM-2"))
    assert {"name": "finding", "value": "dispatched"} in red["labels"]
    assert {"name": "layer", "value": "fake"} in red["labels"]
    assert [s["status"] for s in red["steps"] if s["name"] == "expect not-dispatched"] == ["failed"]
    assert red["statusDetails"]["message"].startswith("dispatched: 1 request reached the provider")
    assert "hold the call until it is approved" in red["statusDetails"]["trace"]


def test_history_follows_the_item_and_not_the_run(results: Callable[..., Results], verdict: Callable[..., Verdict]) -> None:
    (one,), (other,) = (parsed(results(verdict(), run=run)).values() for run in ("r1", "r2"))
    assert one["historyId"] == other["historyId"]
    assert one["uuid"] != other["uuid"]
    two = parsed(results(verdict(), verdict(item="MEM-1[live,reference,2026-07-28]")))
    assert len({r["historyId"] for r in two.values()}) == 2


def test_is_written_on_request_only() -> None:
    assert "allure" not in {report.id for report in choose_reports(())}
    assert choose_reports(("allure",)) == (REPORT,)


@given(words=st.text(max_size=60))
@settings(deadline=None, max_examples=40)
def test_whatever_is_said_the_files_are_json_and_stay_in_their_folder(
    results: Callable[..., Results], verdict: Callable[..., Verdict], words: str
) -> None:
    said = Finding(id="recalled", message=words, where=words, expectation=words, expected=words, actual={"a": words}, fix=words)
    red = verdict(item=words, title=words, scenario=words, outcome="fail", exit_code=1, findings=(said,), tags=(words,))
    files = REPORT.files(results(red, environment={words: words}))
    for name, content in files.items():
        assert name.startswith(f"{FOLDER}/")
        assert ".." not in name
        assert b"\x1b" not in content
        if name.endswith(".json"):
            json.loads(content)
