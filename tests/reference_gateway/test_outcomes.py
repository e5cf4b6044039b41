"""What a call brought while the store could not be written: told as sent, never lost, never written twice, and `unknown` only after a restart."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from reference_gateway.app import Gateway, Options, opened_store
from reference_gateway.audit import verify
from reference_gateway.store.base import StoreError
from reference_gateway.store.sqlite import SqliteStore

from .conftest import OPERATOR_TOKEN, PENDING, SUCCESS, Bench, Operator, Provider, Refused, Served, gateway_served, provider_served, raw_call
from .trouble import TROUBLES, VAULT_KEY, Troubled, held, troubled_gateway, until

APPROVED = ("approval_resolved", "success", "allow", "approved")
STARTED, COMPLETED = SUCCESS[1:]


@pytest.fixture
def troubled(tmp_path: Path) -> Iterator[Troubled]:
    with troubled_gateway(tmp_path / "gateway.db") as made:
        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as made:
        yield made


def under_way(bench: Bench, pool: ThreadPoolExecutor, send: Callable[[], Any]) -> Future[Any]:
    """What `send` does, once the provider has begun with it."""
    bench.provider.started.clear()
    bench.provider.release.clear()
    sending = pool.submit(send)
    assert bench.provider.started.wait(15)
    return sending


def asked(bench: Bench, token: str) -> str:
    approval: str = bench.call(token, "get_slow")["_meta"]["gateway/approval"]["id"]
    return approval


def refusal(answer: Future[Any]) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        answer.result(30)
    assert "may have been executed" in refused.value.error["message"]
    return refused.value.status, refused.value.code


@pytest.mark.parametrize("trouble", TROUBLES)
def test_an_approved_call_ends_as_it_ended_as_soon_as_that_can_be_written(troubled: Troubled, pool: ThreadPoolExecutor, trouble: str) -> None:
    bench = troubled.bench
    bench.permit(get_slow="ask_first")
    run, token = bench.run()
    approval = asked(bench, token)
    deciding = under_way(bench, pool, lambda: bench.op("POST", f"/approvals/{approval}/approve", {"by": "ann"}))
    with TROUBLES[trouble][1](troubled):
        bench.provider.release.set()
        assert refusal(deciding) == (503, "outcome_not_recorded")
        for _ in range(3):
            bench.advance(0.25)
        assert bench.op("GET", f"/approvals/{approval}")["state"] == "executing"
    bench.advance(0.25)
    told = bench.op("GET", f"/approvals/{approval}/outcome")
    assert (told["approval"]["state"], told["approval"]["execution"]["outcome"], told["error"]) == ("executed", "success", None)
    assert told["result"]["content"] == [{"type": "text", "text": "done"}]
    bench.advance(60)
    assert bench.trail(run) == [*PENDING, APPROVED, STARTED, COMPLETED]
    assert bench.call(token, "get_slow")["_meta"]["gateway/outcome"] == "replayed"
    assert len(bench.provider.calls) == 1
    assert verify(troubled.store.audit_read(None), head=troubled.store.audit_head()) == []


def test_an_agent_is_told_that_its_call_was_sent_and_the_log_gets_its_end(troubled: Troubled, pool: ThreadPoolExecutor) -> None:
    bench = troubled.bench
    run, token = bench.run()
    calling = under_way(bench, pool, lambda: bench.call(token, "get_slow"))
    with held(troubled.path):
        bench.provider.release.set()
        with pytest.raises(MCPError) as failed:
            calling.result(30)
        assert (failed.value.error.code, failed.value.error.data["gateway/reason"]) == (-32603, "outcome_not_recorded")
        assert "may have been executed" in failed.value.error.message
        with pytest.raises(MCPError) as unsent:
            bench.call(token, "get_echo")
        assert unsent.value.error.data["gateway/reason"] == "store_busy"
        assert bench.trail(run) == SUCCESS[:2]
    bench.advance(0.25)
    assert bench.trail(run) == SUCCESS
    assert bench.records(run)[-1]["invocation"] == failed.value.error.data["gateway/invocation"]
    assert len(bench.provider.calls) == 1


def test_several_ends_are_written_in_their_order(troubled: Troubled, pool: ThreadPoolExecutor) -> None:
    bench = troubled.bench
    run, token = bench.run()
    calls = [under_way(bench, pool, lambda: bench.call(token, "get_slow"))]
    calls.append(under_way(bench, pool, lambda: bench.call(token, "get_slow")))
    with held(troubled.path):
        bench.provider.release.set()
        told = [calling.exception(30) for calling in calls]
        ids = [each.error.data["gateway/invocation"] for each in told if isinstance(each, MCPError)]
        bench.advance(5)
    bench.advance(0.25)
    ended = [record["invocation"] for record in bench.records(run) if record["event"] == "call_completed"]
    assert sorted(ended) == sorted(ids)
    assert len(ended) == 2


def test_whoever_held_the_call_gets_the_end_it_had(troubled: Troubled, pool: ThreadPoolExecutor) -> None:
    bench = troubled.bench
    bench.permit(get_slow="ask_first")
    run, token = bench.run(waiting="hold")
    waits = threading.Event()

    def call() -> Any:
        async def progress(done: float, total: float | None, message: str | None) -> None:
            waits.set()

        async def go() -> Any:
            async with bench.agent(token) as session:
                return await session.call_tool("get_slow", {}, progress_callback=progress)

        return anyio.run(go)

    holding = pool.submit(call)
    assert waits.wait(15)
    [approval] = bench.op("GET", "/approvals", run=run)["approvals"]
    deciding = under_way(bench, pool, lambda: bench.op("POST", f"/approvals/{approval['id']}/approve", {"by": "ann"}))
    with held(troubled.path):
        bench.provider.release.set()
        assert refusal(deciding) == (503, "outcome_not_recorded")
    assert not holding.done()
    bench.advance(0.25)
    result = holding.result(30)
    assert (result.is_error, result.meta["gateway/outcome"], result.content[0].text) == (False, "success", "done")


def test_a_grant_revoked_meanwhile_names_the_call_and_its_end_says_so(troubled: Troubled, pool: ThreadPoolExecutor) -> None:
    bench = troubled.bench
    run, token = bench.run()
    calling = under_way(bench, pool, lambda: bench.call(token, "get_slow"))
    with held(troubled.path):
        bench.provider.release.set()
        failed = calling.exception(30)
    assert isinstance(failed, MCPError)
    bench.op("POST", "/connections/notes/revoke")
    bench.advance(0.25)
    [revoked] = [record for record in bench.records() if record["event"] == "grant_revoked"]
    assert revoked["details"]["in_flight"] == [failed.error.data["gateway/invocation"]]
    assert bench.records(run)[-1]["details"]["grant_revoked"] is True


def test_a_call_whose_agent_leaves_while_nothing_can_be_written_ends_as_cancelled(troubled: Troubled, pool: ThreadPoolExecutor) -> None:
    bench = troubled.bench
    run, token = bench.run()
    leave = threading.Event()

    def call() -> None:
        async def go() -> None:
            async with bench.agent(token) as session, anyio.create_task_group() as group:
                group.start_soon(raw_call, session, "get_slow")
                await anyio.to_thread.run_sync(leave.wait, 20)
                group.cancel_scope.cancel()

        anyio.run(go)

    calling = under_way(bench, pool, call)
    with held(troubled.path):
        leave.set()
        calling.result(30)
        until(lambda: bench.operator("GET", "/health")["status"] == "degraded")
        assert bench.trail(run) == SUCCESS[:2]
    bench.advance(0.25)
    assert bench.provider.cancelled == 1
    assert bench.trail(run) == [*SUCCESS[:2], ("call_failed", "cancelled", "allow", "client_cancelled")]


class Losing(SqliteStore):
    """As a database whose connection breaks while it commits: done, and nobody is told."""

    loses = False

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        outer = self._depth == 0
        with super().transaction():
            yield
        if outer and self.loses:
            self.loses = False
            raise StoreError("store_unusable", "the database is gone")


@pytest.mark.parametrize("word", ["ask_first", "allowed"])
def test_what_was_written_although_the_store_said_otherwise_is_not_written_again(tmp_path: Path, pool: ThreadPoolExecutor, word: str) -> None:
    store = Losing(tmp_path / "gateway.db")
    store.open()
    settings = Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, test_clock=True)
    with provider_served(Provider()) as provider, Served(Gateway(settings, store, lambda: None).asgi()) as served:
        operator = Operator(f"http://127.0.0.1:{served.port}")
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.connect(permissions={"get_slow": word})
        run, token = bench.run()
        path = f"/approvals/{asked(bench, token)}/approve" if word == "ask_first" else ""
        send = (lambda: bench.op("POST", path, {"by": "ann"})) if path else (lambda: bench.call(token, "get_slow"))
        sending = under_way(bench, pool, send)
        store.loses = True
        provider.release.set()
        assert isinstance(sending.exception(30), (Refused, MCPError))
        bench.advance(1)
        assert [record["event"] for record in bench.records(run)].count("call_completed") == 1
        assert bench.call(token, "get_slow")["_meta"]["gateway/outcome"] == ("replayed" if path else "success")
        bench.op("POST", "/connections/notes/revoke")
        assert [record["details"]["in_flight"] for record in bench.records() if record["event"] == "grant_revoked"] == [[]]
        operator.http.close()
    store.close()


def kept_outcome(troubled: Troubled, pool: ThreadPoolExecutor, hold: Callable[[], Any]) -> tuple[str, str]:
    """The approval of a call that ended while `hold` kept the store from being written, and its run's token."""
    bench = troubled.bench
    bench.permit(get_slow="ask_first")
    _, token = bench.run()
    approval = asked(bench, token)
    deciding = under_way(bench, pool, lambda: bench.op("POST", f"/approvals/{approval}/approve", {"by": "ann"}))
    hold()
    bench.provider.release.set()
    assert refusal(deciding) == (503, "outcome_not_recorded")
    return approval, token


