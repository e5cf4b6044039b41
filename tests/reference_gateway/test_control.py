"""The operator API: every route, its refusals with code, place and remedy, catalogs that change, and tenants that stay apart."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reference_gateway.audit import verify

from .conftest import OPERATOR_TOKEN, SECRET, TLS, VERSIONS, Bench, Operator, Provider, Refused, gateway_served, provider_served, tool


def refused(bench: Bench, method: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        bench.op(method, path, body)
    error = caught.value.error
    assert error["message"]
    assert "where" in error
    assert error["fix"]
    return caught.value.status, caught.value.code


# the door


@pytest.mark.parametrize("authorization", [None, "Bearer wrong", f"Basic {OPERATOR_TOKEN}", f"Bearer {OPERATOR_TOKEN}x", "Bearer"])
@pytest.mark.parametrize("path", ["/health", "/tenants", "/nowhere", "/tenants/t/audit"])
def test_every_route_needs_the_operators_token(gateway: Operator, path: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {"authorization": authorization}
    answer = httpx2.get(str(gateway.http.base_url).rstrip("/") + path, headers=headers, verify=TLS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "operator_unauthorized")


def test_health_tells_what_is_in_use_and_nothing_of_defects(bench: Bench) -> None:
    health = bench.operator("GET", "/health")
    assert health["status"] == "ok"
    assert health["store"]["kind"] == "sqlite"
    assert health["store"]["sqlite_version"]
    assert health["clock"] == "test"
    assert health["development"] == {"allow_loopback": True, "mapped_hosts": [], "ports": [], "lab": False}
    assert health["connections"][f"{bench.tenant}/notes"] == {"status": "active", "health": "ok"}
    assert "defect" not in json.dumps(health)


def test_time_stands_still_and_moves_by_request_only(gateway: Operator) -> None:
    first = gateway("POST", "/clock/advance", {"seconds": 0})["now"]
    assert gateway("POST", "/clock/advance", {"seconds": 0})["now"] == first
    assert gateway("POST", "/clock/advance", {"seconds": 1.5})["now"] > first
    assert first.endswith("Z")


def test_a_gateway_on_system_time_does_not_advance() -> None:
    with gateway_served(test_clock=False) as operator:
        with pytest.raises(Refused) as caught:
            operator("POST", "/clock/advance", {"seconds": 1})
        assert (caught.value.status, caught.value.code) == (409, "clock_not_test")
        assert operator("GET", "/health")["clock"] == "system"


# refusals by name

CONNECTION = {
    "name": "x",
    "provider": "generic",
    "transport": "mcp_http",
    "url": "http://127.0.0.1:1/mcp",
    "auth": {"scheme": "bearer", "path": "credentials.authorization"},
    "credentials": {"credentials.authorization": SECRET},
}
COGNEE = {
    "name": "x",
    "provider": "cognee",
    "transport": "cognee_cloud",
    "credentials": {"env.COGNEE_BASE_URL": "https://tenant1.aws.cognee.ai", "env.COGNEE_API_KEY": "k"},
}


@pytest.mark.parametrize(
    ("status", "code", "changes"),
    [
        (422, "unknown_field", {"colour": "blue"}),
        (422, "unknown_field", {"auth": {"scheme": "none", "secret": "x"}}),
        (422, "unknown_field", {"grant": {"kind": "organization", "subject": "x"}}),
        (422, "invalid_field", {"name": "Upper"}),
        (422, "invalid_field", {"name": 7}),
        (422, "invalid_field", {"name": "a" * 41}),
        (422, "invalid_field", {"provider": "nobody"}),
        (422, "invalid_field", {"transport": "carrier-pigeon"}),
        (422, "invalid_field", {"protocol_version": "2024-11-05"}),
        (422, "invalid_field", {"url": None}),
        (422, "invalid_field", {"grant": {"kind": "personal"}}),
        (422, "invalid_field", {"auth": {"scheme": "bearer", "path": "other"}}),
        (422, "invalid_field", {"auth": {"scheme": "header", "path": "credentials.authorization"}}),
        (422, "invalid_field", {"credentials": {"credentials.authorization": "two\nlines"}}),
        (422, "invalid_field", {"tool_timeout_s": 61}),
        (422, "permission_unknown", {"permissions": {"x": "perhaps"}}),
        (422, "url_rejected", {"url": "http://example.com/mcp"}),
        (422, "url_rejected", {"url": "https://169.254.169.254/mcp"}),
        (422, "url_rejected", {"url": "http://127.0.0.1:1@example.com/mcp"}),
        (422, "url_rejected", {"url": "http://localhost:1/mcp"}),
        (422, "url_rejected", {"url": "not a url"}),
        (502, "provider_unreachable", {}),
    ],
)
def test_a_connection_that_cannot_be_made_is_refused_by_name_and_leaves_nothing(
    bench: Bench, status: int, code: str, changes: dict[str, Any]
) -> None:
    assert refused(bench, "POST", "/connections", {**CONNECTION, **changes}) == (status, code)
    assert refused(bench, "GET", "/connections/x") == (404, "connection_unknown")


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("cognee_cloud_url_invalid", {"env.COGNEE_BASE_URL": "https://tenant1.aws.cognee.ai.evil"}),
        ("cognee_cloud_url_invalid", {"env.COGNEE_BASE_URL": "http://tenant1.aws.cognee.ai"}),
        ("invalid_field", {"env.COGNEE_API_KEY": ""}),
    ],
)
def test_a_cognee_connection_is_judged_by_its_address(bench: Bench, code: str, changes: dict[str, str]) -> None:
    body = {**COGNEE, "credentials": {**COGNEE["credentials"], **changes}}  # type: ignore[dict-item]
    assert refused(bench, "POST", "/connections", body) == (422, code)


def test_cognee_without_its_credentials_or_with_a_url_is_refused(bench: Bench) -> None:
    assert refused(bench, "POST", "/connections", {**COGNEE, "credentials": {}}) == (422, "invalid_field")
    assert refused(bench, "POST", "/connections", {**COGNEE, "url": "https://tenant1.aws.cognee.ai"}) == (422, "invalid_field")


def test_a_rejected_key_is_told_apart_from_an_unreachable_provider(bench: Bench) -> None:
    body = {**CONNECTION, "url": bench.provider.url, "credentials": {"credentials.authorization": "wrong"}}
    assert refused(bench, "POST", "/connections", body) == (422, "memory_api_key_rejected")


def test_what_is_no_mcp_server_is_a_protocol_failure(bench: Bench) -> None:
    bench.provider.secret = None
    body = {**CONNECTION, "url": bench.provider.url + "/elsewhere"}
    assert refused(bench, "POST", "/connections", body) == (502, "provider_protocol")


def test_a_pinned_version_that_the_provider_does_not_offer_is_refused(bench: Bench) -> None:
    body = {**CONNECTION, "url": bench.provider.url, "protocol_version": "2025-03-26"}
    assert refused(bench, "POST", "/connections", body) == (422, "invalid_field")


def test_names_that_lead_nowhere(bench: Bench) -> None:
    assert refused(bench, "GET", "/connections/none") == (404, "connection_unknown")
    assert refused(bench, "POST", "/runs/none/end") == (404, "run_unknown")
    assert refused(bench, "GET", "/approvals/none") == (404, "approval_unknown")
    assert refused(bench, "POST", "/approvals/none/approve", {"by": "x"}) == (404, "approval_unknown")
    assert refused(bench, "POST", "/runs", {"connections": ["none"], "task": "t", "agent": "a"}) == (404, "connection_unknown")
    assert refused(bench, "PUT", "/connections/notes/permissions", {"permissions": {"none": "off"}}) == (404, "tool_unknown")
    assert refused(bench, "PUT", "/connections/notes/permissions", {"permissions": {"get_echo": "no"}}) == (422, "permission_unknown")
    assert refused(bench, "POST", "/connections", {**CONNECTION, "name": "notes"}) == (409, "connection_exists")
    assert refused(bench, "GET", "/nowhere")[1] == "route_unknown"
    assert refused(bench, "DELETE", "/audit")[1] == "method_not_allowed"
    stranger = Bench(bench.operator, bench.provider, "nobody")
    assert refused(stranger, "GET", "/audit") == (404, "tenant_unknown")
    assert refused(bench, "POST", "/runs", {"connections": [], "task": "t", "agent": "a"}) == (422, "invalid_field")
    assert refused(bench, "POST", "/runs", {"connections": ["notes"], "task": "t", "agent": "a", "mode": "fast"}) == (422, "invalid_field")
    for query in ("state=odd", "after=-1", "colour=blue", "run=a&run=b"):
        assert refused(bench, "GET", f"/audit?{query}")[0] == 422


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"nul", b'{"seconds":1e400}', b'{"seconds":"1"}', b'{"seconds":-1}', b"\xff"])
def test_bodies_that_are_none_are_refused(gateway: Operator, body: bytes) -> None:
    answer = gateway.http.post("/clock/advance", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_field")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*CONNECTION, "x"]), inner, max_size=6),
        max_leaves=12,
    )
)
def test_no_body_crashes_the_door(bench: Bench, body: object) -> None:
    answer = bench.operator.http.post(f"/tenants/{bench.tenant}/connections", content=json.dumps(body).encode())
    assert answer.status_code in (409, 422)


def test_a_body_without_end_is_not_read(gateway: Operator) -> None:
    answer = gateway.http.post("/clock/advance", content=b"x" * (1024 * 1024 + 1))
    assert answer.status_code == 413


# connections and catalogs


def test_a_connection_reads_back_without_its_secret(bench: Bench) -> None:
    assert bench.op("GET", "/connections/notes") == {
        "name": "notes",
        "provider": "generic",
        "transport": "mcp_http",
        "url": bench.provider.url,
        "status": "active",
        "health": "ok",
        "health_reason": None,
        "grant": {"kind": "organization"},
        "protocol_version": "auto",
        "agents": None,
        "quarantine": False,
        "managed": {},
        "offers": [],
        "transport_details": {"spawned_local_process": False, "mapped": False},
        "tools": 9,
    }


def test_the_catalog_is_what_discovery_returned(bench: Bench) -> None:
    catalog = bench.op("GET", "/connections/notes/tools")
    assert (catalog["pages"], catalog["complete"], catalog["instructions"]) == (3, True, "be kind")
    assert catalog["server"] == {"name": "tiny", "version": "1.2.3"}
    entries = {entry["name"]: entry for entry in catalog["tools"]}
    assert entries["add_note"]["input_schema"] == bench.provider.tools[0].input_schema
    assert entries["add_note"]["exposed_as"] == "notes__add_note"
    assert entries["get_echo"]["annotations"] == {"readOnlyHint": True}
    assert {name: entry["risk"] for name, entry in entries.items() if name.endswith("note")} == {"add_note": "write", "delete_note": "destructive"}
    assert {entry["status"] for entry in entries.values()} == {"active"}
    assert {entry["permission"] for entry in entries.values()} == {"allowed"}


def test_permissions_change_one_by_one_and_access_counts_them(bench: Bench) -> None:
    assert bench.op("GET", "/connections/notes/access") == {"allowed": 9, "ask_first": 0, "off": 0, "quarantined": 0}
    answer = bench.op("PUT", "/connections/notes/permissions", {"permissions": {"add_note": "ask_first", "get_boom": "off"}})
    assert answer["permissions"]["add_note"] == "ask_first"
    assert answer == bench.op("GET", "/connections/notes/permissions")
    assert bench.op("GET", "/connections/notes/access") == {"allowed": 7, "ask_first": 1, "off": 1, "quarantined": 0}
    events = [(r["tool"], r["details"]["permission"]) for r in bench.records() if r["event"] == "permission_changed"]
    assert events == [("add_note", "ask_first"), ("get_boom", "off")]


def test_a_refresh_names_what_was_added_changed_and_removed(bench: Bench) -> None:
    provider = bench.provider
    provider.tools[1] = provider.tools[1].model_copy(update={"description": "now described"})
    provider.tools = [each for each in provider.tools if each.name != "get_big"] + [tool("get_new")]
    answer = bench.op("POST", "/connections/notes/refresh")
    assert answer == {
        "discovered": 9,
        "pages": 3,
        "complete": True,
        "added": ["get_new"],
        "changed": ["get_echo"],
        "removed": ["get_big"],
        "dropped": [],
        "quarantined": 0,
    }
    statuses = {entry["name"]: entry["status"] for entry in bench.op("GET", "/connections/notes/tools")["tools"]}
    assert statuses["get_big"] == "removed"
    _, token = bench.run()
    assert bench.call(token, "get_new")["_meta"]["gateway/outcome"] == "success"
    provider.tools.append(tool("get_big"))
    assert bench.op("POST", "/connections/notes/refresh")["added"] == ["get_big"]


def test_quarantine_holds_what_is_new_or_changed(bench: Bench) -> None:
    bench.connect("careful", quarantine=True)
    assert bench.op("GET", "/connections/careful/access")["quarantined"] == 0
    bench.provider.tools[1] = bench.provider.tools[1].model_copy(update={"description": "changed"})
    bench.provider.tools.append(tool("get_new"))
    assert bench.op("POST", "/connections/careful/refresh")["quarantined"] == 2
    assert bench.op("POST", "/connections/careful/refresh")["quarantined"] == 0
    assert bench.op("GET", "/connections/careful/access") == {"allowed": 8, "ask_first": 0, "off": 0, "quarantined": 2}
    _, token = bench.run("careful")
    assert bench.call(token, "get_new")["_meta"]["gateway/reason"] == "tool_quarantined"

    async def names() -> list[str]:
        async with bench.agent(token) as session:
            return [each.name for each in (await session.list_tools()).tools]

    assert "careful__get_echo" not in anyio.run(names)


def wire_tool(name: object, **more: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def test_an_empty_cursor_is_a_cursor_and_nameless_or_double_tools_are_counted(bench: Bench) -> None:
    pages: dict[str | None, dict[str, Any]] = {
        None: {"tools": [wire_tool("get_a"), wire_tool(""), wire_tool(None)], "nextCursor": ""},
        "": {"tools": [wire_tool("get_b"), wire_tool("get_a", title="again")], "nextCursor": "z"},
        "z": {"tools": [{"inputSchema": {}}, "nonsense", wire_tool("get_c")], "nextCursor": None},
    }
    with provider_served(Provider(list_answer=lambda cursor: pages[cursor])) as odd:
        other = Bench(bench.operator, odd, bench.tenant)
        assert other.connect("odd")["tools"] == 3
        answer = other.op("POST", "/connections/odd/refresh")
    assert (answer["discovered"], answer["pages"]) == (3, 3)
    assert answer["dropped"] == [{"reason": "duplicate", "count": 1}, {"reason": "nameless", "count": 4}]


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("mcp_catalog_pagination", lambda cursor: {"tools": [], "nextCursor": "same"}),
        ("mcp_catalog_pagination", lambda cursor: {"tools": [], "nextCursor": str(int(cursor or 0) + 1)}),
        ("catalog_too_large", lambda cursor: {"tools": [wire_tool(f"t{n}") for n in range(20_001)]}),
        ("provider_protocol", lambda cursor: {"tools": "none"}),
        ("provider_protocol", lambda cursor: {"tools": [], "nextCursor": 7}),
    ],
)
def test_lists_without_end_or_form_are_refused_by_name(bench: Bench, code: str, answer: Any) -> None:
    with provider_served(Provider(list_answer=answer)) as odd:
        other = Bench(bench.operator, odd, bench.tenant)
        with pytest.raises(Refused) as caught:
            other.connect("odd")
    assert (caught.value.status, caught.value.code) == (502, code)


def test_a_failed_refresh_keeps_the_catalog_and_shows_in_health(bench: Bench) -> None:
    bench.provider.list_answer = lambda cursor: {"tools": [], "nextCursor": "same"}
    assert refused(bench, "POST", "/connections/notes/refresh") == (502, "mcp_catalog_pagination")
    assert bench.op("GET", "/connections/notes")["health"] == "error"
    assert bench.op("GET", "/connections/notes")["tools"] == 9
    bench.provider.list_answer = None
    bench.op("POST", "/connections/notes/refresh")
    assert bench.op("GET", "/connections/notes")["health"] == "ok"


def test_a_hundred_pages_and_twenty_thousand_tools_are_listed_and_called(bench: Bench) -> None:
    def page(cursor: str | None) -> dict[str, Any]:
        number = int(cursor or 0)
        tools = [wire_tool(f"get_{number * 200 + n}") for n in range(200)]
        return {"tools": tools, "nextCursor": str(number + 1) if number < 99 else None}

    with provider_served(Provider(list_answer=page)) as large:
        other = Bench(bench.operator, large, bench.tenant)
        assert other.connect("large")["tools"] == 20_000
        _, token = other.run("large")

        async def listed() -> int:
            async with other.agent(token) as session:
                return len((await session.list_tools()).tools)

        assert anyio.run(listed) == 20_000


def test_deleting_ends_upstream_sessions_and_forgets_the_secret(bench: Bench) -> None:
    _, token = bench.run()
    bench.call(token, "get_echo", version=VERSIONS[1])
    bench.op("DELETE", "/connections/notes")
    assert refused(bench, "GET", "/connections/notes") == (404, "connection_unknown")

    async def ended() -> None:
        with anyio.fail_after(5):
            while "DELETE" not in bench.provider.methods:
                await anyio.sleep(0.02)

    anyio.run(ended)
    bench.connect()
    assert bench.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"


def test_tenants_do_not_see_one_another(bench: Bench) -> None:
    run, token = bench.run()
    bench.permit(add_note="ask_first")
    held = bench.call(token, "add_note", {"text": "x"})["_meta"]["gateway/approval"]["id"]
    other = Bench(bench.operator, bench.provider, bench.operator("POST", "/tenants", {})["tenant"])
    assert refused(other, "GET", "/connections/notes") == (404, "connection_unknown")
    assert refused(other, "POST", f"/runs/{run}/end") == (404, "run_unknown")
    assert refused(other, "GET", f"/approvals/{held}") == (404, "approval_unknown")
    assert refused(other, "POST", f"/approvals/{held}/approve", {"by": "eve"}) == (404, "approval_unknown")
    assert refused(other, "POST", f"/approvals/{held}/reject", {"by": "eve"}) == (404, "approval_unknown")
    assert other.op("GET", "/approvals")["approvals"] == []
    assert other.op("GET", "/audit", run=run)["records"] == []


def test_repeating_a_tenant_is_harmless(gateway: Operator) -> None:
    tenant = gateway("POST", "/tenants", {"tenant": "acme"})["tenant"]
    assert gateway("POST", "/tenants", {"tenant": "acme"})["tenant"] == tenant == "acme"


def test_the_audit_is_one_chain_read_in_pages() -> None:
    with gateway_served() as operator, provider_served() as provider:
        bench = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"])
        bench.connect()
        _, token = bench.run()
        for _ in range(3):
            bench.call(token, "get_echo")
        whole = bench.op("GET", "/audit")
        head = whole["head"]
        assert verify(whole["records"], head=(head["seq"], head["hash"])) == []
        assert [record["seq"] for record in whole["records"]] == list(range(1, head["seq"] + 1))
        paged: list[dict[str, Any]] = []
        while batch := bench.op("GET", "/audit", after=len(paged), limit=4)["records"]:
            assert len(batch) <= 4
            paged += batch
        assert paged == whole["records"]
