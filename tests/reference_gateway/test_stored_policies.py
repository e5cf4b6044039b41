"""Policies in a store that somebody else wrote to: whatever cannot be read denies, and a new one that can be puts an end to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference_gateway.app import Gateway, Options, opened_store
from reference_gateway.audit import AuditLog
from reference_gateway.catalog import Tool
from reference_gateway.clock import TestClock
from reference_gateway.defects import Defects
from reference_gateway.policy import Policies
from reference_gateway.store.base import Store

from .conftest import OPERATOR_TOKEN, Bench, Operator, Provider, Refused, Served

OFF = {"id": "x", "permission": "off"}
SHAPES: list[Any] = [
    {"policies": [{"id": "x", "permission": "allowed", "when": "moon is full"}]},
    {"policies": [None]},
    {"policies": [[]]},
    {"policies": None},
    {"policies": 5},
    {"policies": "abc"},
    {"policies": {}},
    {"policies": {"x": OFF}},
    {"polices": [OFF]},
    {"policies": [], "polices": [OFF]},
    {},
    [],
    [OFF],
]
CALLED = Tool("add_note", {}, "write", "name", "", {})


@pytest.fixture
def store() -> Iterator[Store]:
    with opened_store(None) as opened:
        yield opened


@pytest.fixture
def bench(store: Store, provider: Provider) -> Iterator[Bench]:
    """On a store that the test can reach as well."""
    chosen = Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, test_clock=True, experimental=("memory_connectors",))
    with Served(Gateway(chosen, store, lambda: None).asgi()) as served:
        operator = Operator(f"http://127.0.0.1:{served.port}")
        made = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        made.connect()
        yield made
        operator.http.close()


def test_policies_that_cannot_be_read_deny_until_there_are_others(bench: Bench, store: Store) -> None:
    _, token = bench.run()
    for number, shape in enumerate(SHAPES):
        store.setting_put(bench.tenant, "policies", shape)
        assert bench.call(token, "add_note", {"text": "a"})["_meta"]["gateway/reason"] == "policy_block", shape
        assert len(bench.provider.calls) == number
        bench.op("PUT", "/policies", {"policies": []})
        assert bench.call(token, "add_note", {"text": "a"})["_meta"]["gateway/outcome"] == "success", shape


def test_an_operator_learns_that_what_is_stored_is_no_list_of_policies(bench: Bench, store: Store) -> None:
    assert bench.op("GET", "/policies") == {"policies": []}
    store.setting_put(bench.tenant, "policies", {"polices": [OFF]})
    with pytest.raises(Refused) as refused:
        bench.op("GET", "/policies")
    assert (refused.value.status, refused.value.code, refused.value.error["where"]) == (409, "policies_unreadable", "policies")
    assert "put the policies anew" in refused.value.error["fix"]
    bench.op("PUT", "/policies", {"policies": [OFF]})
    assert bench.op("GET", "/policies") == {"policies": [OFF]}


scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
keys = st.sampled_from(["policies", "Policies", "id"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3))
containers = st.lists(values, max_size=3) | st.dictionaries(keys, values, max_size=3)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(doc=containers)
def test_any_other_container_denies_and_none_is_an_error_of_ours(store: Store, doc: Any) -> None:
    policies = Policies(store, AuditLog(store, TestClock()), Defects())
    store.setting_put("t", "policies", doc)
    right = doc == {"policies": []}
    assert policies.rules("t").word("agent-1", "notes", CALLED) == (None if right else "off")
