"""A store that is full, read-only, broken or held by somebody else: a clear code for agent and operator, nothing dispatched, nothing lost."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
import pytest
from mcp.shared.exceptions import MCPError

from reference_gateway.app import Gateway, Options
from reference_gateway.audit import verify
from reference_gateway.store.sqlite import SqliteStore
from torture._faulty import FaultyVfs, faulty

from .conftest import OPERATOR_TOKEN, SUCCESS, Bench, Operator, Provider, Refused, Served, provider_served


@dataclass
class Troubled:
    """A bench whose disk can be made to fail, and a second hand on its file."""

    bench: Bench
    store: SqliteStore
    vfs: FaultyVfs
    path: Path


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    path = tmp_path_factory.mktemp("store") / "gateway.db"
    with faulty(f"trouble-{uuid.uuid4().hex}") as vfs:
        store = SqliteStore(path, vfs=vfs.name)
        store.open()
        store._open().set_busy_timeout(20)
        settings = Options(operator_token=OPERATOR_TOKEN, allow_loopback=True, test_clock=True, experimental=("memory_connectors",))
        try:
            with provider_served(Provider()) as provider, Served(Gateway(settings, store, lambda: None).asgi()) as served:
                operator = Operator(f"http://127.0.0.1:{served.port}")
                bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
                bench.connect(permissions={"delete_note": "ask_first"})
                yield Troubled(bench, store, vfs, path)
                operator.http.close()
        finally:
            store.close()


@contextlib.contextmanager
def failing(troubled: Troubled, error: Exception) -> Iterator[None]:
    troubled.vfs.fails = lambda what: error if what == "write" else None
    try:
        yield
    finally:
        troubled.vfs.fails = lambda what: None


@contextlib.contextmanager
def held(troubled: Troubled) -> Iterator[None]:
    other = apsw.Connection(str(troubled.path))
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.execute("ROLLBACK")
        other.close()


TROUBLES: dict[str, tuple[str, Callable[[Troubled], contextlib.AbstractContextManager[None]]]] = {
    "full": ("store_unwritable", lambda troubled: failing(troubled, apsw.FullError("full"))),
    "read-only": ("store_unwritable", lambda troubled: failing(troubled, apsw.ReadOnlyError("read-only"))),
    "broken": ("store_unwritable", lambda troubled: failing(troubled, apsw.IOError("broken"))),
    "held": ("store_busy", held),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_store_that_cannot_be_written_dispatches_nothing_says_why_and_loses_nothing(troubled: Troubled, trouble: str) -> None:
    bench, (code, begin) = troubled.bench, TROUBLES[trouble]
    run, token = bench.run()
    waiting = bench.call(token, "delete_note", {"id": trouble})["_meta"]["gateway/approval"]["id"]
    before, dispatched = bench.records(), len(bench.provider.calls)
    acts: list[tuple[str, str, Any]] = [
        ("POST", f"/approvals/{waiting}/approve", {"by": "ann"}),
        ("POST", f"/approvals/{waiting}/reject", {"by": "ann"}),
        ("PUT", "/connections/notes/permissions", {"permissions": {"add_note": "off"}}),
        ("POST", "/connections/notes/revoke", None),
        ("POST", f"/runs/{run}/end", None),
        ("PUT", "/policies", {"policies": [{"id": "x", "permission": "off"}]}),
    ]
    with begin(troubled):
        for name, arguments in (("add_note", {"text": "x"}), ("delete_note", {"id": "new"}), ("get_nothing", {})):
            with pytest.raises(MCPError) as failed:
                bench.call(token, name, arguments)
            assert (failed.value.error.code, failed.value.error.data["gateway/reason"]) == (-32603, code)
        for method, path, body in acts:
            with pytest.raises(Refused) as refused:
                bench.op(method, path, body)
            assert (refused.value.status, refused.value.code) == (503, code)
            assert refused.value.error["fix"]
    assert len(bench.provider.calls) == dispatched
    assert bench.records() == before
    assert bench.op("GET", f"/approvals/{waiting}")["state"] == "pending"
    assert bench.op("POST", f"/approvals/{waiting}/approve", {"by": "ann"})["approval"]["state"] == "executed"
    assert bench.call(token, "add_note", {"text": "x"})["_meta"]["gateway/outcome"] == "success"
    assert bench.trail(run)[-3:] == SUCCESS
    assert len(bench.provider.calls) == dispatched + 2
    assert verify(troubled.store.audit_read(None), head=troubled.store.audit_head()) == []


def test_a_store_that_is_gone_opens_no_door_and_says_so(troubled: Troubled) -> None:
    bench = troubled.bench
    _, token = bench.run()
    dispatched = len(bench.provider.calls)
    ann = Operator(bench.operator.mcp.removesuffix("/mcp"), bench.op("POST", "/operators", {"operator": "ann", "role": "operator"})["token"])
    troubled.store.close()
    try:
        headers = {"authorization": f"Bearer {token}", "content-type": "application/json", "accept": "application/json, text/event-stream"}
        answers = [bench.operator.http.request(method, bench.operator.mcp, headers=headers, content=b"{}") for method in ("POST", "GET", "DELETE")]
        for answer in answers:
            assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unusable")
        for who in (bench.operator, ann):
            with pytest.raises(Refused) as refused:
                who("GET", f"/tenants/{bench.tenant}/audit")
            assert (refused.value.status, refused.value.code) == (503, "store_unusable")
    finally:
        troubled.store.open()
        ann.http.close()
    assert len(bench.provider.calls) == dispatched
    assert bench.call(token, "get_echo", {})["_meta"]["gateway/outcome"] == "success"
