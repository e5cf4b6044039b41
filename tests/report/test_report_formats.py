"""Every format: the same answer, the same counts, the level first."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from harness.errors import UsageError
from harness.model.verdict import Results, Verdict
from harness.report.allure import Allure
from harness.report.base import choose_reports, load_reports
from harness.report.ctrf import document as ctrf
from harness.report.html import document as html
from harness.report.junit import document as junit
from harness.report.markdown import document as markdown
from harness.report.reading import comparison_line
from harness.report.results_json import document as results_json
from harness.report.text import terminal_summary


def test_the_folder_is_the_registry() -> None:
    assert {"results_json", "junit", "markdown", "html"} <= set(load_reports())
    folder = Path(__file__).parents[2] / "harness" / "report"
    for name, report in load_reports().items():
        assert (folder / f"{name}.py").exists()
        assert report.summary
        assert "\n" not in report.summary


def test_choice_of_formats() -> None:
    assert {report.id for report in choose_reports(())} == {"results_json", "junit", "markdown", "html"}
    assert choose_reports(("none",)) == ()
    assert [report.id for report in choose_reports(("junit", "html", "junit"))] == ["junit", "html"]
    with pytest.raises(UsageError, match="stands alone"):
        choose_reports(("none", "html"))
    with pytest.raises(UsageError, match="did you mean 'markdown'"):
        choose_reports(("markdwn",))


def test_first_line_says_the_level(mixed: Results) -> None:
    for report in load_reports().values():
        for name, content in report.files(mixed).items():
            first = content.decode("utf-8").splitlines()[0]
            assert "Evidence level: fake" in first, name
    assert terminal_summary(mixed).startswith("Evidence level: fake")


def test_every_report_is_pure(mixed: Results) -> None:
    for report in load_reports().values():
        assert report.files(mixed) == report.files(mixed)


def test_results_json_reads_back_as_the_same_results(mixed: Results) -> None:
    text = results_json(mixed)
    data = json.loads(text)
    assert data["schema"] == "results/v1"
    assert Results.model_validate(data) == mixed


def test_counts_agree(mixed: Results) -> None:
    root = ET.fromstring(junit(mixed))
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "4",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    assert [case.get("name") for case in root.iter("testcase")] == [verdict.item for verdict in mixed.verdicts]
    line = "4 scenarios: 1 error, 1 fail, 1 pass, 1 not applicable"
    for text in (markdown(mixed).decode(), html(mixed), terminal_summary(mixed)):
        assert line in text
        assert "Not accepted: exit code 1" in text


def test_junit_tells_failure_from_error(mixed: Results) -> None:
    cases = {case.get("name", "").split("[")[0]: case for case in ET.fromstring(junit(mixed)).iter("testcase")}
    failure, error = cases["MEM-2"].find("failure"), cases["MEM-3"].find("error")
    assert failure is not None
    assert failure.get("type") == "dispatched"
    assert "fix: hold the call" in (failure.text or "")
    assert error is not None
    assert error.get("type") == "witness-blind"
    assert cases["LIVE-1"].find("skipped") is not None
    assert list(cases["MEM-1"]) == [cases["MEM-1"].find("properties")]
    properties = {p.get("name"): p.get("value") for p in cases["MEM-2"].iter("property")}
    assert properties["level"] == "fake"
    assert properties["providers"] == "mem0"
    assert properties["findings"] == "dispatched"


def test_html_lets_nothing_load_or_run(mixed: Results) -> None:
    page = html(mixed)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert policy.group(1).startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy.group(1)
    assert page.count("<script") == 1  # our own, allowed by its hash alone; the next test holds the two together
    assert "src=" not in page
    assert "http://" not in page
    assert "https://" not in page
    assert "prefers-color-scheme: dark" in page


@pytest.mark.parametrize("tag", ["style", "script"])
def test_html_hashes_are_those_of_its_style_and_its_script(mixed: Results, tag: str) -> None:
    page = html(mixed)
    inner = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
    assert inner is not None
    digest = base64.b64encode(hashlib.sha256(inner.group(1).encode()).digest()).decode()
    assert f"{tag}-src 'sha256-{digest}'" in page


def test_html_shows_claims_and_what_is_not_proven(mixed: Results, verdict: Callable[..., Verdict], results: Callable[..., Results]) -> None:
    page = html(results(verdict(not_proven=("that the derived graph is right",)), *mixed.verdicts))
    for words in (
        "that the derived graph is right",
        "the 403 is audited (not evaluated)",
        "a write waits",
        "scenarios/memory/MEM-1.yaml:12:9",
    ):
        assert words in page


def test_terminal_names_place_and_remedy(mixed: Results) -> None:
    text = terminal_summary(mixed)
    assert "at: scenarios/memory/MEM-1.yaml:12:9 not-dispatched" in text
    assert "fix: hold the call until it is approved" in text
    assert text.index("MEM-1[") < text.index("MEM-2["), "what needs attention stands last, nearest to the prompt"


def test_what_was_compared_with_our_own_word_stands_apart(results: Callable[..., Results]) -> None:
    line = comparison_line(results(comparison={"names": 82, "shape": 64, "own_names": 7, "own_shape": 7}))
    assert line.startswith("Compared: names 82, shape 64; a bridge of ours with our own word for it")
    assert line.endswith("says nothing about its provider: names 7, shape 7")
    assert comparison_line(results(comparison={"names": 82, "hash": 0})) == "Compared: names 82, hash 0"


def test_nothing_run_is_still_a_report(results: Callable[..., Results]) -> None:
    empty = results(level_line="No evidence: nothing was run.", exit_code=2, exit_reasons=("scenarios/x.yaml:3:1: unknown key",), comparison={})
    for report in load_reports().values():
        for content in report.files(empty).values():
            assert b"nothing was run" in content.splitlines()[0]


def test_a_run_that_never_began_is_red_in_every_format(results: Callable[..., Results], verdict: Callable[..., Verdict]) -> None:
    """As public case e05 ends: exit code 2, and nothing was run. Readers that look at entries only must see that too."""
    reason = 'scenarios/x.yaml:3:9: put quotes around the variable: "${fact}"\n  | with: {text: ${fact}}'
    for verdicts in ((), (verdict(),)):  # nothing was run; or all of it passed, and then the run broke off
        red = results(*verdicts, exit_code=2).model_copy(update={"exit_reasons": (reason,)})
        entries = len(verdicts) + 1
        root = ET.fromstring(junit(red))
        assert (root.get("tests"), root.get("errors"), len(list(root.iter("error")))) == (str(entries), "1", 1)
        data = ctrf(red)["results"]
        assert [data["summary"][word] for word in ("tests", "failed")] == [entries, 1]
        statuses = sorted(json.loads(text)["status"] for name, text in Allure().files(red).items() if name.endswith("-result.json"))
        assert statuses == ["broken", *["passed"] * len(verdicts)]
        for report in load_reports().values():
            assert any("put quotes around the variable" in content.decode() for content in report.files(red).values()), report.id