def test_a_gateway_that_ends_writes_what_it_kept(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    path = tmp_path / "gateway.db"
    with troubled_gateway(path) as troubled, contextlib.ExitStack() as second_hand:
        approval, _ = kept_outcome(troubled, pool, lambda: second_hand.enter_context(held(path)))
        second_hand.close()
    with opened_store(str(path)) as store:
        found = store.approval_get(None, approval)
    assert found is not None
    assert (found["state"], found["execution"]["outcome"], found["result"]["content"][0]["text"]) == ("executed", "success", "done")


def test_what_could_never_be_written_is_unknown_and_the_identical_call_is_told_so(tmp_path: Path, pool: ThreadPoolExecutor) -> None:
    path = tmp_path / "gateway.db"
    with contextlib.ExitStack() as second_hand, troubled_gateway(path) as troubled:
        approval, token = kept_outcome(troubled, pool, lambda: second_hand.enter_context(held(path)))
        tenant = troubled.bench.tenant
    with gateway_served(store=str(path), vault_key=VAULT_KEY) as operator, provider_served() as provider:
        bench = Bench(operator, provider, tenant)
        assert bench.op("GET", f"/approvals/{approval}")["state"] == "unknown"
        for _ in range(2):
            again = bench.call(token, "get_slow")
            assert (again["isError"], again["_meta"]["gateway/outcome"], again["_meta"]["gateway/origin"]) == (True, "replayed", "gateway")
            assert "may have been executed" in again["content"][0]["text"]
        assert [each["id"] for each in bench.op("GET", "/approvals")["approvals"]] == [approval]
        replays = [("call_replayed", "unknown", "allow", "idempotent_replay")] * 2
        assert bench.trail()[-3:] == [("call_failed", "unknown", "allow", "outcome_unrecorded"), *replays]
