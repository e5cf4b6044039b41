"""Each deliberate defect does what it says, on the wire and in the records, and shows in no answer of the operator API."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_gateway.defects import KNOWN, Defects, UnknownDefect, normalised, redirected, truncated

from .conftest import PENDING, SECRET, SUCCESS, Bench, gateway_served, provider_served, raw_call

NOTE = {"text": "The navigator keeps a silver compass in a maple cabinet."}
STARTED = ("call_started", "pending", "allow", "dispatching")


@contextlib.contextmanager
def broken(*defects: str, **permissions: str) -> Iterator[tuple[Bench, str, str]]:
    """A gateway with the defects: its bench, a run and that run's token."""
    with gateway_served(*defects) as operator, provider_served() as provider:
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.connect(permissions=permissions)
        run, token = bench.run()
        yield bench, run, token
        shown = [operator("GET", "/health"), bench.op("GET", "/connections/notes"), bench.op("GET", "/connections/notes/tools")]
        assert not [name for name in KNOWN if name in json.dumps([shown, bench.records()])]


def approve(bench: Bench, result: dict[str, Any]) -> dict[str, Any]:
    return bench.op("POST", f"/approvals/{result['_meta']['gateway/approval']['id']}/approve", {"by": "ann"})


def test_iserror_as_success() -> None:
    with broken("iserror-as-success") as (bench, run, token):
        result = bench.call(token, "get_failure")
        assert (result["isError"], result["_meta"]["gateway/outcome"]) == (False, "success")
        assert bench.trail(run) == SUCCESS


def test_skip_approval() -> None:
    with broken("skip-approval", add_note="ask_first") as (bench, run, token):
        assert bench.call(token, "add_note", NOTE)["_meta"]["gateway/outcome"] == "success"
        assert len(bench.provider.calls) == 1
        assert bench.trail(run)[1:] == SUCCESS[1:]


def test_approve_twice() -> None:
    with broken("approve-twice", add_note="ask_first") as (bench, run, token):
        assert approve(bench, bench.call(token, "add_note", NOTE))["approval"]["state"] == "executed"
        assert len(bench.provider.calls) == 2
        assert bench.trail(run).count(STARTED) == 1
        bench.call(token, "get_echo")
        assert len(bench.provider.calls) == 3


def test_dispatch_before_approval() -> None:
    with broken("dispatch-before-approval", add_note="ask_first") as (bench, run, token):
        result = bench.call(token, "add_note", NOTE)
        assert result["_meta"]["gateway/outcome"] == "pending"
        assert len(bench.provider.calls) == 1
        assert bench.trail(run) == PENDING
        assert approve(bench, result)["approval"]["state"] == "executed"
        assert len(bench.provider.calls) == 1


@pytest.mark.parametrize(("defect", "missing"), [("drop-audit", "call_completed"), ("drop-audit=policy_decision", "policy_decision")])
def test_drop_audit(defect: str, missing: str) -> None:
    with broken(defect) as (bench, run, token):
        bench.call(token, "get_echo")
        assert bench.trail(run) == [record for record in SUCCESS if record[0] != missing]


def test_wrong_outcome() -> None:
    with broken("wrong-outcome") as (bench, run, token):
        result = bench.call(token, "get_failure")
        assert (result["isError"], result["_meta"]["gateway/outcome"]) == (True, "tool_error")
        assert bench.trail(run) == SUCCESS


def test_weaken_risk() -> None:
    with broken("weaken-risk") as (bench, _, _):
        risks = {entry["name"]: entry["risk"] for entry in bench.op("GET", "/connections/notes/tools")["tools"]}
        assert (risks["delete_note"], risks["add_note"]) == ("read", "write")


def test_stale_catalog() -> None:
    with broken("stale-catalog") as (bench, _, _):
        bench.provider.tools = bench.provider.tools[1:]
        answer = bench.op("POST", "/connections/notes/refresh")
        assert (answer["discovered"], answer["removed"]) == (8, [])
        assert len(bench.op("GET", "/connections/notes/tools")["tools"]) == 9


