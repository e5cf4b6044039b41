"""Waivers: read with positions, written without harm to what stands there, applied to exactly one change."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import LoadError, LoadErrors
from harness.model.drift import DriftFinding
from harness.model.waiver import Waiver, Where
from harness.scenario.files import data_root
from harness.waiver.append import with_waivers
from harness.waiver.apply import Candidate, apply, unused_everywhere
from harness.waiver.load import load_waivers, parse_waivers

GOOD = """\
- finding: enum-narrowed
  where: {provider: mem0, tool: add_memory, pointer: /inputSchema/properties/a/enum}
  owner: jane
  reason: never sent
  issue: M-1
  expires: "2026-12-31"
"""
PRINT = "0123456789abcdef0123456789abcdef"


def test_what_is_written_is_read() -> None:
    (waiver,) = parse_waivers(GOOD, "w.yaml")
    assert (waiver.finding, waiver.where.tool, waiver.owner, waiver.expires) == ("enum-narrowed", "add_memory", "jane", "2026-12-31")
    assert str(waiver.at) == "w.yaml:1:3"


def test_the_project_s_own_file_is_sound() -> None:
    if (path := data_root() / "waivers.yaml").is_file():  # a checkout; an installed package ships none
        assert isinstance(load_waivers(path), tuple)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('"2026-12-31"', "2026-12-31"), "w.yaml:6:12: an unquoted date"),
        (('"2026-12-31"', '"2026-02-31"'), "w.yaml:6:3: expires is '2026-02-31', which is no date"),
        (('"2026-12-31"', '"31.12.2026"'), "w.yaml:6:3: expires is '31.12.2026', which is no date"),
        (("owner: jane", "ownr: jane"), "w.yaml:3:3: unknown key 'ownr'"),
        (("  owner: jane\n", ""), "owner is missing"),
        (("owner: jane", 'owner: ""'), "w.yaml:3:3: owner: string should have at least 1 character"),
        (("tool: add_memory", "tol: add_memory"), "unknown key 'tol'"),
        (("enum-narrowed", "Enum Narrowed"), "w.yaml:1:3: finding"),
        (("- finding", "- - finding"), "a waiver is a mapping"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(change: tuple[str, str], said: str) -> None:
    with pytest.raises((LoadError, LoadErrors)) as caught:
        parse_waivers(GOOD.replace(*change) if change[0] != "- finding" else "- - x\n", "w.yaml")
    assert said in str(caught.value)
    assert "fix:" in str(caught.value)


def test_every_problem_is_said_at_once_and_a_file_is_a_list() -> None:
    with pytest.raises(LoadErrors) as caught:
        parse_waivers(GOOD.replace("owner: jane", "ownr: jane") + GOOD.replace("issue: M-1", "isue: M-1"), "w.yaml")
    assert len(caught.value.errors) == 2
    with pytest.raises(LoadErrors, match="waivers are a list"):
        parse_waivers("finding: x\n", "w.yaml")
    with pytest.raises(LoadErrors, match="the same waiver stands at line 1"):
        parse_waivers(GOOD + GOOD, "w.yaml")
    with pytest.raises(LoadError, match="cannot be read"):
        load_waivers(Path("nowhere.yaml"))


ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
TEXTS = ANY.filter(lambda text: text.strip() == text and text != "")


@given(owner=TEXTS, reason=TEXTS, tool=ANY)
def test_whatever_people_write_comes_back_and_breaks_out_of_nothing(owner: str, reason: str, tool: str) -> None:
    where = Where(provider="mem0", tool=tool, pointer="/inputSchema")
    waiver = Waiver(finding="enum-narrowed", where=where, owner=owner, reason=reason, issue="M-1", expires="2026-12-31", fingerprint=PRINT)
    text = with_waivers("# kept\n" + GOOD, "w.yaml", [waiver])
    assert text.startswith("# kept\n" + GOOD)
    _, found = parse_waivers(text, "w.yaml")
    assert found.model_copy(update={"at": waiver.at}) == waiver


@pytest.mark.parametrize("before", ["", "# ours\n", "# ours\n[]\n", "[]", "[]\n# after\n", GOOD, GOOD.rstrip("\n")])
def test_adding_to_any_file(before: str) -> None:
    waiver = Waiver(finding="tool-removed", where=Where(tool="t"), owner="o", reason="r", issue="i", expires="2026-12-31")
    text = with_waivers(before, "w.yaml", [waiver])
    assert [w.finding for w in parse_waivers(text, "w.yaml")][-1] == "tool-removed"
    assert all(line in text for line in before.splitlines() if line.strip() != "[]")


def finding(rule: str = "enum-narrowed", tool: str = "add_memory", pointer: str = "/p") -> DriftFinding:
    return DriftFinding(id=rule, severity="breaking", tool=tool, pointer=pointer, message="m", fix="f")


def waiver(**changes: object) -> Waiver:
    data = {"finding": "enum-narrowed", "where": {"tool": "add_memory", "pointer": "/p"}, "owner": "o", "reason": "r", "issue": "i"}
    return Waiver.model_validate({**data, "expires": "2026-06-30", **changes})


def outcome(one: Waiver, *found: DriftFinding, today: str = "2026-06-30", **settings: bool) -> tuple[int, list[str]]:
    done = apply([Candidate(f, PRINT) for f in found], [one], provider="mem0", today=today, **settings)
    return len(done.accepted), [notice.id for notice, _ in done.notices]


def test_a_waiver_covers_one_finding_at_one_place_to_its_last_day() -> None:
    assert outcome(waiver(), finding()) == (1, [])
    assert outcome(waiver(), finding(), today="2026-07-01") == (0, ["waiver-expired"])
    assert outcome(waiver(fingerprint=PRINT), finding()) == (1, [])
    assert outcome(waiver(fingerprint="f" * 32), finding()) == (0, ["waiver-stale"])
    for other in (finding("enum-widened"), finding(tool="x"), finding(pointer="/q")):
        assert outcome(waiver(), other) == (0, ["waiver-unused"])


def test_unused_is_said_only_where_it_was_looked_for() -> None:
    elsewhere = waiver(where={"provider": "zep", "tool": "add_memory", "pointer": "/p"})
    assert outcome(elsewhere, finding()) == (0, [])
    assert outcome(waiver(), complete=False) == (0, [])
    assert outcome(waiver(), alone=False) == (0, [])
    assert outcome(waiver(where={"provider": "mem0", "tool": "t"}), alone=False) == (0, ["waiver-unused"])
    assert [n.id for n in unused_everywhere([waiver()], [])] == ["waiver-unused"]
    assert unused_everywhere([waiver()], [waiver()]) == ()
