"""Public case e08: 5,000 findings of sixty four-byte characters each, with a pipe and a newline."""

from __future__ import annotations

from collections.abc import Callable
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.html import document as html
from harness.report.junit import document as junit
from harness.report.markdown import LIMIT
from harness.report.markdown import document as markdown
from harness.report.results_json import document as results_json

TEXT = "🧭" * 60 + "a | table\nrow"


@pytest.fixture(scope="module")
def flood(results: Callable[..., Results], verdict: Callable[..., Verdict], finding: Callable[..., Finding]) -> Results:
    many = tuple(finding(message=TEXT, actual=TEXT, expectation=f"e{n}") for n in range(5_000))
    red = verdict(item="FLOOD[fake,reference,2026-07-28]", outcome="fail", exit_code=1, findings=many)
    also = verdict(item="ALSO[fake,reference,2026-07-28]", outcome="error", exit_code=5, findings=(finding(severity="error"),))
    return results(red, also, verdict(), exit_code=1)


def check_tables(text: str) -> int:
    """Every row of every table has as many cells as its heading; answers how many rows there are."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    rows = cells = width = 0
    for token in tokens:
        if token.type == "thead_open":
            width = 0
        elif token.type == "th_open":
            width += 1
        elif token.type == "tr_open":
            cells = 0
        elif token.type == "td_open":
            cells += 1
        elif token.type == "tr_close" and cells:
            assert cells == width
            rows += 1
    return rows


def test_summary_fits_in_bytes_and_says_what_is_missing(flood: Results) -> None:
    content = markdown(flood)
    assert LIMIT - 3_000 < len(content) <= LIMIT == 1_048_576
    text = content.decode("utf-8")
    last = text.splitlines()[-1]
    assert last.endswith("more, see results.json")
    rows = check_tables(text)
    assert 1_000 < rows < 5_000
    everything = check_tables(markdown(flood, limit=50_000_000).decode("utf-8"))
    assert rows + int(last.split()[0]) == everything


def test_summary_leads_with_answer_counts_and_what_fails(flood: Results) -> None:
    lead = markdown(flood).decode("utf-8")[:1_500]
    places = [
        lead.index(words)
        for words in ("Evidence level", "Not accepted: exit code 1", "3 scenarios: 1 error, 1 fail", "| error | ALSO", "| fail | FLOOD")
    ]
    assert places == sorted(places)


def test_pipes_and_newlines_are_escaped(flood: Results) -> None:
    assert "a \\| table ⏎ row" in markdown(flood).decode("utf-8")


def test_the_other_writers_hold_all_of_it(flood: Results) -> None:
    root = ET.fromstring(junit(flood))
    story = next(root.iter("failure")).text or ""
    assert story.count("🧭" * 60) == 10_000
    assert html(flood).count("🧭" * 60) == 10_000
    assert Results.model_validate_json(results_json(flood)) == flood


def test_thousands_of_failing_scenarios_are_all_named(results: Callable[..., Results], verdict: Callable[..., Verdict]) -> None:
    red = [verdict(item=f"S-{n}[fake,reference,2026-07-28]", title=TEXT, outcome="fail", exit_code=1) for n in range(6_000)]
    content = markdown(results(*red, exit_code=1))
    assert len(content) <= LIMIT
    text = content.decode("utf-8")
    assert all(f"S-{n}\\[" in text for n in range(6_000))
    check_tables(text)


@given(limit=st.integers(1_500, 6_000), words=st.text(min_size=1, max_size=60), number=st.integers(0, 30))
@settings(deadline=None, max_examples=60)
def test_any_limit_is_kept(
    results: Callable[..., Results],
    verdict: Callable[..., Verdict],
    finding: Callable[..., Finding],
    limit: int,
    words: str,
    number: int,
) -> None:
    said = words.encode("utf-8", "ignore").decode("utf-8")
    red = verdict(outcome="fail", exit_code=1, findings=tuple(finding(message=said) for _ in range(number)))
    content = markdown(results(red, exit_code=1), limit=limit)
    assert len(content) <= limit
    check_tables(content.decode("utf-8"))


def test_a_clean_run_has_no_notice(results: Callable[..., Results], verdict: Callable[..., Verdict]) -> None:
    assert "see results.json" not in markdown(results(verdict())).decode("utf-8")
