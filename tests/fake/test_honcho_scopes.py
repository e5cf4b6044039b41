"""Honcho's tools for scopes, through the wire: what each does, and what each refuses without effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from harness.fake import honcho_scopes
from tests.fake.test_honcho import Account, account_of

if TYPE_CHECKING:
    from tests.fake.conftest import BenchOf


@pytest.fixture
def a(bench_of: BenchOf) -> Iterator[Account]:
    with account_of(bench_of) as opened:
        yield opened


def test_no_tool_is_without_its_two_tests() -> None:
    wanted = {f"test_{tool}{end}" for tool in honcho_scopes.HANDLERS for end in ("", "_refuses")}
    assert wanted <= set(globals())


def test_create_scope(a: Account) -> None:
    a.get("create_scope", scope_id="trip", metadata={"k": 1})
    a.get("create_scope", scope_id="trip")
    (scope,) = a.get("list_scopes")["items"]
    assert (scope["id"], scope["metadata"], scope["session_count"]) == ("trip", {"k": 1}, 0)


def test_create_scope_refuses(a: Account) -> None:
    a.refused("create_scope", "Invalid scope id", scope_id="a trip")
    assert a.ids("list_scopes") == []


def test_list_scopes(a: Account) -> None:
    for name in ("s1", "s2", "s3"):
        a.get("create_scope", scope_id=name)
    assert a.ids("list_scopes", size=2, page=2) == ["s3"]
    assert a.ids("list_scopes", workspace_id="other") == []


def test_list_scopes_refuses(a: Account) -> None:
    a.refused("list_scopes", "-32602", size=101)


def test_get_scope_status(a: Account) -> None:
    a.wire.configure(index_delay_s=30)
    a.get("create_scope", scope_id="trip")
    a.say()
    a.say(session="outside")
    assert a.get("get_scope_status", scope_id="trip")["status"] == "ready"
    a.get("add_sessions_to_scope", scope_id="trip", session_ids=["s"])
    status = a.get("get_scope_status", scope_id="trip")
    assert (status["status"], status["pendingWorkUnits"], status["session_count"]) == ("pending", 1, 1)
    a.bench.advance(30)
    assert a.get("get_scope_status", scope_id="trip")["status"] == "ready"


def test_get_scope_status_refuses(a: Account) -> None:
    a.refused("get_scope_status", "Scope trip not found", scope_id="trip")
    assert a.ids("list_scopes") == []  # a scope is not made by reading it


def test_get_scope_sessions(a: Account) -> None:
    names = ["s3", "s1", "s2"]
    for name in names:
        a.get("create_session", session_id=name)
    a.get("create_scope", scope_id="trip")
    assert a.ids("get_scope_sessions", scope_id="trip") == []
    a.get("add_sessions_to_scope", scope_id="trip", session_ids=names)
    assert a.ids("get_scope_sessions", scope_id="trip", size=2) == ["s3", "s1"]
    assert a.ids("get_scope_sessions", scope_id="trip", size=2, page=2) == ["s2"]


def test_get_scope_sessions_refuses(a: Account) -> None:
    a.refused("get_scope_sessions", "Scope trip not found", scope_id="trip")


def test_add_sessions_to_scope(a: Account) -> None:
    for name in ("s1", "s2"):
        a.get("create_session", session_id=name)
    a.get("create_scope", scope_id="trip")
    a.get("add_sessions_to_scope", scope_id="trip", session_ids=["s1"])
    a.get("add_sessions_to_scope", scope_id="trip", session_ids=["s1", "s2"])  # what is in it already, stays once
    assert a.ids("get_scope_sessions", scope_id="trip") == ["s1", "s2"]


def test_add_sessions_to_scope_refuses(a: Account) -> None:
    a.get("create_session", session_id="s1")
    a.refused("add_sessions_to_scope", "Scope trip not found", scope_id="trip", session_ids=["s1"])
    a.get("create_scope", scope_id="trip")
    a.refused("add_sessions_to_scope", "Session gone not found", scope_id="trip", session_ids=["s1", "gone"])
    assert a.ids("get_scope_sessions", scope_id="trip") == []
    assert a.ids("list_sessions") == ["s1"]


def test_remove_session_from_scope(a: Account) -> None:
    for name in ("s1", "s2"):
        a.get("create_session", session_id=name)
    a.get("create_scope", scope_id="trip")
    a.get("add_sessions_to_scope", scope_id="trip", session_ids=["s1", "s2"])
    a.get("remove_session_from_scope", scope_id="trip", session_id="s1")
    assert a.ids("get_scope_sessions", scope_id="trip") == ["s2"]
    assert a.ids("list_sessions") == ["s1", "s2"]


def test_remove_session_from_scope_refuses(a: Account) -> None:
    a.get("create_scope", scope_id="trip")
    a.refused("remove_session_from_scope", "Session s1 is not in scope trip", scope_id="trip", session_id="s1")
    a.refused("remove_session_from_scope", "Scope gone not found", scope_id="gone", session_id="s1")
    assert a.ids("list_sessions") == []
