"""How an agent waits for a person: told at once, held until the decision, or asked to come back; and what it then gets."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import pytest

from .conftest import PENDING, VERSIONS, Bench, denied, raw_call

NOTE = {"text": "a silver compass"}
APPROVED = ("approval_resolved", "success", "allow", "approved")
STARTED = ("call_started", "pending", "allow", "dispatching")
COMPLETED = ("call_completed", "success", "allow", "tool_completed")


def meanwhile(bench: Bench, token: str, act: Callable[[str], Any], name: str = "notes__add_note", *, version: str = VERSIONS[-1], **more: Any) -> Any:
    """The result of a call that is held while `act` is done to its approval."""
    found: list[Any] = []

    async def go() -> None:
        async with bench.agent(token, version) as session, anyio.create_task_group() as group:

            async def call() -> None:
                found.append((await session.call_tool(name, NOTE if "note" in name else {}, **more)).model_dump(by_alias=True, exclude_none=True))

            group.start_soon(call)
            with anyio.fail_after(15):
                while not (pending := await anyio.to_thread.run_sync(lambda: bench.op("GET", "/approvals", state="pending")["approvals"])):
                    await anyio.sleep(0.02)
                assert found == []
                await anyio.to_thread.run_sync(act, pending[-1]["id"])

    anyio.run(go)
    return found[0]


def approve(bench: Bench) -> Callable[[str], Any]:
    return lambda approval: bench.op("POST", f"/approvals/{approval}/approve", {"by": "ann"})


@pytest.mark.parametrize("version", VERSIONS)
def test_a_held_call_gets_the_result_of_its_one_execution(bench: Bench, version: str) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run(waiting="hold")
    result = meanwhile(bench, token, approve(bench), version=version)
    assert (result["isError"], result["_meta"]["gateway/outcome"], result["_meta"]["gateway/origin"]) == (False, "success", "provider")
    assert json.loads(result["content"][0]["text"])["text"] == NOTE["text"]
    assert bench.trail(run) == [*PENDING, APPROVED, STARTED, COMPLETED]
    assert len(bench.provider.calls) == 1
    assert len({r["invocation"] for r in bench.records(run) if r["invocation"]}) == 1


def test_progress_tells_that_a_person_is_asked_and_then_what_the_provider_says(bench: Bench) -> None:
    bench.permit(get_slow="ask_first")
    _, token = bench.run(waiting="hold")
    seen: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append((done, message))

    def act(approval: str) -> None:
        bench.provider.release.set()
        approve(bench)(approval)

    meanwhile(bench, token, act, "notes__get_slow", progress_callback=progress)
    assert seen[0] == (0.0, "waiting for a person's approval")
    assert seen[-1][1] == "step 1"
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.parametrize(
    ("act", "reason", "resolved"),
    [
        (lambda bench, approval: bench.op("POST", f"/approvals/{approval}/reject", {"by": "ann"}), "action_declined", "action_declined"),
        (lambda bench, approval: bench.advance(3601), "action_expired", "action_expired"),
        (
            lambda bench, approval: (bench.permit(add_note="off"), bench.op("POST", f"/approvals/{approval}/approve", {"by": "ann"})),
            "approved_tool_target_changed",
            "approved_tool_target_changed",
        ),
        (lambda bench, approval: bench.op("POST", f"/runs/{bench.op('GET', f'/approvals/{approval}')['run']}/end"), "run_ended", "run_ended"),
    ],
)
def test_a_held_call_that_is_not_executed_says_why(bench: Bench, act: Callable[[Bench, str], Any], reason: str, resolved: str) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run(waiting="hold", ttl_s=3600)
    result = meanwhile(bench, token, lambda approval: act(bench, approval))
    assert result["isError"] is True
    assert (result["_meta"]["gateway/outcome"], result["_meta"]["gateway/reason"]) == ("denied", reason)
    assert bench.trail(run) == [*PENDING, ("approval_resolved", "denied", "deny", resolved)]
    assert bench.provider.calls == []


def test_a_held_call_that_fails_is_a_failure(bench: Bench) -> None:
    bench.permit(get_failure="ask_first")
    _, token = bench.run(waiting="hold")
    result = meanwhile(bench, token, approve(bench), "notes__get_failure")
    assert (result["isError"], result["_meta"]["gateway/outcome"]) == (True, "tool_error")


def test_an_agent_that_leaves_leaves_the_approval_as_it_is_and_may_join_again(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run(waiting="hold")

    async def leave() -> None:
        async with bench.agent(token) as session:
            with anyio.move_on_after(1.0):
                await raw_call(session, "notes__add_note", NOTE)

    anyio.run(leave)
    assert [each["state"] for each in bench.op("GET", "/approvals")["approvals"]] == ["pending"]
    assert bench.trail(run) == PENDING
    result = meanwhile(bench, token, approve(bench))
    assert (result["isError"], result["_meta"]["gateway/outcome"]) == (False, "replayed")
    assert bench.trail(run)[-1] == ("call_replayed", "success", "allow", "idempotent_replay")
    assert len(bench.provider.calls) == 1


# the form of 2026-07-28


async def ask(session: Any, name: str, arguments: dict[str, Any], state: str | None = None) -> Any:
    return await session.call_tool(name, arguments, request_state=state, allow_input_required=True)


def asked(bench: Bench, token: str, steps: Callable[[Any], Awaitable[Any]], version: str = VERSIONS[-1]) -> Any:
    async def go() -> Any:
        async with bench.agent(token, version) as session:
            return await steps(session)

    return anyio.run(go)


def test_an_agent_that_is_asked_to_come_back_gets_the_result_when_it_does(bench: Bench) -> None:
    bench.permit(add_note="ask_first")
    run, token = bench.run(waiting="input_required")

    async def steps(session: Any) -> tuple[Any, Any, Any]:
        first = await ask(session, "notes__add_note", NOTE)
        second = await ask(session, "notes__add_note", NOTE, first.request_state)
        await anyio.to_thread.run_sync(approve(bench), first.request_state)
        return first, second, await ask(session, "notes__add_note", NOTE, first.request_state)

    first, second, third = asked(bench, token, steps)
    assert isinstance(first, types.InputRequiredResult)
    assert isinstance(second, types.InputRequiredResult)
    assert first.request_state == second.request_state
    assert (first.meta or {})["gateway/outcome"] == "pending"
    assert isinstance(third, types.CallToolResult)
    assert (third.is_error, (third.meta or {})["gateway/outcome"]) == (False, "replayed")
    assert bench.trail(run) == [
        *PENDING,
        ("policy_decision", "pending", "require_approval", "approval_pending"),
        APPROVED,
        STARTED,
        COMPLETED,
        ("call_replayed", "success", "allow", "idempotent_replay"),
    ]
    assert len(bench.provider.calls) == 1


@pytest.mark.parametrize("state", ["made up", "other run", "other arguments"])
def test_a_state_that_belongs_to_another_call_is_refused(bench: Bench, state: str) -> None:
    bench.permit(add_note="ask_first")
    _, stranger = bench.run(waiting="input_required")
    run, token = bench.run(waiting="input_required")

    async def theirs(session: Any) -> Any:
        return (await ask(session, "notes__add_note", NOTE)).request_state

    async def mine(session: Any) -> Any:
        own = (await ask(session, "notes__add_note", {"text": "other"})).request_state
        given = {"made up": "ap_0", "other run": foreign, "other arguments": own}[state]
        return await ask(session, "notes__add_note", NOTE, given)

    foreign = asked(bench, stranger, theirs)
    result = asked(bench, token, mine)
    assert (result.meta or {})["gateway/reason"] == "invalid_arguments"
    assert bench.trail(run)[-2:] == denied("invalid_arguments")
    assert bench.provider.calls == []


@pytest.mark.parametrize("version", VERSIONS[:2])
def test_earlier_versions_have_no_such_form_and_are_told_at_once(bench: Bench, version: str) -> None:
    bench.permit(add_note="ask_first")
    _, token = bench.run(waiting="input_required")
    result = bench.call(token, "notes__add_note", NOTE, version=version)
    assert (result["isError"], result["_meta"]["gateway/outcome"]) == (True, "pending")
