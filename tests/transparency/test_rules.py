"""Judging is pure: the same facts, table and declaration give the same report, and nothing that differs goes unsaid."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import LoadError
from harness.scenario.files import data_root
from harness.target.installed import installation
from harness.transparency.audit import HONEST, judged, word_of
from harness.transparency.compare import compare, listed
from harness.transparency.facts import Fact, Staleness
from harness.transparency.report import declaration_file
from harness.transparency.rules import DEFAULT, Accepted, Declaration, Rule, judge, load_declaration, load_rules

GATEWAYS = {"fastmcp": "fastmcp", "mcp_proxy": "mcp-proxy", "ctrlrun": "ctrlrun", "contextforge": "mcp-contextforge-gateway", "litellm": "litellm"}
VALUES = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=4)
OBSERVED = st.dictionaries(st.from_regex(r"[a-z]{1,6}\.[a-z]{1,6}(/[a-z]{1,4})?", fullmatch=True), VALUES, max_size=6)


@given(direct=OBSERVED, through=OBSERVED)
def test_every_difference_is_a_fact_and_counts_as_something(direct: dict[str, object], through: dict[str, object]) -> None:
    facts = compare(direct, through)
    found, news = judge(facts, (), None, "1")
    assert {fact.key for fact in facts} == {*direct, *through}
    assert {one.fact.key for one in found if one.fact.differs} == {key for key in {*direct, *through} if direct.get(key) != through.get(key)}
    assert all(one.counts in ("fault", "note", "same") and one.why for one in found if one.fact.differs)
    assert news == ()


def test_a_rule_of_the_users_comes_before_the_table() -> None:
    fact = Fact(id="error.rpc_error", direct=1, through=2)
    assert judge((fact,), (), None, "1")[0][0].counts == "fault"
    assert judge((fact,), (Rule(fact="error.*", counts="note", why="we know"),), None, "1")[0][0].counts == "note"
    assert judge((fact,), (Rule(fact="error.*", counts="note", why="we know", through=3),), None, "1")[0][0].counts == "fault"


def test_what_is_written_down_and_no_longer_so_is_news_and_so_is_what_is_not_written_down() -> None:
    facts = (Fact(id="a.b", direct=1, through=2), Fact(id="c.d", subject="x", direct=1, through=2), Fact(id="e.f", direct=1, through=1))
    written = Declaration(version="1", declared=(Accepted(fact="a.b", why="so"),), waived=(Accepted(fact="e.f", why="was so"),))
    found, news = judge(facts, (), written, "1")
    assert [one.counts for one in found] == ["declared", "fault", "same"]
    assert [line.partition(":")[0] for line in news] == ["no longer so", "not written down"]
    assert judge((facts[0],), (), Declaration(version="1", declared=(Accepted(fact="z.z", why="x"), *written.declared)), "1")[1] == ()
    assert "written down for version 1, measured at 2" in judge(facts, (), written, "2")[1]


def test_the_last_rule_knows_everything() -> None:
    assert DEFAULT[-1].fact == "*"
    assert DEFAULT[-1].counts == "fault"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{fact: x}", "not a list"),
        ("- {fact: x, counts: maybe, why: y}", "counts"),
        ("- {fact: x, counts: note, why: y, extra: 1}", "extra"),
        ("- &a {fact: x}", "anchor"),
        ("\x00", "rules.yaml"),
    ],
)
def test_a_bad_table_is_refused_by_file(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(LoadError, match=says):
        load_rules(file)


@pytest.mark.parametrize("target", sorted(GATEWAYS))
def test_what_is_written_down_is_of_the_pinned_version(target: str) -> None:
    written = load_declaration(declaration_file(target))
    assert written is not None
    assert written.version == installation(target, GATEWAYS[target]).version
    assert (data_root() / "targets" / target / "requirements.txt").is_file()


def test_components_hash_apart_and_names_are_mapped_only_by_the_table() -> None:
    one = listed([{"name": "p-x", "inputSchema": {"a": 1}, "title": "X"}], {"p-x": "x"}, 1, "")
    other = listed([{"title": "Y", "inputSchema": {"a": 1}, "name": "p_x"}], {}, 1, "")
    assert one["component.inputSchema/x"] == other["component.inputSchema/p_x"]
    assert one["component.title/x"] != other["component.title/p_x"]
    assert (one["list.unmapped"], other["list.unmapped"]) == ([], ["p_x"])


def record(seq: int, event: str, outcome: str, reason: str) -> dict[str, object]:
    return {"seq": seq, "event": event, "outcome": outcome, "reason": reason}


@pytest.mark.parametrize(
    ("records", "word"),
    [
        ([], "none"),
        ([record(1, "policy_decision", "success", "allow_default"), record(2, "call_started", "pending", "dispatching")], "started"),
        ([record(2, "call_completed", "success", "tool_completed"), record(1, "call_started", "pending", "dispatching")], "ok"),
        ([record(1, "call_failed", "failure", "tool_error")], "tool_error"),
        ([record(1, "call_failed", "failure", "mcp_remote_status")], "upstream_error"),
        ([record(1, "call_failed", "timeout", "tool_timeout")], "timeout"),
        ([record(1, "call_failed", "unknown", "outcome_unrecorded")], "unknown"),
        ([record(1, "policy_decision", "denied", "tool_off"), record(2, "call_denied", "denied", "tool_off")], "denied"),
        ([record(1, "approval_requested", "pending", "requires_approval_policy")], "pending"),
    ],
)
def test_how_a_call_ended_is_read_from_its_last_record(records: list[dict[str, object]], word: str) -> None:
    assert word_of(records) == word


def test_a_record_is_honest_only_with_agent_and_witness() -> None:
    assert judged("tool_error", "isError", 1, "tool_error").counts == "same"
    assert judged("tool_error", "isError", 1, "ok").why == "the record says ok, not tool_error"
    assert judged("denied", "denied", 1, "denied").why == "the provider was asked although it should not"
    assert judged("upstream_error", "success", 1, "upstream_error").why == "the agent was told of a success"
    assert judged("ok", "success", 0, "ok").why == "the provider was never asked"
    assert judged("ok", "success", 1, "none").why == "no record of the call"
    assert judged("ok", "success", 1, "untestable").why == "untestable: audit"
    assert all(judged(case, "isError", 1, next(iter(HONEST[case]))).counts == "same" for case in ("tool_error", "upstream_error", "timeout"))


def stale(**views: str) -> Staleness:
    return Staleness(**{"change": "hint-flipped", "registry": "none", "told": False, "asked": 1, **views})  # type: ignore[arg-type]


def test_an_old_list_is_honest_only_as_long_as_something_brings_the_new_one() -> None:
    assert stale(session="new", fresh_session="new", refresh="none").trouble == ""
    assert stale(session="old", fresh_session="old", refresh="new").trouble == ""
    assert stale(session="old", fresh_session="old", refresh="old").trouble.startswith("stale")
    assert stale(session="old", fresh_session="old", refresh="none").trouble.startswith("stale")
    assert stale(session="old", fresh_session="new", refresh="none").trouble.startswith("stale")
    assert stale(session="incomplete: 3 of 12 tools are missing", fresh_session="new", refresh="new").trouble.startswith("incomplete")


def test_the_comparison_page_is_what_is_written_down() -> None:
    """Nobody edits docs/gateways.md by hand, and nobody forgets to make it anew."""
    made = subprocess.run([sys.executable, data_root() / "gateways" / "make_page.py", "--check"], capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout + made.stderr
