"""What a live run may do, judged from the scenario, at the step, and once more at the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from harness.clock import TestClock
from harness.engine.vocabulary import load_vocabulary, manifests
from harness.inventory.store import load_inventories
from harness.live.budget import Budget
from harness.live.options import LiveOptions
from harness.live.prerequisites import lacking
from harness.live.session import LiveItem, LiveSession
from harness.live.trouble import BudgetSpent, ConsentMissing, ForeignData
from harness.model.evidence import ClientExchange
from harness.risk.oracle import Oracle
from harness.scenario.files import data_root, inventories_folder
from harness.scenario.load import load_scenario
from harness.tap.witness import OpenExchange

MARK = "0123456789"
USER = f"harness-{MARK}"
KEYS = {"MEM0_API_KEY": "mem0-test-key"}


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle(load_inventories(inventories_folder()))


def options(**told: Any) -> LiveOptions:
    return LiveOptions(**{"environment": KEYS, "allow_write": True, **told})


def item(oracle: Oracle, *, clock: TestClock | None = None, **told: Any) -> LiveItem:
    session = LiveSession(options(**told), manifests(data_root()), oracle, clock or TestClock())
    return session.item(MARK, {"mem0": "mem0", "honcho": "honcho", "supermemory": "supermemory", "cognee": "cognee"}, [])


def admit(rules: LiveItem, tool: str, arguments: Mapping[str, Any], provider: str = "mem0") -> float:
    return asyncio.run(rules.admit(provider, tool, arguments, "steps"))


def answered(tool: str, arguments: Mapping[str, Any], found: Any) -> ClientExchange:
    result = {"content": [], "structuredContent": found, "isError": False}
    return ClientExchange(
        item="i", phase="steps", step="s", attempt=1, connection="mem0", method="tools/call", tool=tool, arguments=arguments,
        protocol_version="2026-07-28", started_seq=1, ended_seq=2, result=result,
    )  # fmt: skip


# ---- at the step


def test_reading_needs_no_leave(oracle: Oracle) -> None:
    admit(item(oracle, allow_write=False), "search_memories", {"query": "anything"})


def test_writing_needs_leave(oracle: Oracle) -> None:
    with pytest.raises(ConsentMissing) as caught:
        admit(item(oracle, allow_write=False), "add_memory", {"text": f"{MARK} x", "user_id": USER})
    assert caught.value.exit_code == 3
    admit(item(oracle), "add_memory", {"text": f"{MARK} x", "user_id": USER})


@pytest.mark.parametrize(
    ("provider", "tool", "arguments"),
    [
        ("mem0", "add_memory", {"text": "no mark at all"}),
        ("mem0", "add_memory", {"text": f"{MARK} x", "user_id": "somebody"}),
        ("mem0", "delete_memory", {"memory_id": "id-of-somebody"}),
        ("mem0", "delete_all_memories", {}),
        ("mem0", "delete_entities", {"user_id": USER, "app_id": "production"}),
        ("honcho", "delete_session", {"workspace_id": "production", "session_id": USER}),
        ("cognee", "forget", {"dataset": f"harness_{MARK}", "everything": True}),
        ("supermemory", "add_memory", {"action": "forget", "content": f"{MARK} x", "containerTag": "default"}),
    ],
)
def test_what_the_run_did_not_make_is_not_touched(oracle: Oracle, provider: str, tool: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ForeignData) as caught:
        admit(item(oracle), tool, arguments, provider)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("provider", "tool", "arguments"),
    [
        ("mem0", "delete_entities", {"user_id": USER, "app_id": None}),
        ("honcho", "delete_session", {"workspace_id": USER, "session_id": f"observatory-{MARK}"}),
        ("cognee", "forget", {"dataset": f"harness_{MARK}", "everything": False}),
        ("supermemory", "add_memory", {"action": "forget", "content": f"{MARK} x", "containerTag": USER}),
    ],
)
def test_what_the_run_made_it_may_remove(oracle: Oracle, provider: str, tool: str, arguments: dict[str, Any]) -> None:
    admit(item(oracle), tool, arguments, provider)


def test_an_id_is_ours_once_our_own_write_brought_it_and_not_because_a_read_showed_it(oracle: Oracle) -> None:
    rules = item(oracle)
    rules.observe(answered("get_memories", {}, {"results": [{"id": "theirs", "memory": "Shopping"}, {"id": "mine", "memory": f"The {MARK} keeper"}]}))
    rules.observe(answered("add_memory", {"text": f"{MARK}"}, {"results": [{"id": "made"}]}))
    for identity in ("mine", "made"):
        admit(rules, "delete_memory", {"memory_id": identity})
    with pytest.raises(ForeignData):
        admit(rules, "delete_memory", {"memory_id": "theirs"})


def test_a_failed_write_makes_nothing_ours(oracle: Oracle) -> None:
    rules = item(oracle)
    rules.observe(answered("add_memory", {"text": f"{MARK}"}, {"error": "no", "id": "theirs"}))
    with pytest.raises(ForeignData):
        admit(rules, "delete_memory", {"memory_id": "theirs"})


def test_the_budget_stops_the_step(oracle: Oracle) -> None:
    rules = item(oracle, budget=Budget(calls=1))
    rules.session.spending.charge(1)
    with pytest.raises(BudgetSpent) as caught:
        admit(rules, "search_memories", {"query": "x"})
    assert caught.value.exit_code == 5


def test_patience_waits_as_long_as_asked_and_not_beyond_the_budget(oracle: Oracle) -> None:
    async def scene() -> float:
        clock = TestClock()
        rules = item(oracle, clock=clock, budget=Budget(seconds=50.0))
        rules.session.pace.answered("mem0", 429, [(b"retry-after", b"7")])
        waiting = asyncio.ensure_future(rules.admit("mem0", "search_memories", {}, "steps"))
        await clock.until_sleeping()
        assert not waiting.done()
        await clock.advance(7.0)
        await waiting
        rules.session.pace.answered("mem0", 429, [(b"retry-after", b"3600")])
        with pytest.raises(BudgetSpent):
            await rules.admit("mem0", "search_memories", {}, "steps")
        return clock.monotonic()

    assert asyncio.run(scene()) == 7.0


# ---- at the wire


def arrival(tool: str | None, arguments: dict[str, Any] | None = None, method: str = "tools/call") -> OpenExchange:
    return OpenExchange(
        n=1, mount="mem0", at="", method="POST", path="/mcp", started_seq=1, headers={}, rpc_method=method, tool=tool, arguments=arguments or {}
    )


@pytest.mark.parametrize(
    ("told", "exchange", "rule"),
    [
        ({"allow_write": False}, arrival("add_memory", {"text": f"{MARK}"}), "consent"),
        ({}, arrival("delete_memory", {"memory_id": "theirs"}), "foreign"),
        ({}, arrival("delete_all_memories"), "foreign"),
        ({"budget": Budget(calls=1)}, arrival("search_memories", {"query": "x"}), "budget"),
    ],
)
def test_a_gateway_cannot_send_what_the_rules_forbid(oracle: Oracle, told: dict[str, Any], exchange: OpenExchange, rule: str) -> None:
    rules = item(oracle, **told)
    if rule == "budget":
        rules.session.spending.charge(1)
    refused = rules.guard("mem0").admit(exchange)
    assert refused is not None
    assert refused.rule == f"live-guard:{rule}"


def test_the_wire_counts_every_call_also_those_that_a_gateway_repeats(oracle: Oracle) -> None:
    rules = item(oracle, budget=Budget(calls=2))
    guard = rules.guard("mem0")
    said = [guard.admit(arrival("search_memories", {"query": "x"})) for _ in range(4)]
    assert [refused is None for refused in said] == [True, True, False, False]
    assert rules.session.spending.calls == 2


def test_nothing_passes_before_its_time_not_even_a_list(oracle: Oracle) -> None:
    clock = TestClock()
    rules = item(oracle, clock=clock)
    guard = rules.guard("mem0")
    guard.answered(arrival("search_memories"), 429, [(b"retry-after", b"4")])
    for exchange in (arrival("search_memories"), arrival(None, method="tools/list")):
        refused = guard.admit(exchange)
        assert refused is not None
        assert (refused.rule, refused.status) == ("live-guard:retry-after", 429)
    asyncio.run(clock.advance(4.0))
    assert guard.admit(arrival(None, method="tools/list")) is None


def test_the_guards_own_answer_is_no_word_of_the_provider(oracle: Oracle) -> None:
    rules = item(oracle)
    stopped = arrival("search_memories")
    stopped.faults.append("live-guard:budget")
    rules.guard("mem0").answered(stopped, 429, [])
    assert rules.session.pace.wait("mem0") == 0.0


def test_a_gateway_that_lists_without_end_is_stopped(oracle: Oracle) -> None:
    guard = item(oracle, budget=Budget(calls=1)).guard("mem0")
    said = [guard.admit(arrival(None, method="tools/list")) for _ in range(60)]
    assert said[0] is None
    assert said[-1] is not None


# ---- from the scenario alone

SCENARIO = """
scenario: S
title: t
connections: {CONNECTIONS}
let: {user: "harness-${run.id}", plain: "production", fact: "The ${nonce} keeper."}
steps:
  - id: write
    call: mem0.add_memory
    with: {text: "${fact}", user_id: "${user}", agent_id: "${plain}"}
    capture: {made: {from: result, at: /results/0/id}}
    expect: [{id: ok, result: {is_error: false}}]
