"""Whatever a provider says, a report stays well formed and the words in it stay words."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from harness.model.finding import Finding
from harness.model.verdict import Results, Verdict
from harness.report.html import document as html
from harness.report.inert import BODY_LIMIT, clip, cut, one_line, plain, to_json, visible
from harness.report.junit import document as junit
from harness.report.markdown import document as markdown
from harness.report.markdown import escape
from harness.report.results_json import document as results_json
from harness.report.text import terminal_summary

# Model fields refuse lone surrogates, `expected` and `actual` (any JSON) do not.
NASTY = st.text(
    alphabet=st.one_of(st.sampled_from(list("|\\`*_<>&[]()~#$!@:/w.\n\r\t\x00\x1b\x85\u202e\u2028\ufffe'\"-=+")), st.characters(codec="utf-8")),
    max_size=60,
)
WITH_SURROGATES = st.text(alphabet=st.characters(), max_size=40)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | NASTY | WITH_SURROGATES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NASTY, inner, max_size=3),
    max_leaves=6,
)


def page(results: Callable[..., Results], verdict: Callable[..., Verdict], words: str, value: object) -> Results:
    said = Finding(id="recalled", message=words, where=words, expectation=words, expected=value, actual=words, fix=words)
    red = verdict(title=words, outcome="fail", exit_code=1, findings=(said,), notes=(words,), not_proven=(words,))
    return results(red, exit_code=1, exit_reasons=(words,), environment={"said": value})


@given(words=NASTY, value=ANY_JSON)
@settings(deadline=None, max_examples=60)
def test_junit_is_always_well_formed(results: Callable[..., Results], verdict: Callable[..., Verdict], words: str, value: object) -> None:
    root = ET.fromstring(junit(page(results, verdict, words, value)))
    assert len(list(root.iter("testcase"))) == 1
    assert len(list(root.iter("failure"))) == 1


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag + "".join(f" {name}" for name, _ in attrs))


@given(words=NASTY, value=ANY_JSON)
@settings(deadline=None, max_examples=60)
def test_html_has_only_our_own_tags(results: Callable[..., Results], verdict: Callable[..., Verdict], words: str, value: object) -> None:
    ours, theirs = Tags(), Tags()
    ours.feed(html(page(results, verdict, "x", "x" if value not in (None, "") else value)))
    theirs.feed(html(page(results, verdict, words or "x", value)))
    assert ours.seen == theirs.seen


@given(words=NASTY)
@settings(deadline=None, max_examples=200)
def test_a_markdown_cell_is_one_cell_of_plain_text(words: str) -> None:
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = reader.parse(f"| A | B |\n| --- | --- |\n| {escape(words, 10_000)} | end |\n")
    cells = [tokens[i + 1] for i, token in enumerate(tokens) if token.type == "td_open"]
    assert [cell.content for cell in cells][1:] == ["end"]
    kinds = {child.type for child in cells[0].children or []}
    assert kinds <= {"text", "text_special"}, kinds
    shown = "".join(child.content for child in cells[0].children or [])
    assert shown.replace("\u2060", "") == one_line(words).strip()


@given(words=NASTY)
@settings(deadline=None, max_examples=100)
def test_a_markdown_list_item_is_one_paragraph(words: str) -> None:
    tokens = MarkdownIt("commonmark").enable("table").parse(f"- {escape(words)}\n")
    assert [token.type for token in tokens if token.type.endswith("_open")] in (
        ["bullet_list_open", "list_item_open", "paragraph_open"],
        ["bullet_list_open", "list_item_open"],
    )


@given(words=NASTY, value=ANY_JSON)
@settings(deadline=None, max_examples=60)
def test_text_formats_are_utf8_without_hidden_characters(
    results: Callable[..., Results], verdict: Callable[..., Verdict], words: str, value: object
) -> None:
    drawn = page(results, verdict, words, value)
    json.loads(results_json(drawn).encode("utf-8"))
    for text in (markdown(drawn).decode("utf-8").replace("\u2060", ""), terminal_summary(drawn), html(drawn)):
        assert visible(text) == text
        text.encode("utf-8")


@given(text=WITH_SURROGATES, limit=st.integers(0, 80))
def test_a_cut_is_a_beginning_within_its_bytes(text: str, limit: int) -> None:
    short = cut(text, limit)
    assert text.startswith(short)
    assert len(short.encode("utf-8", "surrogatepass")) <= limit or short == text


@given(value=ANY_JSON)
def test_json_text_reads_back(value: object) -> None:
    assert json.loads(to_json(value)) == json.loads(json.dumps(plain(value)))


def test_values_that_json_or_python_cannot_print() -> None:
    deep: object = "end"
    for _ in range(5_000):
        deep = [deep]
    assert "nested deeper" in to_json(deep)
    assert "integer of" in to_json(10**6_000)
    assert to_json(float("inf")) == '"inf"'
    assert to_json("\ud800") == '"\\ud800"'


def test_a_body_above_the_limit_is_prefix_size_and_hash() -> None:
    import hashlib

    body = "🧭" * 5_000
    kept = clip(body)
    assert kept == {"prefix": "🧭" * 512, "bytes": 20_000, "sha256": hashlib.sha256(body.encode()).hexdigest()}
    assert clip("a" * BODY_LIMIT) == "a" * BODY_LIMIT
    structured = clip({"content": [body]})
    assert structured["bytes"] == len(json.dumps({"content": [body]}, ensure_ascii=False).encode())
