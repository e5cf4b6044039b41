"""The oracle on the 82 reviewed tools, on names it has never seen, and its disagreements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.inventory.store import load_inventories
from harness.model.risk import Risk, rank
from harness.model.tool import Tool
from harness.risk.compare import RiskClaim, catalog_disagreements, disagreements
from harness.risk.oracle import Oracle
from harness.risk.words import words

PUBLISHED = ("cognee", "honcho", "mem0", "supermemory", "zep")  # the hosted providers of the published inventory: 82 tools
INVENTORIES = {name: found for name, found in load_inventories(Path(__file__).parents[2] / "inventories").items() if name in PUBLISHED}
ORACLE = Oracle(INVENTORIES)
BARE = Oracle({})


def test_all_reviewed_risks_come_out() -> None:
    records = [(inventory.provider, record) for inventory in INVENTORIES.values() for record in inventory.tools]
    assert len(records) >= 82
    for provider, record in records:
        verdict = ORACLE.judge(provider, Tool.from_wire({"name": record.name}))
        assert (verdict.risk, verdict.basis) == (record.risk, "reviewed")


def test_without_the_table_names_alone_give_the_reviewed_class_except_one_override() -> None:
    odd = {
        (inventory.provider, record.name)
        for inventory in INVENTORIES.values()
        for record in inventory.tools
        if BARE.judge_name(inventory.provider, record.name).risk != record.risk
    }
    assert odd == {("supermemory", "add_memory")}


@pytest.mark.parametrize(
    ("name", "hints", "risk", "basis"),
    [
        ("HTTPDelete", {}, "destructive", "name"),
        ("getURLDelete", {}, "destructive", "name"),
        ("get_record", {}, "write", "name"),
        ("list_settings", {}, "read", "name"),
        ("listItems", {}, "read", "name"),
        ("list_v2_items", {}, "read", "name"),
        ("get2", {}, "write", "floor"),
        ("delete2", {}, "destructive", "name"),
        ("who am i", {}, "read", "name"),
        ("chat", {}, "write", "floor"),
        ("", {}, "write", "floor"),
        ("🗑", {}, "write", "floor"),
        ("dеlеte_all", {}, "destructive", "name"),  # Cyrillic е
        ("ｄｅｌｅｔｅ", {}, "destructive", "name"),  # full width
        ("dele\u200bte", {}, "destructive", "name"),  # zero width space
        ("gеt_page", {}, "write", "floor"),  # a look-alike never lowers
        ("search", {"readOnlyHint": False}, "write", "hint"),
        ("search", {"writeHint": True}, "write", "hint"),
        ("search", {"readOnlyHint": True, "destructiveHint": True}, "destructive", "hint"),
        ("search", {"destructive": True}, "destructive", "hint"),
        ("search", {"destructiveHint": "true"}, "read", "name"),
        ("delete_x", {"readOnlyHint": True}, "destructive", "name"),
        ("chat", {"readOnlyHint": True}, "write", "floor"),
        ("wipe_space", {}, "destructive", "name"),
        ("get_and_send", {}, "write", "name"),
    ],
)
def test_names_nobody_reviewed(name: str, hints: dict[str, Any], risk: Risk, basis: str) -> None:
    verdict = ORACLE.judge_name("generic", name, hints)
    assert (verdict.risk, verdict.basis) == (risk, basis)
    assert verdict.reason


def test_a_destructive_hint_raises_a_reviewed_class_and_a_read_only_hint_lowers_none() -> None:
    raised = ORACLE.judge_name("mem0", "add_memory", {"destructiveHint": True})
    assert (raised.risk, raised.basis) == ("destructive", "hint")
    assert ORACLE.judge_name("mem0", "delete_memory", {"readOnlyHint": True, "destructiveHint": False}).risk == "destructive"


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("HTTPDelete", ("http", "delete")),
        ("addMemoryToGraph", ("add", "memory", "to", "graph")),
        ("fetch-graph.data/x", ("fetch", "graph", "data", "x")),
        ("v2_get", ("v", "2", "get")),
        ("記憶_削除", ("記憶", "削除")),
    ],
)
def test_words(name: str, found: tuple[str, ...]) -> None:
    assert words(name) == found


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20), st.dictionaries(st.sampled_from(["readOnlyHint", "destructiveHint", "writeHint", "title"]), st.booleans()))
def test_any_name_gets_a_class_and_a_read_only_hint_never_lowers_it(name: str, hints: dict[str, bool]) -> None:
    verdict = BARE.judge_name("x", name, hints)
    assert rank(BARE.judge_name("x", name, {**hints, "readOnlyHint": True}).risk) <= rank(verdict.risk)
    bare = BARE.judge_name("x", name)
    assert rank(verdict.risk) >= rank(bare.risk)


def test_direction_and_reason_of_a_disagreement() -> None:
    verdict = ORACLE.judge_name("mem0", "delete_memory")
    claims = [RiskClaim(by="gateway", risk="read", why="verb:get"), RiskClaim(by="other", risk="destructive")]
    (found,) = disagreements(verdict, claims)
    assert (found.id, found.severity, found.direction, found.claimed_by) == ("risk-under-claimed", "fail", "under", "gateway")
    assert "verb:get" in found.message
    assert "destructive" in found.fix
    (over,) = disagreements(ORACLE.judge_name("mem0", "get_memory"), [RiskClaim(by="gateway", risk="write")])
    assert (over.id, over.severity) == ("risk-over-claimed", "warn")


def test_a_catalog_is_compared_entry_by_entry() -> None:
    entries = [{"name": record.name, "risk": record.risk, "annotations": None} for record in INVENTORIES["honcho"].tools]
    assert catalog_disagreements(ORACLE, "honcho", entries) == ()
    entries[0] = {**entries[0], "risk": "read", "risk_reason": "weakened"}
    (found,) = catalog_disagreements(ORACLE, "honcho", entries)
    assert (found.tool, found.direction) == (entries[0]["name"], "under")
    with pytest.raises(ValueError, match="no risk class"):
        catalog_disagreements(ORACLE, "honcho", [{"name": "x", "risk": "low"}])
