"""Drift formats: what others chose to write in a tool list steers nothing; counts agree; SARIF, JUnit and the JSON Schema hold."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from harness.drift.relation import relate
from harness.fleet.check import Policy, check
from harness.fleet.side import Loaded
from harness.model.drift_result import DriftResult
from harness.model.tool import Capture, Tool
from harness.report.drift.base import load_formats
from harness.report.drift.document import json_schema
from harness.report.drift.html import page
from harness.report.drift.markdown import LIMIT
from harness.report.drift.marked import marked_lines
from harness.report.drift.sarif import FINGERPRINT
from harness.report.drift.text import coloured
from harness.waiver.load import parse_waivers

NASTY = "x\x1b[2J\u202e</script><b>|`@all`\n# h1\x00\ud800"
FORMATS = tuple(load_formats())


def decide(old: Any, new: Any, one: int | None, other: int | None) -> Any:
    return relate(old, new, old_draft=one, new_draft=other)


def loaded(tools: list[Mapping[str, Any]], text: str | None = None) -> Loaded:
    capture = Capture("list", tuple(Tool.from_wire(tool) for tool in tools), 1, True)
    return Loaded(file="old.json" if text else "", text=text, capture=capture)


def tool(name: str, properties: Mapping[str, Any], **rest: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": dict(properties)}, **rest}


ENUM = {"q": {"type": "string", "enum": ["a", "b"]}}


def result(old: list[Mapping[str, Any]], new: list[Mapping[str, Any]], waivers: str = "", **policy: Any) -> DriftResult:
    text = json.dumps({"tools": old}, indent=1)
    rules = Policy(today="2026-06-30", waivers=parse_waivers(waivers, "w.yaml") if waivers else (), **policy)
    return check(loaded(old, text), loaded(new), rules, relate=decide, subject="notes", against="live").result


def broken(name: str = "find", **rest: Any) -> DriftResult:
    return result([tool(name, ENUM), tool("gone", {})], [tool(name, {"q": {"type": "string", "enum": ["a"]}}, **rest)])


def hostile() -> DriftResult:
    old = tool(NASTY, {NASTY: {"enum": [NASTY, "b"]}}, description="d")
    return result([old], [tool(NASTY, {NASTY: {"enum": ["b"]}}, description=NASTY, annotations={NASTY: NASTY, "destructiveHint": True})])


@pytest.mark.parametrize("word", FORMATS)
def test_others_words_steer_nothing(word: str) -> None:
    data = load_formats()[word].render(hostile())
    text = data.decode("utf-8")
    assert not set("\x00\x1b\u202e\x07") & set(text)
    if word == "html":
        assert "<script" not in text
        assert "<b>" not in text
    if word == "markdown":
        assert "@all" not in text
        assert "<b>" not in text
        assert "\n# h1" not in text
    if word == "junit":
        ET.fromstring(text)
    if word in ("json", "sarif"):
        json.loads(text)


@pytest.mark.parametrize("word", FORMATS)
def test_a_format_is_the_same_for_the_same_result(word: str) -> None:
    assert load_formats()[word].render(broken()) == load_formats()[word].render(broken())


def test_the_json_document_is_what_its_schema_promises() -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    jsonschema.Draft202012Validator.check_schema(json_schema())
    for found in (broken(), hostile(), result([], [])):
        document = json.loads(load_formats()["json"].render(found).decode())
        assert list(validator.iter_errors(document)) == []
    assert list(validator.iter_errors({"schema": "drift/v2"}))


WAIVER = """\
- finding: enum-narrowed
  where: {provider: notes, tool: find, pointer: /inputSchema/properties/q/enum}
  owner: jane
  reason: r
  issue: i
  expires: "2026-12-31"
