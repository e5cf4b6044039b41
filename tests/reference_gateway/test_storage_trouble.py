"""A store that is full, read-only, broken or held by somebody else: a clear code for agent and operator, nothing dispatched, nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from reference_gateway.audit import verify

from .conftest import SUCCESS, Operator, Refused
from .trouble import TROUBLES, Troubled, troubled_gateway


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    with troubled_gateway(tmp_path_factory.mktemp("store") / "gateway.db", delete_note="ask_first") as made:
        yield made


def health(troubled: Troubled) -> tuple[str, str]:
    told = troubled.bench.operator("GET", "/health")
    return told["status"], told["store"]["state"]


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
        assert health(troubled) == ("degraded", code)
    assert len(bench.provider.calls) == dispatched
    assert bench.records() == before
    assert bench.op("GET", f"/approvals/{waiting}")["state"] == "pending"
    assert bench.op("POST", f"/approvals/{waiting}/approve", {"by": "ann"})["approval"]["state"] == "executed"
    assert bench.call(token, "add_note", {"text": "x"})["_meta"]["gateway/outcome"] == "success"
    assert bench.trail(run)[-3:] == SUCCESS
    assert health(troubled) == ("ok", "ok")
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
