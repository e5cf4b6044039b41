"""The kit: accounts, the gate, settings, serving and stopping, through stand-ins that are really served."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.exceptions import MCPError

from harness.clock import TestClock
from harness.errors import PortInUse, Unreachable, UsageError
from harness.fake.kit import Account, AccountBook, Consent, Settings, providers, serve, serve_app
from harness.fake.kit_store import Ids, numbered_page, open_cursor, ranked, score, seal_cursor

if TYPE_CHECKING:
    from tests.fake.conftest import Bench, BenchOf, Wire

ROOT = Path(__file__).parents[2]
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
MINE = ("mem0", "supermemory", "zep")


@pytest.fixture(scope="module")
def bench(bench_of: BenchOf) -> Bench:
    return bench_of("mem0")


@pytest.fixture
def wire(bench: Bench) -> Iterator[Wire]:
    with bench.open() as opened:
        yield opened


def remember(wire: Wire, text: str) -> Any:
    return wire.ask("add_memory", text=text, infer=False)


# what is listed


@pytest.mark.parametrize("provider", MINE)
def test_names_parameters_and_known_shapes_are_those_of_the_inventory(bench_of: BenchOf, provider: str) -> None:
    agreed = yaml.safe_load((ROOT / "inventories" / f"{provider}.yaml").read_text())["tools"]
    with bench_of(provider).open() as wire:
        listed = {tool.name: tool.input_schema for tool in wire.tools()}
    assert set(listed) == {tool["name"] for tool in agreed}
    for tool in agreed:
        schema = listed[tool["name"]]
        assert sorted(schema.get("properties", {})) == sorted(tool["parameters"])
        assert (tool["name"] in providers()[provider].assumed_shapes) == ("shape" not in tool)
        if "shape" in tool:
            assert schema == tool["shape"], tool["name"]


@pytest.mark.parametrize("provider", MINE)
def test_every_tool_describes_itself(bench_of: BenchOf, provider: str) -> None:
    with bench_of(provider).open() as wire:
        assert all(tool.description and tool.annotations for tool in wire.tools())


@pytest.mark.parametrize("cursor", ["", "garbage", seal_cursor("tools", 999), seal_cursor("other", 4)])
def test_a_cursor_that_is_not_ours_is_refused(wire: Wire, cursor: str) -> None:
    with pytest.raises(MCPError) as caught:
        wire.list_at(cursor)
    assert caught.value.code == -32602


# accounts


def test_a_revoked_credential_is_turned_away_and_its_store_is_gone(bench: Bench) -> None:
    with bench.open() as wire:
        remember(wire, "something")
        headers = {"Authorization": f"Bearer {wire.credential}"}
        assert bench.http("GET", "/nowhere", headers=headers).status_code == 404
        bench.fake.revoke(wire.credential)
        assert bench.http("POST", "/mcp", json={}, headers=headers).status_code == 401
        bench.fake.admit(Account(wire.credential, "back again"))
        assert wire.get("get_memories")["results"] == []


def test_admitting_again_changes_the_consent_and_keeps_store_and_settings() -> None:
    book: AccountBook[list[int]] = AccountBook("x", lambda account: [])
    book.admit(Account("c", "first"))
    book.configure("c", index_delay_s=7)
    before = book.find("c")
    assert before is not None
    before.store.append(1)
    book.admit(Account("c", "second", Consent("read")))
    after = book.find("c")
    assert after is not None
    assert (after.account.consent.access, after.store, after.settings.index_delay_s) == ("read", [1], 7)
    assert (book.find("other"), book.find(None)) == (None, None)


def test_settings_for_strangers_and_unknown_settings_are_usage_errors(bench: Bench, wire: Wire) -> None:
    with pytest.raises(UsageError, match="not admitted"):
        bench.fake.configure("nobody", index_delay_s=1)
    with pytest.raises(UsageError, match="index_dealy_s") as caught:
        wire.configure(index_dealy_s=1)
    assert "index_delay_s" in caught.value.fix


def test_a_setting_for_one_tool_wins_over_the_one_for_all() -> None:
    table = {"*": 1.0, "recall": 12.0}
    assert (Settings().of(table, "recall"), Settings().of(table, "forget"), Settings().of({}, "forget")) == (12.0, 1.0, None)


# latency, on the serving clock


@pytest.mark.parametrize(("setting", "effect_before_the_end"), [("latency_s", False), ("answer_latency_s", True)])
@pytest.mark.parametrize("version", VERSIONS)
def test_latency_passes_on_the_given_clock(bench: Bench, version: str, setting: str, effect_before_the_end: bool) -> None:
    with bench.open(version=version) as wire:
        wire.configure(**{setting: {"add_memory": 35}})
        call = wire.start("add_memory", text="slow", infer=False)
        bench.wait_for(lambda: bench.clock.asleep == 1)
        assert ("slow" in wire.ask("get_memories").text) == effect_before_the_end
        bench.advance(34.5)
        assert not call.done()
        bench.advance(0.5)
        assert not call.result(timeout=30).is_error
        assert "slow" in wire.ask("get_memories").text


# serving


@pytest.mark.parametrize("version", VERSIONS)
def test_stopping_does_not_wait_for_parked_calls(bench: Bench, version: str) -> None:
    """The server goes while a call of a client sleeps on a clock that nobody advances."""
    try:
        with bench.another("mem0") as (fresh, stop), fresh.open(version=version) as wire:
            wire.configure(latency_s={"*": 3600})
            call = wire.start("list_entities")
            fresh.wait_for(lambda: fresh.clock.asleep == 1)
            stop()
            assert call.exception(timeout=30) is not None
            assert fresh.clock.asleep == 0
    except* httpx2.TransportError:
        pass  # how this client says at its end that the server went away


async def _served_on(port: int) -> None:
    async with serve("mem0", TestClock(), port=port):
        pass


def test_a_port_in_use_is_said(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(PortInUse) as caught:
        bench.portal.call(_served_on, taken.getsockname()[1])
    assert caught.value.fix


def test_an_unknown_provider_is_a_usage_error_with_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        providers().need("mem1")
    assert "mem0" in caught.value.fix


def test_an_application_that_does_not_start_is_unreachable(bench: Bench) -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "lifespan"
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no"})

    async def run() -> None:
        async with serve_app(broken):
            pass

    with pytest.raises(Unreachable):
        bench.portal.call(run)


def test_a_stand_in_can_be_served_by_hand() -> None:
    command = [sys.executable, "-m", "harness.fake", "supermemory", "--credential", "k", "--read-only", "--tag", "t", "--index-delay", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        assert ready["ready"] == "supermemory"
        port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)/mcp", ready["url"])[1])  # type: ignore[index]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            assert b" 401 " in connection.recv(4096)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_a_wrong_provider_by_hand_is_exit_code_two() -> None:
    command = [sys.executable, "-m", "harness.fake", "mem1", "--credential", "k"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, "mem0" in done.stderr, "Traceback" in done.stderr) == (2, True, False)


# ids, pages, cursors, search


@given(st.text(max_size=8), st.text(max_size=8))
def test_ids_repeat_for_an_account_and_differ_between_accounts(one: str, other: str) -> None:
    def made(credential: str) -> list[str]:
        ids = Ids("p", credential)
        return [*(ids.uuid("a") for _ in range(3)), *(ids.uuid("b") for _ in range(3)), *(ids.short("a", 22) for _ in range(3))]

    assert made(one) == made(one)
    assert len(set(made(one))) == 9
    assert set(made(one)).isdisjoint(made(other)) == (one != other)


@given(st.lists(st.integers(), max_size=30), st.integers(1, 7))
def test_numbered_pages_cover_a_list_once(items: list[int], size: int) -> None:
    pages = numbered_page(items, 1, size).pages
    assert [item for n in range(1, pages + 1) for item in numbered_page(items, n, size).items] == items
    assert numbered_page(items, pages + 1, size).items == ()
    assert [numbered_page(items, n, size).has_next for n in range(1, pages + 1)] == [True] * (pages - 1) + [False] * bool(pages)


@given(st.text(max_size=9), st.integers(0, 10**6), st.text(max_size=20))
def test_only_a_cursor_of_this_list_opens(kind: str, offset: int, junk: str) -> None:
    cursor = seal_cursor(kind, offset)
    assert open_cursor(kind, cursor) == offset
    assert open_cursor(kind + "!", cursor) is None
    opened = open_cursor(kind, junk)
    assert opened is None or seal_cursor(kind, opened) == junk


@pytest.mark.parametrize(
    ("query", "text", "expected"),
    [
        ("What does the navigator keep in the cabinet?", "The navigator keeps it in a cabinet.", 1.0),
        ("red boats", "a red boat", 1.0),
        ("RED", "Straße red", 1.0),
        ("STRASSE", "die straße", 1.0),
        ("red whale", "a red boat", 0.5),
        ("the a", "the end of a day", 1.0),
        ("whale", "a boat", 0.0),
        ("", "a boat", 0.0),
        ("!?", "really!? yes", 1.0),
        ("!?", "no", 0.0),
        ("羅針盤", "銀の羅針盤", 1.0),
        ("ｃｏｍｐａｓｓ", "compass", 1.0),
    ],
)
def test_score_is_the_share_of_telling_words_that_are_there(query: str, text: str, expected: float) -> None:
    assert score(query, text) == expected


def test_ranked_leaves_out_what_is_barely_alike_and_keeps_ties_in_order() -> None:
    texts = ["one two", "one", "two", "one of ten five six seven eight", "other"]
    assert ranked("one two three four", texts, lambda text: text) == [(0.5, "one two"), (0.25, "one"), (0.25, "two"), (0.25, texts[3])]
    assert ranked("one two three four five", texts, lambda text: text) == [(0.4, "one two"), (0.4, texts[3])]
