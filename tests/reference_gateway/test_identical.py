"""The identical call, asked for while another one waits: told what became of that one, in whichever process it is asked, and never sent beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from reference_gateway.app import Gateway, Options, opened_store
from reference_gateway.connection import Slots

from .conftest import OPERATOR_TOKEN, PENDING, VERSIONS, Bench, Operator, Provider, Served, denied, gateway_served, provider_served, raw_call
from .trouble import VAULT_KEY, until

NOTE = {"text": "a silver compass"}
REPLAYED = [("call_replayed", "success", "allow", "idempotent_replay")]
CHANGED = "approved_tool_target_changed"

Json = dict[str, Any]


def two_held(bench: Bench, token: str, act: Callable[[str], Any], version: str = VERSIONS[-1]) -> list[Json]:
    """What two agents of one run get that hold the identical call, the second one behind the first, when `act` is done to its approval."""
    ends: list[Json] = [{}, {}]

    async def go() -> None:
        async with bench.agent(token, version) as one, bench.agent(token, version) as other, anyio.create_task_group() as group:
            for number, session in enumerate((one, other)):
                waits = anyio.Event()

                async def call(number: int = number, session: Any = session, waits: anyio.Event = waits) -> None:
                    async def progress(done: float, total: float | None, message: str | None) -> None:
                        waits.set()

                    result = await session.call_tool("add_note", NOTE, progress_callback=progress)
                    ends[number] = result.model_dump(by_alias=True, exclude_none=True)

                group.start_soon(call)
                with anyio.fail_after(15):
                    await waits.wait()
            approvals = await anyio.to_thread.run_sync(lambda: bench.op("GET", "/approvals", state="pending")["approvals"])
            assert len(approvals) == 1
            await anyio.to_thread.run_sync(act, approvals[0]["id"])

    async def bounded() -> None:
        with anyio.fail_after(20):
            await go()

    anyio.run(bounded)
    return ends


def approve(bench: Bench, approval: str) -> Any:
    return bench.op("POST", f"/approvals/{approval}/approve", {"by": "ann"})


WITHOUT: dict[str, tuple[Callable[[Bench, str], Any], str]] = {
    "the run ends": (lambda bench, approval: bench.op("POST", f"/runs/{bench.op('GET', f'/approvals/{approval}')['run']}/end"), "run_ended"),
    "the tool is switched off": (lambda bench, approval: (bench.permit(add_note="off"), approve(bench, approval)), CHANGED),
    "nobody decides": (lambda bench, approval: bench.advance(3601), "action_expired"),
    "the tool asks nobody any more": (lambda bench, approval: bench.permit(add_note="allowed"), CHANGED),
}


@pytest.mark.parametrize("what", WITHOUT)
@pytest.mark.parametrize("version", VERSIONS[1:])
def test_who_waited_for_anothers_approval_is_told_why_nothing_was_executed(bench: Bench, version: str, what: str) -> None:
    act, reason = WITHOUT[what]
    bench.permit(add_note="ask_first")
    run, token = bench.run(waiting="hold", ttl_s=3600)
    for result in two_held(bench, token, lambda approval: act(bench, approval), version):
        assert result["isError"] is True
        assert (result["_meta"]["gateway/outcome"], result["_meta"]["gateway/reason"]) == ("denied", reason)
    approvals = bench.op("GET", "/approvals", run=run)["approvals"]
    assert [each["state"] for each in approvals] == ["expired" if reason == "action_expired" else "cancelled"]
    assert bench.trail(run) == [*PENDING, ("approval_resolved", "denied", "deny", reason), *denied(reason)]
    assert {record["approval"] for record in bench.records(run) if record["invocation"]} == {approvals[0]["id"]}
    assert bench.provider.calls == []


def test_who_waited_for_anothers_approval_gets_its_one_execution_or_its_refusal(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run(waiting="hold")
    first, second = two_held(bench, token, lambda approval: approve(bench, approval))
    assert (first["_meta"]["gateway/outcome"], second["_meta"]["gateway/outcome"]) == ("success", "replayed")
    assert first["content"] == second["content"]
    assert bench.trail(run)[-1:] == REPLAYED
    assert len(bench.provider.calls) == 1
    run, token = bench.run(waiting="hold")
    ends = two_held(bench, token, lambda approval: bench.op("POST", f"/approvals/{approval}/reject", {"by": "ann"}))
    assert [each["_meta"]["gateway/reason"] for each in ends] == ["action_declined"] * 2
    assert bench.trail(run)[-2:] == denied("action_declined")
    assert len(bench.provider.calls) == 1


def test_a_call_that_is_being_executed_is_not_said_to_wait_for_a_person(bench: Bench) -> None:
    bench.permit(get_slow="ask_first")
    _, token = bench.run()
    held = bench.call(token, "get_slow")
    assert "has not been executed" in held["content"][0]["text"]
    with ThreadPoolExecutor() as pool:
        deciding = pool.submit(approve, bench, held["_meta"]["gateway/approval"]["id"])
        assert bench.provider.started.wait(15)
        meanwhile = bench.call(token, "get_slow")
        bench.provider.release.set()
        deciding.result(15)
    assert (meanwhile["_meta"]["gateway/outcome"], meanwhile["_meta"]["gateway/approval"]["state"]) == ("pending", "executing")
    text = meanwhile["content"][0]["text"]
    assert "is being executed" in text
    assert "has not been executed" not in text
    assert "do not repeat" in text


# several gateways on one store


@contextmanager
def two_gateways(place: str) -> Iterator[tuple[Bench, Bench]]:
    """The same tenant, connection and provider, through two gateways on one store. The connection's `add_note` asks first."""
    with ExitStack() as stack:
        provider = stack.enter_context(provider_served(Provider()))
        benches: list[Bench] = []
        for number in range(2):
            options = Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, vault_key=VAULT_KEY)
            store = stack.enter_context(opened_store(place))
            served = stack.enter_context(Served(Gateway(options, store, lambda: None).asgi()))
            operator = Operator(f"http://127.0.0.1:{served.port}")
            stack.callback(operator.http.close)
            tenant = benches[0].tenant if number else operator("POST", "/tenants", {})["tenant"]
            benches.append(Bench(operator, provider, tenant))
            if not number:
                benches[0].connect(permissions={"add_note": "ask_first"})
        yield benches[0], benches[1]


