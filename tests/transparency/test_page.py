"""The comparison page: each arrow leads to the line that the cell was read from, and what was known before is found, or explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.errors import LoadError
from harness.scenario.files import data_root
from harness.transparency.facts import Report
from harness.transparency.known import Known, is_known, load_known, look
from harness.transparency.page import page, places
from harness.transparency.written import read_report

GATEWAYS = data_root() / "gateways"
MEASURED = sorted(path.stem for path in (GATEWAYS / "measured").glob("*.json"))
KNOWN = load_known(GATEWAYS / "known.yaml")
ARROW = re.compile(r"\[↗\]\(\.\./gateways/(?P<file>\w+/\w+\.json)#L(?P<line>\d+)\)")


def measured(target: str) -> Report:
    return read_report(GATEWAYS / "measured" / f"{target}.json")


@pytest.mark.parametrize("target", MEASURED)
def test_a_place_is_the_line_where_its_member_begins(target: str) -> None:
    text = (GATEWAYS / "measured" / f"{target}.json").read_text(encoding="utf-8")
    report, lines = measured(target), text.splitlines()
    found = places(text)["judged"]
    assert len(found) == len(report.judged)
    for one, start, end in zip(report.judged, found, [*found[1:], len(lines)], strict=True):
        block = "\n".join(lines[start - 1 : end])
        assert f'"id": "{one.fact.id}"' in block
        assert f'"subject": "{one.fact.subject}"' in block


def test_every_arrow_leads_to_a_line_that_begins_something() -> None:
    arrows = list(ARROW.finditer((data_root() / "docs" / "gateways.md").read_text(encoding="utf-8")))
    assert len(arrows) > 250
    files = {arrow["file"]: (GATEWAYS / arrow["file"]).read_text(encoding="utf-8").splitlines() for arrow in arrows}
    for arrow in arrows:
        line = files[arrow["file"]][int(arrow["line"]) - 1]
        assert line == "  {" or re.fullmatch(r'    "[A-Z0-9-]+": \{', line), arrow.group()


@pytest.mark.parametrize("target", sorted(KNOWN))
def test_what_was_known_is_found_or_it_is_said_why_not(target: str) -> None:
    report = measured(target)
    for one in KNOWN[target]:
        found = look(one, report)
        if found is None:
            assert one.why, one.said
        else:
            assert found.holds is not one.otherwise, one.said
            assert one.why or not one.otherwise, one.said


@pytest.mark.parametrize("target", sorted(KNOWN))
def test_what_was_not_known_has_a_reason(target: str) -> None:
    report = measured(target)
    differing = [one for one in report.judged if one.counts != "same"]
    assert differing
    assert [one.fact.key for one in differing if not is_known(one.fact.key, KNOWN[target]) and one.counts not in ("declared", "waived")] == []
    assert all(one.why for one in differing)
    assert report.news == ()


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        ({"fact": "error.rpc_error", "shows": "changed"}, True),
        ({"fact": "error.rpc_error", "shows": "kept"}, False),
        ({"fact": "error.rpc_error", "shows": {"within": {"is_error": True}}}, True),
        ({"fact": "error.rpc_error", "shows": {"within": {"rpc_error": {}}}}, False),
        ({"fact": "requests.per_call", "shows": {"total": 3}}, True),
        ({"fact": "requests.per_call", "shows": {"total": 1}}, False),
        ({"fact": "list.order", "shows": "reversed"}, False),
        ({"fact": "list.nothing_of_the_kind", "shows": "kept"}, False),
        ({"fact": "component.annotations/*", "shows": "kept"}, True),
        ({"audit": {"ok": {"record": "untestable"}}}, True),
        ({"audit": {"ok": {"record": "ok"}}}, False),
        ({"audit": {"never": {}}}, False),
        ({"catalog": {"tool-added": {"told": False}}}, True),
        ({"catalog": {"tool-added": {"session": "old"}}}, False),
    ],
)
def test_a_statement_that_does_not_hold_is_not_found(words: dict[str, object], holds: bool) -> None:
    found = look(Known.model_validate({"said": "of FastMCP", **words}), measured("fastmcp"))
    assert found is not None
    assert found.holds is holds


def test_the_page_says_which_statement_was_not_found_and_what_nobody_knew() -> None:
    told = Known(said="it keeps <i>errors</i>", fact="error.rpc_error", shows="kept", otherwise=True, why="it does not")
    text = page([measured("fastmcp")], {}, {"fastmcp": (told,)})
    assert re.search(r"\| it keeps &lt;i>errors&lt;/i> \| otherwise \[↗\]\(\S+#L\d+\) \| it does not \|", text)
    assert "(not known) `requests.per_call`" in text
    assert "(not known) `error.rpc_error`" not in text


@pytest.mark.parametrize("text", ["[1]", "x: [{said: a, fact: b, shows: odd}]", "x: [{fact: b}]", "x: 3", "x: {y: z}"])
def test_a_bad_list_of_statements_is_refused_by_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "known.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(LoadError, match=r"known\.yaml"):
        load_known(tmp_path / "known.yaml")
