"""`report.html` in a real browser: quiet, readable, usable by keyboard, and inert whatever a provider says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from browser_tests.conftest import THEMES, WIDTHS, Watched, overflows
from browser_tests.corpus import injections
from harness.model.finding import Finding
from harness.model.timeline import TimelineRow
from harness.model.trend import Trend, TrendPoint
from harness.model.verdict import ClaimVerdict, Results, Verdict
from harness.report.html import document

ROOT = Path(__file__).parents[1]
Opened = Callable[..., Watched]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A genuine run of a broken gateway, so that the page has something to say."""
    reports = tmp_path_factory.mktemp("reports")
    command = [sys.executable, "-m", "harness", "run", "MEM-1", "MEM-4", "--protocol", "2025-11-25"]
    command += ["--defect", "dispatch-before-approval", "--reports-dir", str(reports)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    return next(folder for folder in reports.iterdir() if (folder / "report.html").exists() and not folder.is_symlink())


@pytest.fixture(scope="module")
def page_file(run: Path) -> Path:
    """With trends added, which a first run has none of."""
    results = Results.model_validate_json((run / "results.json").read_bytes())
    points = tuple(
        TrendPoint(run=f"r{n}", at="2026-11-30T00:00:00Z", outcome="pass" if n % 3 else "fail", seconds=0.4, latency_ms=10.0 + n) for n in range(8)
    )
    trends = tuple(Trend(item=verdict.item, points=points) for verdict in results.verdicts)
    path = run / "with-trends.html"
    path.write_text(document(results.model_copy(update={"trends": trends})), encoding="utf-8")
    return path


def quiet(watched: Watched, url: str) -> None:
    assert watched.complaints == []
    assert [request for request in watched.requests if request != url] == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", WIDTHS)
def test_reads_well_at_every_width_and_in_both_themes(
    opened: Opened, page_file: Path, shot: Callable[[Page, str], None], serious: Callable[[Page], list[str]], width: int, theme: str
) -> None:
    watched = opened(width=width, theme=theme)
    watched.page.goto(page_file.as_uri())
    assert watched.page.locator("h1").inner_text().startswith("Not accepted")
    assert not overflows(watched.page)
    shot(watched.page, f"report-{width}-{theme}")
    quiet(watched, page_file.as_uri())
    checked = opened(width=width, theme=theme, bypass_csp=True)
    checked.page.goto(page_file.as_uri())
    assert serious(checked.page) == []


def test_lines_up_the_witnesses_and_marks_where_they_part(opened: Opened, page_file: Path, shot: Callable[[Page, str], None]) -> None:
    watched = opened()
    watched.page.goto(page_file.as_uri())
    odd = watched.page.locator(".timeline > li.odds").first
    assert "At odds" in odd.inner_text()
    assert [name.strip() for name in odd.locator("dt").all_inner_texts()] == ["Agent saw", "Operator did", "Audit says", "Provider received"]
    odd.scroll_into_view_if_needed()
    shot(watched.page, "report-timeline")


def test_searches_filters_and_says_how_many_are_left(opened: Opened, page_file: Path) -> None:
    page = opened().page
    page.goto(page_file.as_uri())
    page.get_by_label("Search everything").fill("episode")
    assert page.locator("#shown").inner_text() == "1 of 2 shown"
    assert page.locator("tr[data-for]:visible").count() == 1
    page.get_by_label("Search everything").fill("")
    page.get_by_label("fail (1)", exact=True).uncheck()
    assert "MEM-4" in page.locator("tr[data-for]:visible").inner_text()
    page.get_by_label("Find a tool").fill("zep.")
    assert all("zep." in name for name in page.locator("tr[data-tool]:visible th").all_inner_texts())


def test_a_deep_link_opens_what_it_names(opened: Opened, page_file: Path) -> None:
    page = opened().page
    page.goto(page_file.as_uri())
    page.locator("details.scenario").first.evaluate("section => { section.open = false; }")
    anchor = page.locator(".finding").first.get_attribute("id")
    page.goto(f"{page_file.as_uri()}#{anchor}")
    assert page.locator(f"[id='{anchor}']").is_visible()


def test_the_keyboard_reaches_everything(opened: Opened, page_file: Path) -> None:
    page = opened().page
    page.goto(page_file.as_uri())
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.tagName + (document.activeElement.type ? ':' + document.activeElement.type : '')"))
    assert {"INPUT:search", "INPUT:checkbox", "DIV", "A"} <= reached
    summary = page.locator("details.scenario summary").last
    summary.focus()
    before = page.locator("details.scenario").last.evaluate("section => section.open")
    page.keyboard.press("Enter")
    assert page.locator("details.scenario").last.evaluate("section => section.open") is not before


def test_three_hundred_injections_stay_text(opened: Opened, tmp_path: Path) -> None:
    texts = injections()
    verdicts = tuple(injected(n, text) for n, text in enumerate(texts))
    path = tmp_path / "report.html"
    path.write_text(document(results(verdicts)), encoding="utf-8")
    watched = opened()
    watched.page.goto(path.as_uri())
    watched.page.evaluate("document.querySelectorAll('details').forEach(section => { section.open = true; })")
    for _ in range(40):
        watched.page.keyboard.press("Tab")
    assert watched.page.evaluate("window.pwned === undefined")
    quiet(watched, path.as_uri())
    assert watched.page.locator("iframe, object, img, form, base, link, math").count() == 0


def test_the_control_an_unescaped_text_is_noticed(opened: Opened, tmp_path: Path) -> None:
    """What the test above looks for is there when nobody escapes: otherwise it could not fail."""
    path = tmp_path / "naive.html"
    path.write_text("<!doctype html><title>x</title>" + "".join(injections()), encoding="utf-8")
    watched = opened()
    watched.page.route("**", lambda route: route.continue_() if route.request.url == path.as_uri() else route.abort())
    with watched.page.expect_request(lambda request: request.url != path.as_uri()):
        watched.page.goto(path.as_uri(), wait_until="commit")


@pytest.fixture(scope="module")
def long_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """5,000 scenarios, most of which the browser is not asked to draw. How long it takes to open is measured by `make bench`, not judged here."""
    passed = {"outcome": "pass", "findings": (), "notes": (), "timeline": ()}
    verdicts = tuple(injected(n, f"word {n} <b>&amp;").model_copy(update=passed if n % 1_000 else {}) for n in range(5_000))
    text = document(results(verdicts))
    assert len(text.encode()) < 10_000_000
    path = tmp_path_factory.mktemp("long") / "report.html"
    path.write_text(text, encoding="utf-8")
    return path


def test_five_thousand_verdicts_open_and_are_found(opened: Opened, long_page: Path) -> None:
    watched = opened()
    page = watched.page
    page.goto(long_page.as_uri())
    assert page.locator("#shown").inner_text() == "5000 of 5000 fit, the first 200 are shown"
    assert page.evaluate("document.getElementsByTagName('*').length") < 20_000
    for typed in ("word 4999 <b>&amp;", "S-4999["):
        page.get_by_label("Search everything").fill(typed)
        assert page.locator("#shown").inner_text() == "1 of 5000 shown"
        assert page.locator("details.scenario").count() == 1
    page.get_by_label("Search everything").fill("nbsp")
    assert page.locator("#shown").inner_text() == "0 of 5000 shown", "what is searched is what is read, not how it is written"
    page.get_by_label("Search everything").fill("")
    rows = page.locator("#rows tr")
    assert rows.count() == 200
    page.locator("#more-rows").focus()
    page.keyboard.press("Enter")
    assert rows.count() == page.locator("#sections > details").count() == 400
    assert page.evaluate("document.activeElement.closest('tr') === document.querySelectorAll('#rows tr')[200]"), "where reading goes on"
    assert watched.page.evaluate("window.pwned === undefined")
    quiet(watched, long_page.as_uri())


def test_a_link_leads_to_what_was_not_drawn_yet(opened: Opened, long_page: Path) -> None:
    page = opened().page
    page.goto(f"{long_page.as_uri()}#s-S-4000-word-4000-b-amp--f1-recalled")
    assert page.locator("[id='s-S-4000-word-4000-b-amp--f1-recalled']").is_visible()
    page.evaluate("location.hash = '#s-S-1234-word-1234-b-amp'")
    section = page.locator("details[id^='s-S-1234-']")
    section.wait_for()
    assert section.evaluate("section => section.open")
    page.goto(f"{long_page.as_uri()}#%E0%A4%A")  # no such anchor, and not even one that can be read
    assert page.locator("h1").is_visible()


def test_all_of_it_is_printed_and_shown_without_a_script(opened: Opened, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    verdicts = tuple(injected(n, f"words of scenario {n} <b>&amp; more</b>") for n in range(300))
    path.write_text(document(results(verdicts)), encoding="utf-8")
    page = opened().page
    page.goto(path.as_uri())
    assert page.locator("#sections > details").count() < 300
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#rows tr").count() == page.locator("#sections > details[open]").count() == 300
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("#rows tr").count() == 200
    bare = opened(java_script_enabled=False).page
    bare.goto(path.as_uri())
    assert bare.locator("tr[data-for]").count() == bare.locator("details.scenario").count() == 300
    bare.locator("tr[data-for] a").last.click()
    assert "scenario 299 <b>&amp; more</b>" in bare.locator("details.scenario").last.inner_text()


def injected(n: int, text: str) -> Verdict:
    said = text.replace("\x00", "\\0")
    row = TimelineRow(step=said, what=said, agent=(said,), operator=(said,), audit=(said,), provider=(said,), at_odds=(said,))
    finding = Finding(id="recalled", severity="fail", message=said, where=said, expectation=said, expected={said: said}, actual=said, fix=said)
    claim = ClaimVerdict(claim=said, proven=False, level="fake", by=(said,), unproven_because=said)
    return Verdict(
        item=f"S-{n}[{said}]",
        scenario=f"S-{n}",
        title=said,
        area="memory",
        level="fake",
        target="reference",
        protocol="2026-07-28",
        providers=(said,),
        tags=(said,),
        outcome="fail",
        exit_code=1,
        findings=(finding,),
        claims=(claim,),
        notes=(said,),
        timeline=(row,),
    )


def results(verdicts: tuple[Verdict, ...]) -> Results:
    return Results(
        run="20261130T000000Z-abcdef",
        started_at="2026-11-30T00:00:00+00:00",
        ended_at="2026-11-30T00:01:00+00:00",
        harness_version="0",
        level_line="Evidence level: fake",
        exit_code=1,
        exit_reasons=(),
        totals={},
        verdicts=verdicts,
    )