def asks_once(place: str, calls: int) -> None:
    """Identical calls at two gateways at one moment: one approval each, and what was approved is sent once."""
    with two_gateways(place) as (one, other):
        run, token = one.run()

        async def go() -> None:
            async with one.agent(token) as here, other.agent(token) as there:
                for number in range(calls):
                    async with anyio.create_task_group() as group:
                        for session in (here, there):
                            group.start_soon(raw_call, session, "add_note", {"text": f"note {number}"})

        anyio.run(go)
        approvals = one.op("GET", "/approvals", run=run)["approvals"]
        assert sorted(each["arguments"]["text"] for each in approvals) == sorted(f"note {number}" for number in range(calls))
        for each in approvals:
            assert approve(other, each["id"])["approval"]["state"] == "executed"
        assert len(one.provider.calls) == calls
        assert one.call(token, "add_note", {"text": "note 0"})["_meta"]["gateway/outcome"] == "replayed"


def test_of_identical_calls_at_two_gateways_one_asks(tmp_path: Path) -> None:
    asks_once(str(tmp_path / "gateway.db"), 30)


def test_nothing_begins_to_wait_in_a_run_that_another_gateway_has_ended(tmp_path: Path) -> None:
    """However the two fall together: a request is withdrawn with its run, or not made."""
    with two_gateways(str(tmp_path / "gateway.db")) as (one, other):
        for number in range(15):
            run, token = one.run()
            both = threading.Barrier(2)

            def call(token: str = token, number: int = number, both: threading.Barrier = both) -> None:
                async def go() -> None:
                    async with one.agent(token) as session:
                        both.wait()
                        await raw_call(session, "add_note", {"text": f"note {number}"})

                anyio.run(go)

            with ThreadPoolExecutor() as pool:
                calling = pool.submit(call)
                both.wait()
                other.op("POST", f"/runs/{run}/end")
                calling.exception(20)
            assert [each["state"] for each in one.op("GET", "/approvals", run=run)["approvals"]] in ([], ["cancelled"])


# another connection of the same name


def plain(bench: Bench) -> None:
    bench.connect(auth={"scheme": "none"}, credentials={}, permissions={"add_note": "ask_first"})


def test_what_was_asked_for_at_one_connection_is_nothing_to_the_next_of_that_name(provider: Provider) -> None:
    provider.secret = None
    with gateway_served() as operator, provider_served(Provider(secret=None)) as another:
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        plain(bench)
        _, token = bench.run()
        executed = bench.call(token, "add_note", {"text": "executed"})["_meta"]["gateway/approval"]["id"]
        approve(bench, executed)
        waiting = bench.call(token, "add_note", {"text": "waiting"})["_meta"]["gateway/approval"]["id"]
        bench.op("DELETE", "/connections/notes")
        later = Bench(operator, another, bench.tenant)
        plain(later)
        anew = {text: later.call(token, "add_note", {"text": text})["_meta"] for text in ("executed", "waiting")}
        assert [meta["gateway/outcome"] for meta in anew.values()] == ["pending", "pending"]
        assert not {executed, waiting} & {meta["gateway/approval"]["id"] for meta in anew.values()}
        late = approve(later, waiting)
        assert (late["approval"]["state"], late["error"]["code"]) == ("cancelled", CHANGED)
        assert another.calls == []
        approve(later, anew["waiting"]["gateway/approval"]["id"])
        assert [call["arguments"] for call in another.calls] == [{"text": "waiting"}]
        assert [call["arguments"] for call in provider.calls] == [{"text": "executed"}]


def test_a_call_that_waits_for_its_turn_goes_to_no_connection_that_was_deleted_meanwhile(provider: Provider) -> None:
    provider.secret = None
    settings = Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, test_clock=True)
    with ExitStack() as stack, ThreadPoolExecutor() as pool:
        another = stack.enter_context(provider_served(Provider(secret=None)))
        gateway = Gateway(settings, stack.enter_context(opened_store(None)), lambda: None)
        operator = Operator(f"http://127.0.0.1:{stack.enter_context(Served(gateway.asgi())).port}")
        stack.callback(operator.http.close)
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        plain(bench)
        connection = gateway._connections.find(bench.tenant, "notes")
        assert connection is not None
        connection.slots = slots = Slots(1)
        run, token = bench.run()
        first = pool.submit(bench.call, token, "get_slow")
        assert provider.started.wait(15)
        second = pool.submit(bench.call, token, "get_echo")
        until(lambda: slots._waiting == 1)
        bench.op("DELETE", "/connections/notes")
        plain(Bench(operator, another, bench.tenant))
        provider.release.set()
        first.result(20)
        assert second.result(20)["_meta"]["gateway/reason"] == "connection_inactive"
        assert bench.trail(run)[-2:] == denied("connection_inactive")
        assert (len(provider.calls), another.calls) == (1, [])
