"""Honcho's stand-in as a whole: listing, credentials, accounts, errors, MEM-5's seven calls, the trap of reads that write."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from harness.fake import honcho_knowledge, honcho_places, honcho_scopes, honcho_sessions
from harness.fake.honcho import FAKE

if TYPE_CHECKING:
    from tests.fake.conftest import Bench, BenchOf, Wire

FACT = "The zq17 navigator keeps a silver compass in a maple cabinet."
QUESTION = "What does the navigator keep in the maple cabinet?"
UNRELATED = "Which vegetables grow under glass during winter?"
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
INVENTORY = Path(__file__).parents[2] / "inventories" / "honcho.yaml"  # read by the test only: a stand-in never reads it
PUBLISHED = {tool["name"]: tool for tool in yaml.safe_load(INVENTORY.read_text("utf-8"))["tools"]}


class Account:
    """One credential, at work in workspace "ws" unless a call says otherwise."""

    def __init__(self, wire: Wire, bench: Bench) -> None:
        self.wire = wire
        self.bench = bench

    def get(self, tool: str, **arguments: Any) -> Any:
        answer = self.wire.ask(tool, **{"workspace_id": "ws", **arguments})
        assert not answer.is_error, answer.text
        return answer.text if tool == "get_representation" else answer.json

    def refused(self, tool: str, containing: str, **arguments: Any) -> None:
        answer = self.wire.ask(tool, **{"workspace_id": "ws", **arguments})
        assert answer.is_error, answer.text
        assert containing in answer.text

    def say(self, content: str = FACT, session: str = "s", peer: str = "ann", **more: Any) -> str:
        message = {"peer_id": peer, "content": content, **more}
        said = self.get("add_messages_to_session", session_id=session, messages=[message])["messages"]
        return str(said[0]["id"])

    def conclude(self, *contents: str, about: str = "bob", **more: Any) -> list[str]:
        made = self.get("create_conclusions", peer_id="ann", target_peer_id=about, conclusions=list(contents), **more)
        return [one["id"] for one in made["conclusions"]]

    def ids(self, tool: str, **arguments: Any) -> list[str]:
        return [one["id"] for one in self.get(tool, **arguments)["messages" if tool == "get_session_messages" else "items"]]

    def seats(self, session: str = "s") -> list[str]:
        return [one["peer_id"] for one in self.get("get_session_peers", session_id=session)["peers"]]


@contextmanager
def account_of(bench_of: BenchOf) -> Iterator[Account]:
    bench = bench_of("honcho")
    with bench.open() as wire:
        yield Account(wire, bench)


@pytest.mark.parametrize("version", VERSIONS)
def test_forty_tools_are_listed_in_pages(bench_of: BenchOf, version: str) -> None:
    with bench_of("honcho").open(version=version) as wire:
        pages = wire.pages()
    assert len(pages) >= 2
    tools = {tool.name: tool for page in pages for tool in page.tools}
    assert sorted(tools) == sorted(PUBLISHED)
    assert sum(len(page.tools) for page in pages) == 40
    for name, tool in tools.items():
        shape = {key: part for key, part in tool.input_schema.items() if key != "$schema"}
        assert set(shape["properties"]) == set(PUBLISHED[name]["parameters"])
        assert name in FAKE.assumed_shapes or shape == PUBLISHED[name]["shape"]
    assert all("workspace_id" in tool.input_schema["properties"] for tool in tools.values() if tool.name != "list_workspaces")
    assert all(tool.description for tool in tools.values())


def test_every_tool_belongs_to_one_family() -> None:
    """Each family's tests check that none of its tools is without a test."""
    families = (honcho_places, honcho_sessions, honcho_knowledge, honcho_scopes)
    assert sorted(name for family in families for name in family.HANDLERS) == sorted(PUBLISHED)


