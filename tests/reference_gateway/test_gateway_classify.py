"""Risk from the wire: all 82 published classes, the traps of names, and what hints can and cannot do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_gateway.classify import MEMORY_PROVIDERS, classify

PUBLISHED: dict[str, dict[str, list[str]]] = json.loads((Path(__file__).parent / "data" / "published_risks.json").read_text())
ROWS = [(provider, name, risk) for provider, risks in PUBLISHED.items() for risk, names in risks.items() for name in names]
ORDER = {"read": 0, "write": 1, "destructive": 2}
NAMES = st.from_regex(r"[A-Za-z0-9_./: -]{0,30}", fullmatch=True) | st.text(max_size=30)


def test_there_are_82_published_tools() -> None:
    assert len(ROWS) == 82


@pytest.mark.parametrize(("provider", "name", "risk"), ROWS)
def test_a_published_tool_has_its_published_risk_from_its_name_alone(provider: str, name: str, risk: str) -> None:
    assert classify(provider, {"name": name}).risk == risk


@pytest.mark.parametrize(
    ("name", "risk", "reason"),
    [
        ("HTTPDelete", "write", "unknown"),  # no lower-case letter before the capital: one word
        ("httpDelete", "destructive", "verb:delete"),
        ("v2Delete", "destructive", "verb:delete"),
        ("get_record", "write", "verb:record"),
        ("list_settings", "read", "verb:list"),
        ("who_am_i", "read", "verb:who"),
        ("whoami", "write", "unknown"),
        ("getaway", "write", "unknown"),
        ("memory.get", "read", "verb:get"),
        ("memory/get", "read", "verb:get"),
        ("memory:get:v2", "read", "verb:get"),
        ("please get it", "read", "verb:get"),
        ("get2", "write", "unknown"),
        ("get_and_delete", "destructive", "verb:delete"),
        ("undelete_memory", "write", "unknown"),
        ("listForget", "destructive", "verb:forget"),
        ("  get_memory  ", "read", "verb:get"),
        ("获取记忆", "write", "unknown"),
        ("éget", "read", "verb:get"),
        ("", "write", "unknown"),
    ],
)
def test_traps_of_names(name: str, risk: str, reason: str) -> None:
    found = classify("mem0", {"name": name})
    assert (found.risk, found.reason) == (risk, reason)


@pytest.mark.parametrize("name", ["add_memory", "add-memory", "addMemory", "Add Memory", "add.memory"])
def test_the_reviewed_override_is_supermemorys_alone(name: str) -> None:
    assert classify("supermemory", {"name": name}).risk == "destructive"
    assert classify("mem0", {"name": name}).risk == "write"
    assert classify("supermemory", {"name": f"{name}_to_graph"}).risk == "write"


@pytest.mark.parametrize(
    ("name", "annotations", "risk"),
    [
        ("get_memory", {"destructiveHint": True}, "destructive"),
        ("get_memory", {"destructive": True}, "destructive"),
        ("get_memory", {"destructiveHint": "true"}, "read"),
        ("get_memory", {"readOnlyHint": False}, "write"),
        ("get_memory", {"writeHint": True}, "write"),
        ("get_memory", {"readOnlyHint": None}, "read"),
        ("delete_memory", {"readOnlyHint": True, "destructiveHint": False}, "destructive"),
        ("add_memory", {"readOnlyHint": True}, "write"),
        ("chat", {"readOnlyHint": True}, "write"),
        ("get_memory", ["destructiveHint"], "read"),
        ("get_memory", None, "read"),
    ],
)
def test_hints_raise_and_never_lower(name: str, annotations: Any, risk: str) -> None:
    assert classify("mem0", {"name": name, "annotations": annotations}).risk == risk


@pytest.mark.parametrize(
    ("name", "risk"),
    [
        ("forget", "destructive"), ("prune_graph", "destructive"), ("unpublish-page", "destructive"), ("drop_table", "destructive"),
        ("add_memory", "write"), ("remember", "write"), ("sendMail", "write"), ("archive", "write"), ("frobnicate", "write"),
        ("list_pages", "read"), ("search", "read"),
    ],
)  # fmt: skip
def test_a_generic_server_is_judged_strictly(name: str, risk: str) -> None:
    assert classify("generic", {"name": name}).risk == risk


@given(st.sampled_from([*sorted(MEMORY_PROVIDERS), "generic"]), NAMES, st.booleans())
def test_the_providers_own_assurances_never_lower_a_class(provider: str, name: str, extra: bool) -> None:
    bare = classify(provider, {"name": name})
    hinted = classify(provider, {"name": name, "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": extra}})
    assert hinted == bare


@given(st.sampled_from(sorted(MEMORY_PROVIDERS)), NAMES)
def test_the_strict_profile_never_claims_less(provider: str, name: str) -> None:
    if provider != "supermemory":
        assert ORDER[classify("generic", {"name": name}).risk] >= ORDER[classify(provider, {"name": name}).risk]


@given(st.sampled_from(["delete", "forget", "add", "get"]), st.from_regex(r"[a-z0-9]{1,5}", fullmatch=True))
def test_a_verb_inside_a_longer_word_does_not_speak(verb: str, letters: str) -> None:
    for name in (verb + letters, letters + verb):
        if classify("mem0", {"name": name}).reason == f"verb:{verb}":
            pytest.fail(f"{name} was read as {verb}")


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_nothing_a_provider_sends_makes_it_fail(junk: Any) -> None:
    assert classify("zep", {"name": junk, "annotations": junk}).risk in ORDER
    assert classify("zep", {}).risk == "write"
