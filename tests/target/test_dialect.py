"""Each way of saying "this call waits", put into one word; and nothing else is."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.target.ctrlrun import TARGET as CTRLRUN
from harness.target.dialect import Dialect, ErrorText, Held, Http409, InputRequired, Refusal, Reply, RpcError, SuccessMeta, first

PENDING: list[tuple[Dialect, Reply, str | None]] = [
    (
        SuccessMeta(("_meta", "status"), ("_meta", "approval", "id")),
        Reply({"content": [], "_meta": {"status": "pending_approval", "approval": {"id": "a1"}}}),
        "a1",
    ),
    (SuccessMeta(("structuredContent", "state"), ("structuredContent", "id")), Reply({"structuredContent": {"state": "pending", "id": 7}}), "7"),
    (RpcError(-41002, ("request_id",)), Reply(error={"code": -41002, "message": "x", "data": {"request_id": "apr_1"}}), "apr_1"),
    (
        ErrorText(re.compile(r"needs approval \((?P<id>\w+)\)")),
        Reply({"isError": True, "content": [{"type": "text", "text": "This needs approval (r9)."}]}),
        "r9",
    ),
    (ErrorText(re.compile("needs approval")), Reply({"isError": True, "content": [{"type": "text", "text": "needs approval"}]}), None),
    (Held(), Reply(), None),
    (InputRequired(), Reply({"resultType": "input_required", "requestState": "s1"}), "s1"),
    (Http409(), Reply(error={"code": -32603, "message": "Conflict", "data": {"status": 409, "approval": "c1"}}), "c1"),
]


@pytest.mark.parametrize(("dialect", "reply", "approval"), PENDING)
def test_each_dialect_says_pending(dialect: Dialect, reply: Reply, approval: str | None) -> None:
    said = first([dialect], reply)
    assert (said["outcome"], said["origin"], said.get("approval")) == ("pending", "gateway", approval)


@pytest.mark.parametrize(("dialect", "_reply", "_approval"), PENDING)
@pytest.mark.parametrize(
    "reply",
    [
        Reply({"content": [{"type": "text", "text": "needs approval (r9)"}], "isError": False}),
        Reply({"content": [{"type": "text", "text": "the user was not found"}], "isError": True}),
        Reply({"structuredContent": {"state": "done"}, "_meta": {"status": "done"}}),
        Reply(error={"code": -32602, "message": "bad arguments", "data": None}),
        Reply(error={"code": 409, "message": "conflict", "data": "409"}),
    ],
)
def test_an_ordinary_answer_is_in_no_dialect(dialect: Dialect, _reply: Reply, _approval: str | None, reply: Reply) -> None:
    assert first([dialect], reply) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: st.dictionaries(st.text(max_size=5), inner), max_leaves=6
)


@given(result=st.none() | st.dictionaries(st.sampled_from(["_meta", "content", "isError", "structuredContent", "resultType"]), JSON), data=JSON)
def test_no_answer_breaks_a_dialect(result: dict[str, Any] | None, data: Any) -> None:
    for dialect, _, _ in PENDING:
        for reply in (Reply(result), Reply(error={"code": -41002, "message": "", "data": data})):
            assert first([dialect], reply).get("outcome") in (None, "pending")


def test_ctrlrun_refuses_in_the_audit_s_own_words() -> None:
    def said(code: int, **data: str) -> tuple[str, str]:
        found = first(CTRLRUN.dialects, Reply(error={"code": code, "message": "x", "data": data}))
        return found["outcome"], found["reason"]

    assert said(-41001, reason="unknown_action") == ("denied", "tool_not_found")
    assert said(-41001, reason="decision") == ("denied", "tool_off")
    assert said(-41001, reason="rule 3") == ("denied", "policy_block")
    assert said(-41004, state="committed") == ("replayed", "duplicate_effect")
    assert said(-41002, request_id="apr_1") == ("pending", "requires_approval_policy")
    assert Refusal(-1, "tool_off").read(Reply(error={"code": -2})) is None