def test_drop_page() -> None:
    with broken("drop-page") as (bench, _, _):
        catalog = bench.op("GET", "/connections/notes/tools")
        assert (len(catalog["tools"]), catalog["complete"]) == (8, True)
        bench.provider.page = 100
        assert bench.op("POST", "/connections/notes/refresh")["discovered"] == 7


def test_leak_credential() -> None:
    with broken("leak-credential") as (bench, _, token):
        assert SECRET in json.dumps(bench.call(token, "get_echo"))
        assert SECRET not in json.dumps(bench.records())


def test_truncate_result() -> None:
    with broken("truncate-result") as (bench, _, token):
        text = bench.call(token, "add_note", NOTE)["content"][0]["text"]
        assert "maple" not in text
        assert text


def test_swap_responses() -> None:
    with broken("swap-responses") as (bench, _, token):
        assert bench.call(token, "get_echo", {"n": 1})["structuredContent"] == {"got": {"n": 1}}
        for _ in range(3):
            assert bench.call(token, "get_echo", {"n": 2})["structuredContent"] == {"got": {"n": 1}}
        written = bench.call(token, "add_note", NOTE)["content"][0]["text"]
        assert json.loads(written)["text"] == NOTE["text"]
        assert bench.call(token, "get_echo", {"n": 3})["structuredContent"] == {"got": {"n": 2}}
        assert bench.call(token, "get_echo", {"n": 4})["content"][0]["text"] == written


@pytest.mark.parametrize("whole", [True, False])
def test_bypass_tap(whole: bool) -> None:
    with provider_served() as direct:
        address = direct.url if whole else f"127.0.0.1:{direct.port}"
        with broken(f"bypass-tap={address}") as (bench, run, token):
            assert bench.call(token, "get_echo", {"n": 1})["structuredContent"] == {"got": {"n": 1}}
            assert (len(bench.provider.calls), len(direct.calls)) == (0, 1)
            assert "tools/list" not in direct.methods
            assert bench.trail(run) == SUCCESS
            assert bench.records(run)[-1]["details"]["endpoint"] == bench.provider.url


def test_normalise_schema() -> None:
    with broken() as (bench, _, _):
        honest = {entry["name"]: entry["schema_hash"] for entry in bench.op("GET", "/connections/notes/tools")["tools"]}
    with broken("normalise-schema") as (bench, _, _):
        entries = bench.op("GET", "/connections/notes/tools")["tools"]
        assert all(entry["schema_hash"] != honest[entry["name"]] for entry in entries)
        assert "additionalProperties" not in next(entry for entry in entries if entry["name"] == "add_note")["input_schema"]


def test_without_a_defect_concurrent_answers_are_their_callers_own() -> None:
    with broken() as (bench, _, token):

        async def many() -> None:
            async with bench.agent(token) as session, anyio.create_task_group() as group:

                async def one(number: int) -> None:
                    result = await raw_call(session, "notes__get_echo", {"n": number})
                    assert result["structuredContent"] == {"got": {"n": number}}

                for number in range(20):
                    group.start_soon(one, number)

        anyio.run(many)


def test_a_name_that_is_no_defect_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownDefect) as caught:
        Defects(["swap-response"])
    assert "swap-responses" in caught.value.fix


@given(st.recursive(st.none() | st.booleans() | st.text(), lambda inner: st.dictionaries(st.text(), inner) | st.lists(inner)))
def test_normalising_always_changes_an_object_and_never_raises(schema: object) -> None:
    changed = normalised(schema)
    if isinstance(schema, dict):
        assert changed != schema


def test_truncating_leaves_what_is_short_and_what_is_no_text() -> None:
    result = {"content": [{"type": "text", "text": "short"}, {"type": "image", "data": "x" * 40}], "structuredContent": {"n": 1}}
    assert truncated(result) == result


def test_an_address_replaces_host_and_port_or_the_whole_url() -> None:
    assert redirected("http://127.0.0.1:1/m/k/mcp", "127.0.0.1:2") == "http://127.0.0.1:2/m/k/mcp"
    assert redirected("http://127.0.0.1:1/m/k/mcp", "http://127.0.0.1:3/mcp") == "http://127.0.0.1:3/mcp"