"""


def test_sarif_leaves_accepted_findings_out_and_lists_every_rule() -> None:
    (run,) = json.loads(load_formats()["sarif"].render(broken()))["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert {"enum-narrowed", "tool-removed", "waiver-unused", "relation-unproven"} <= {rule["id"] for rule in rules}
    assert all(rule["help"]["text"] and rule["properties"]["anchor"].endswith(f"#{rule['id']}") for rule in rules)
    assert {r["ruleId"] for r in run["results"]} >= {"enum-narrowed", "tool-removed"}
    for found in run["results"]:
        assert rules[found["ruleIndex"]]["id"] == found["ruleId"]
        place = found["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "old.json"
        assert place["region"]["startLine"] > 1
        assert re.fullmatch("[0-9a-f]{32}", found["partialFingerprints"][FINGERPRINT])
    accepted = result([tool("find", ENUM)], [tool("find", {"q": {"enum": ["a"], "type": "string"}})], WAIVER)
    (run,) = json.loads(load_formats()["sarif"].render(accepted))["runs"]
    assert "enum-narrowed" not in {r["ruleId"] for r in run["results"]}
    assert accepted.exit_code == 0
    assert run["invocations"][0]["executionSuccessful"] is True


def test_sarif_points_at_the_changed_line() -> None:
    old = [tool("other", {}), tool("find", ENUM)]
    found = result(old, [tool("other", {}), tool("find", {"q": {"type": "string", "enum": ["a"]}})])
    (one,) = [r for r in json.loads(load_formats()["sarif"].render(found))["runs"][0]["results"] if r["ruleId"] == "enum-narrowed"]
    line = one["locations"][0]["physicalLocation"]["region"]["startLine"]
    assert '"enum"' in json.dumps({"tools": old}, indent=1).splitlines()[line - 1]


def test_a_fingerprint_names_the_change_and_not_its_words_or_place_in_the_file() -> None:
    def prints(found: DriftResult) -> dict[str, str]:
        return {judged.finding.id: judged.fingerprint for judged in found.judged}

    same = result([tool("gone", {}), tool("find", ENUM)], [tool("find", {"q": {"type": "string", "enum": ["a"]}}, description="more")])
    other = result([tool("find", ENUM)], [tool("find", {"q": {"type": "string", "enum": ["b"]}})])
    assert prints(broken())["enum-narrowed"] == prints(same)["enum-narrowed"] != prints(other)["enum-narrowed"]


def test_junit_counts_what_the_document_counts() -> None:
    found = broken()
    suite = ET.fromstring(load_formats()["junit"].render(found).decode())
    assert int(suite.get("failures", "")) == len(found.failing) == len(suite.findall(".//failure"))
    assert int(suite.get("tests", "")) == len(found.judged) + 1 == len(suite.findall(".//testcase"))
    failure = next(f for f in suite.iter("failure") if f.get("type") == "enum-narrowed")
    assert '"arguments": {"q": "b"}' in (failure.text or "")


def test_markdown_fits_a_comment_however_much_there_is() -> None:
    old = [tool(f"tool_{n}", {"q": {"type": "string"}}) for n in range(1500)]
    text = load_formats()["markdown"].render(result(old, []))
    assert len(text) <= LIMIT + 200
    assert b"more, see the JSON document" in text
    assert text.decode().rstrip().endswith("see the JSON document")


def test_the_page_shows_both_sides_with_the_changed_part_marked() -> None:
    text = page(broken())
    assert "default-src 'none'" in text
    marked = [html.unescape(found) for found in re.findall(r"<mark>(.*?)</mark>", text)]
    assert any('"enum"' in line for line in marked)
    assert any('"b"' in line for line in marked)
    assert not any('"type": "object"' in line for line in marked)
    assert "tools/call" in html.unescape(text)


def test_a_pointer_marks_what_it_leads_to_or_what_is_nearest() -> None:
    lines = marked_lines({"a/b": {"c": [1, 2]}, "d": 0}, {"/a~1b/c/1", "/a~1b/gone/deeper"})
    assert [text.strip() for text, mark in lines if mark] == ['"a/b": {', '"c": [', "1,", "2", "]", "},"]
    assert [text.strip() for text, mark in marked_lines({"a": [1, 2]}, {"/a/1"}) if mark] == ["2"]


def test_colour_only_paints() -> None:
    plain = load_formats()["text"].render(broken()).decode()
    assert re.sub("\x1b\\[[0-9;]*m", "", coloured(broken()).decode()) == plain


def test_severity_overrides_reach_every_format() -> None:
    found = result([tool("find", ENUM)], [tool("find", {"q": {"type": "string", "enum": ["a"]}})], severities={"enum-narrowed": "info"})
    assert found.exit_code == 0
    rules = json.loads(load_formats()["sarif"].render(found))["runs"][0]["tool"]["driver"]["rules"]
    assert next(rule for rule in rules if rule["id"] == "enum-narrowed")["defaultConfiguration"]["level"] == "note"


def disputed() -> DriftResult:
    """A tool whose verb says destructive and whose hint says read, beside one that nobody disputes."""
    listed = [tool("delete_note", {}, annotations={"readOnlyHint": True}), tool("get_note", {}, annotations={"readOnlyHint": True})]
    return result(listed, listed)


def test_a_disputed_risk_stands_side_by_side_in_every_format() -> None:
    found = disputed()
    (row,) = json.loads(load_formats()["json"].render(found))["risks"]
    assert (row["tool"], row["oracle"], row["hints"], row["gateway"], row["inventory"]) == ("delete_note", "destructive", "read", None, None)
    assert row["hint_reason"] == "readOnlyHint is true"
    assert found.risks_agreed == 1
    text = load_formats()["text"].render(found).decode()
    assert "risk disputed: delete_note: oracle destructive, hints read" in text
    assert "get_note" not in text.partition("risk disputed")[2]
    drawn = page(found)
    cells = re.search(r"<th scope=\"row\">delete_note</th>(.*?)</tr>", drawn, re.DOTALL)
    assert cells is not None
    assert re.findall(r"<td>(.*?)</td>", cells[1]) == ["–", "destructive", "–", "read"]
    assert "| delete\\_note | – | destructive | – | read |" in load_formats()["markdown"].render(found).decode()


def test_nothing_is_said_of_risks_that_nobody_disputes() -> None:
    found = result([tool("get_note", {})], [tool("get_note", {})])
    assert all("isputed" not in load_formats()[name].render(found).decode() for name in ("text", "markdown"))
    assert "Risk, as each party has it" not in page(found)
