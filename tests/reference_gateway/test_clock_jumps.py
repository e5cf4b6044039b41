"""The system's clock jumps, forward and back, and no timer of ours runs for it: what is due is due, the log stays one chain, nothing runs twice."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from reference_gateway.app import Gateway, Options
from reference_gateway.audit import verify
from reference_gateway.clock import TestClock
from reference_gateway.store.sqlite import SqliteStore

from .conftest import OPERATOR_TOKEN, PENDING, TLS, Bench, Operator, Provider, Refused, Served, gateway_served, provider_served
from .trouble import held


class Jumping:
    """A bench on a clock that can be set, as somebody or a time server sets a machine's; timers count on, as the machine's do."""

    def __init__(self, bench: Bench, store: SqliteStore, clock: TestClock) -> None:
        self.bench = bench
        self.store = store
        self.clock = clock

    def jump(self, **by: float) -> None:
        self.clock._start += timedelta(**by)

    def door(self, token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        return httpx2.get(self.bench.operator.mcp, headers=headers, verify=TLS, trust_env=False).status_code


@pytest.fixture
def jumping(tmp_path: Path) -> Iterator[Jumping]:
    store = SqliteStore(tmp_path / "gateway.db")
    store.open()
    gateway = Gateway(Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, test_clock=True), store, lambda: None)
    assert isinstance(gateway.clock, TestClock)
    try:
        with provider_served(Provider()) as provider, Served(gateway.asgi()) as served:
            operator = Operator(f"http://127.0.0.1:{served.port}")
            bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
            bench.connect(permissions={"add_note": "ask_first"})
            yield Jumping(bench, store, gateway.clock)
            operator.http.close()
    finally:
        store.close()


def refused(bench: Bench, path: str) -> str:
    with pytest.raises(Refused) as caught:
        bench.op("POST", path, {"by": "ann"})
    return str(caught.value.code)


def test_forward_what_is_due_is_refused_by_name_though_no_timer_ran(jumping: Jumping) -> None:
    bench = jumping.bench
    run, token = bench.run()
    waiting = bench.call(token, "add_note", {"text": "x"})["_meta"]["gateway/approval"]["id"]
    jumping.jump(minutes=61)
    assert refused(bench, f"/approvals/{waiting}/approve") == "action_expired"
    assert refused(bench, f"/approvals/{waiting}/reject") == "action_expired"
    assert jumping.door(token) == 401
    assert bench.provider.calls == []
    assert bench.trail(run) == [*PENDING, ("approval_resolved", "denied", "deny", "action_expired")]


def test_back_a_token_that_was_found_expired_stays_so(jumping: Jumping, tmp_path: Path) -> None:
    bench = jumping.bench
    _, token = bench.run(ttl_s=3600)
    _, other = bench.run(ttl_s=3600)
    assert jumping.door(token) != 401
    jumping.jump(minutes=61)
    jumping.store._open().set_busy_timeout(20)
    with held(tmp_path / "gateway.db"):  # also while that cannot be written
        assert jumping.door(token) == 401
        jumping.jump(hours=-5)
        assert jumping.door(token) == 401
    assert jumping.door(other) != 401, "nobody showed it while it was expired"
    before = jumping.store._open().total_changes()
    assert jumping.door(token) == 401
    assert jumping.store._open().total_changes() == before + 1
    assert [jumping.door(token) for _ in range(3)] == [401] * 3
    assert jumping.store._open().total_changes() == before + 1, "it is written once"
    with gateway_served(store=str(tmp_path / "gateway.db")) as restarted:
        again = Jumping(Bench(restarted, bench.provider, bench.tenant), jumping.store, jumping.clock)
        assert (again.door(token), again.door(other) != 401) == (401, True)
    assert bench.provider.calls == []


def test_back_nothing_that_ended_comes_to_life_and_the_log_stays_one_chain(jumping: Jumping) -> None:
    bench = jumping.bench
    _, token = bench.run()
    expired, executed = (bench.call(token, "add_note", {"text": text})["_meta"]["gateway/approval"]["id"] for text in ("x", "y"))
    bench.op("POST", f"/approvals/{executed}/approve", {"by": "ann"})
    jumping.jump(minutes=61)
    assert bench.op("GET", f"/approvals/{expired}")["state"] == "expired"
    jumping.jump(hours=-5)
    assert refused(bench, f"/approvals/{expired}/approve") == "action_expired"
    assert refused(bench, f"/approvals/{executed}/approve") == "approval_not_pending"
    run, token = bench.run()
    waiting = bench.call(token, "add_note", {"text": "z"})["_meta"]["gateway/approval"]["id"]
    assert bench.op("POST", f"/approvals/{waiting}/approve", {"by": "ann"})["approval"]["state"] == "executed"
    assert bench.call(token, "add_note", {"text": "z"})["_meta"]["gateway/outcome"] == "replayed"
    assert [call["arguments"] for call in bench.provider.calls] == [{"text": "y"}, {"text": "z"}]
    records = jumping.store.audit_read(None)
    assert [r["seq"] for r in records] == list(range(1, len(records) + 1))
    assert verify(records, head=jumping.store.audit_head()) == []
    assert records[-1]["at"] < records[0]["at"], "each record tells what the clock said, and its place tells the order"
    assert bench.trail(run)[-1] == ("call_replayed", "success", "allow", "idempotent_replay")