MOREproves: [{claim: c, by: [ok]}]
does_not_prove: [d]
cleanup:
  - {id: remove, call: mem0.REMOVE}
"""


def reasons(oracle: Oracle, remove: str, connections: str = "mem0: {}", agent: str = "${user}", **told: Any) -> tuple[str, ...]:
    name, _, _ = connections.removeprefix("mem0: {}, ").partition(":")
    more = f"  - {{id: more, call: {name}.list_entities}}\n" if name != "mem0" else ""
    text = SCENARIO.replace("REMOVE", remove).replace("CONNECTIONS", connections).replace("MORE", more)
    if "${write.made}" not in remove:
        text = text.replace("    capture: {made: {from: result, at: /results/0/id}}\n", "")
    if agent != "${plain}":
        text = text.replace('agent_id: "${plain}"', f'agent_id: "{agent}"').replace('plain: "production", ', "")
    return lacking(load_scenario(text, "s.yaml", load_vocabulary()), manifests(data_root()), oracle, options(**told))


def test_a_scenario_that_removes_what_it_made_may_run(oracle: Oracle) -> None:
    assert reasons(oracle, 'delete_memory, with: {memory_id: "${write.made}"}') == ()


@pytest.mark.parametrize(
    ("remove", "connections", "told", "kind"),
    [
        ('delete_memory, with: {memory_id: "42"}', "mem0: {}", {}, "foreign: "),
        ("delete_all_memories", "mem0: {}", {}, "foreign: "),
        ('delete_memory, with: {memory_id: "${write.made}"}', "mem0: {}", {"allow_write": False}, "consent: "),
        ('delete_memory, with: {memory_id: "${write.made}"}', "mem0: {consent: {access: read}}", {}, "consent: "),
        ('delete_memory, with: {memory_id: "${write.made}"}', "mem0: {}", {"environment": {}}, "credentials: "),
        ('delete_memory, with: {memory_id: "${write.made}"}', "mem0: {}", {"environment": {"MEM0_API_KEY": "abc"}}, "credentials: "),
        ('delete_memory, with: {memory_id: "${write.made}"}', "mem0: {}, other: {provider: mem0}", {}, "live: "),
    ],
)
def test_what_is_missing_is_said_before_anything_starts(oracle: Oracle, remove: str, connections: str, told: dict[str, Any], kind: str) -> None:
    found = reasons(oracle, remove, connections, **told)
    assert found
    assert all(reason.startswith(kind) for reason in found)


def test_a_write_into_a_named_place_that_is_not_ours_is_refused(oracle: Oracle) -> None:
    (reason,) = reasons(oracle, 'delete_memory, with: {memory_id: "${write.made}"}', agent="${plain}")
    assert reason.startswith("foreign: ")
    assert "agent_id" in reason


def test_a_provider_that_wants_signing_in_says_how(oracle: Oracle) -> None:
    found = reasons(oracle, 'delete_memory, with: {memory_id: "${write.made}"}', "mem0: {}, zep: {}")
    assert found[0] == "credentials: zep is not signed in; run harness login zep"