def test_the_two_guessed_shapes_are_named() -> None:
    assert FAKE.assumed_shapes == {"chat", "workspace_chat"}
    guessed = {tool.name: tool.input_schema for tool in FAKE.tools if tool.name in FAKE.assumed_shapes}
    both = {"workspace_id", "query", "session_id", "scope", "reasoning_level", "include_evidence"}
    assert set(guessed["workspace_chat"]["properties"]) == both
    assert set(guessed["chat"]["properties"]) == both | {"peer_id", "target_peer_id", "sessions"}


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", "Basic abc", "Bearer"])
def test_a_stranger_is_challenged(bench_of: BenchOf, authorization: str | None) -> None:
    bench = bench_of("honcho")
    headers = {"Authorization": authorization} if authorization else {}
    refused = bench.http("POST", "/mcp", headers=headers, json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert refused.status_code == 401
    challenge = refused.headers["www-authenticate"]
    assert challenge.startswith("Bearer ")
    assert "error" in refused.json()
    resource = challenge.partition('resource_metadata="')[2].partition('"')[0]
    assert resource.startswith(bench.fake.base_url)
    described = bench.http("GET", resource.removeprefix(bench.fake.base_url))
    assert described.json()["resource"] == bench.fake.mcp_url


@pytest.mark.parametrize("version", VERSIONS)
def test_the_seven_calls_return_the_exact_fact_and_message_id(bench_of: BenchOf, version: str) -> None:
    with bench_of("honcho").open(version=version) as wire:

        def get(tool: str, **arguments: Any) -> Any:
            answer = wire.ask(tool, **arguments)
            assert not answer.is_error, answer.text
            return answer.json

        assert get("list_workspaces")["items"] == []
        assert get("create_workspace", workspace_id="ws")["id"] == "ws"
        assert get("create_peer", workspace_id="ws", peer_id="ann")["id"] == "ann"
        assert get("create_session", workspace_id="ws", session_id="talk")["id"] == "talk"
        seats = get("add_peers_to_session", workspace_id="ws", session_id="talk", peers=["ann"])["peers"]
        assert [seat["peer_id"] for seat in seats] == ["ann"]
        messages = [{"peer_id": "ann", "content": FACT}]
        (said,) = get("add_messages_to_session", workspace_id="ws", session_id="talk", messages=messages)["messages"]
        (read,) = get("get_session_messages", workspace_id="ws", session_id="talk")["messages"]
        assert (read["content"], read["id"]) == (FACT, said["id"])
        assert get("get_queue_status", workspace_id="ws")["pendingWorkUnits"] == 1
        bench_of("honcho").advance(10_000_000)
        assert get("get_queue_status", workspace_id="ws")["pendingWorkUnits"] == 1  # no deriver: it waits for ever


def test_credentials_do_not_share_data(bench_of: BenchOf) -> None:
    with bench_of("honcho").open() as one, bench_of("honcho").open() as other:
        said = []
        for wire in (one, other):
            answer = wire.ask("add_messages_to_session", workspace_id="ws", session_id="s", messages=[{"peer_id": "p", "content": FACT}])
            said.append(answer.json["messages"][0]["id"])
        assert said[0] != said[1]
        assert one.ask("get_session_message", workspace_id="ws", session_id="s", message_id=said[1]).is_error
        one.ask("create_workspace", workspace_id="mine")
        assert [w["id"] for w in other.ask("list_workspaces").json["items"]] == ["ws"]


def test_reads_create_what_they_name(bench_of: BenchOf) -> None:
    """The provider's own trap: a typo reads as a clean, empty success and leaves junk behind."""
    with bench_of("honcho").open() as wire:
        empty = wire.ask("get_session_messages", workspace_id="ghost-ws", session_id="ghost-s")
        assert not empty.is_error
        assert empty.json["messages"] == []
        wire.ask("get_peer_card", workspace_id="ghost-ws", peer_id="ghost-p")
        assert [w["id"] for w in wire.ask("list_workspaces").json["items"]] == ["ghost-ws"]
        assert [s["id"] for s in wire.ask("list_sessions", workspace_id="ghost-ws").json["items"]] == ["ghost-s"]
        assert [p["id"] for p in wire.ask("list_peers", workspace_id="ghost-ws").json["items"]] == ["ghost-p"]


def test_the_workspace_may_come_from_the_connection(bench_of: BenchOf) -> None:
    with bench_of("honcho").open(workspace_id="home") as wire:
        assert wire.ask("create_workspace").json["id"] == "home"
        assert wire.ask("create_peer", peer_id="ann").json["id"] == "ann"
        assert wire.ask("list_peers", workspace_id="elsewhere").json["total"] == 0
        assert wire.ask("list_peers").json["total"] == 1


def test_unknown_tools_and_bad_arguments_are_error_results(bench_of: BenchOf) -> None:
    with bench_of("honcho").open() as wire:
        for answer in (
            wire.ask("no_such_tool"),
            wire.ask("create_peer", workspace_id="ws"),
            wire.ask("create_peer", workspace_id=7, peer_id="ann"),
            wire.ask("add_messages_to_session", workspace_id="ws", session_id="s", messages=[{"peer_id": "ann"}]),
            wire.ask("list_workspaces", page=0),
            wire.ask("list_sessions", workspace_id="ws", size=101),
            wire.ask("get_conclusions", workspace_id="ws", conclusion_ids=[]),
            wire.ask("chat", workspace_id="ws", peer_id="ann", query="x", reasoning_level="extreme"),
        ):
            assert answer.is_error
            assert answer.text.startswith("MCP error -32602: ")
        assert wire.ask("list_workspaces").json["total"] == 0


def test_a_configured_failure_changes_nothing(bench_of: BenchOf) -> None:
    with bench_of("honcho").open(fail={"create_workspace": "An unexpected error occurred"}) as wire:
        broken = wire.ask("create_workspace", workspace_id="ws")
        assert (broken.is_error, broken.text) == (True, "An unexpected error occurred")
        assert wire.ask("list_workspaces").json["total"] == 0


def test_results_are_one_text_block_of_json(bench_of: BenchOf) -> None:
    with bench_of("honcho").open() as wire:
        answer = wire.ask("create_workspace", workspace_id="ws", metadata={"größe": [1, 2.5, None]})
        assert answer.result.structured_content is None
        assert json.loads(answer.text)["metadata"] == {"größe": [1, 2.5, None]}
