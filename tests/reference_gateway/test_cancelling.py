"""An agent that cancels what nobody asked for: it changes nothing, and is on record, however often it is tried."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anyio
import pytest

from reference_gateway.cancelling import FEW

from .conftest import VERSIONS, Bench
from .test_quick import Wire, answer
from .wide import until

LEGACY, MODERN = VERSIONS[1], VERSIONS[-1]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def wire(stack: ExitStack, bench: Bench, token: str, version: str) -> Wire:
    made = Wire(bench, token, version)
    stack.callback(made.http.close)
    if version == MODERN:
        made.headers |= {"mcp-protocol-version": MODERN, "mcp-method": "notifications/cancelled"}
    return made


def cancel(agent: Wire, number: Any) -> None:
    said = agent.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})
    assert (said.status_code, said.content) == (202, b"")


def recorded(bench: Bench, run: str) -> list[Any]:
    return [{k: v for k, v in r["details"].items() if k != "method"} for r in bench.records(run) if r["event"] == "cancel_unknown"]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_cancellation_of_nothing_is_recorded(bench: Bench, stack: ExitStack, version: str) -> None:
    run, token = bench.run()
    agent = wire(stack, bench, token, version)
    for number in (987_654, "of-nobody", "x" * 500, None, ["no", "number"]):
        cancel(agent, number)
    anyio.run(until, lambda: len(recorded(bench, run)) == 5)
    assert [each["request"] for each in recorded(bench, run)] == ["987654", "of-nobody", "x" * 100, "None", "['no', 'number']"]
    found = [r for r in bench.records(run) if r["event"] == "cancel_unknown"]
    assert {(r["actor"], r["outcome"], r["decision"], r["reason"]) for r in found} == {("agent:agent-1", "denied", "deny", "request_unknown")}


@pytest.mark.parametrize("version", [LEGACY, MODERN])
def test_a_flood_of_them_is_a_few_records_and_a_number(bench: Bench, stack: ExitStack, version: str) -> None:
    run, token = bench.run()
    other, another = bench.run()
    agent = wire(stack, bench, token, version)
    for number in range(1000, 1000 + FEW + 20):
        cancel(agent, number)
    anyio.run(until, lambda: len(recorded(bench, run)) == FEW)
    cancel(wire(stack, bench, another, version), 1)
    anyio.run(until, lambda: len(recorded(bench, other)) == 1)
    bench.advance(61)
    anyio.run(until, lambda: recorded(bench, run)[FEW:] == [{"more": 20}])
    cancel(agent, 5)
    anyio.run(until, lambda: recorded(bench, run)[FEW + 1 :] == [{"request": "5"}])


@pytest.mark.parametrize("way", ["short", "long"])
def test_a_call_that_is_cancelled_or_was_answered_already_is_known(bench: Bench, stack: ExitStack, way: str) -> None:
    run, token = bench.run()
    agent, helper = (wire(stack, bench, token, LEGACY) for _ in range(2))
    helper.headers = agent.headers
    more = {"meta": {"progressToken": "p"}} if way == "long" else {}
    assert "result" in answer(agent.call("get_echo", {}, 7, **more))
    cancel(agent, 7)
    said: list[Any] = []
    waits = threading.Thread(target=lambda: said.append(helper.call("get_slow", {}, 8, **more)))
    waits.start()
    assert bench.provider.started.wait(20)
    if way == "short":
        cancel(agent, "8")
        anyio.run(until, lambda: recorded(bench, run) == [{"request": "8"}])
    cancel(agent, 8 if way == "short" else "8")
    waits.join(20)
    assert answer(said[0])["error"]["message"] == "Request cancelled"
    cancel(agent, 8)
    cancel(agent, 9)
    anyio.run(until, lambda: recorded(bench, run)[-1:] == [{"request": "9"}])
    assert len(recorded(bench, run)) == (2 if way == "short" else 1)
