"""From the gallery to a connection: the switch, setups, states, credentials, instructions, fixed arguments, delivery."""

from __future__ import annotations

import itertools
import json
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import apsw
import httpx2
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from reference_gateway.delivery import is_local
from tests.reference_gateway.conftest import (
    OPERATOR_TOKEN,
    SECRET,
    TLS,
    VERSIONS,
    Bench,
    Operator,
    Provider,
    Refused,
    agent,
    denied,
    gateway_served,
    provider_served,
    tool,
)

Json = dict[str, Any]
KEY = "credentials.authorization"
SCOPED = {"type": "object", "properties": {"text": {"type": "string"}, "workspace_id": {"type": "string"}}, "required": ["text", "workspace_id"]}
VAULT_KEY = "5a" * 32
NEW = "another-secret-77c1"


@pytest.fixture
def own(gateway: Operator, provider: Provider) -> Bench:
    """A tenant without any connection."""
    return Bench(gateway, provider, gateway("POST", "/tenants", {})["tenant"], "mem0")


def begin(own: Bench, **changes: Any) -> Json:
    body = {"connector": "mem0", "name": "mem0", "endpoint": own.provider.url, **changes}
    return own.op("POST", "/setups", {key: value for key, value in body.items() if value is not None})


def submit(own: Bench, secret: str = SECRET, name: str = "mem0", **more: Any) -> Json:
    return own.op("POST", f"/setups/{name}/credentials", {"values": {KEY: secret}, **more})


def refusal(call: Any, *args: Any, **more: Any) -> tuple[int, str]:
    with pytest.raises(Refused) as refused:
        call(*args, **more)
    return refused.value.status, refused.value.code


def connected(own: Bench, **changes: Any) -> Bench:
    begin(own, **changes)
    submit(own)
    return own


# the gallery and the switch


def test_the_gallery_shows_six_providers_and_what_each_needs(own: Bench) -> None:
    shown = {each["id"]: each for each in own.op("GET", "/gallery")["connectors"]}
    assert sorted(shown) == ["cognee", "honcho", "mem0", "papr", "supermemory", "zep"]
    assert {name for name, each in shown.items() if each["auth"] == "oauth"} == {"zep", "supermemory"}
    assert [(f["path"], f["secret"]) for f in shown["cognee"]["fields"]] == [("env.COGNEE_BASE_URL", False), ("env.COGNEE_API_KEY", True)]
    assert (shown["papr"]["choose"], len(shown["papr"]["fields"])) == ("one", 3)
    assert shown["honcho"]["managed"] == ["workspace_id"]
    assert own.op("GET", "/gallery/mem0") == shown["mem0"]
    assert refusal(own.op, "GET", "/gallery/mem9") == (404, "connector_unknown")


def raw(own: Bench, path: str, **headers: str) -> httpx2.Response:
    base = own.operator.mcp.removesuffix("/mcp")
    with httpx2.Client(verify=TLS, trust_env=False) as http:
        return http.get(f"{base}/operator/v1/tenants/{own.tenant}{path}", headers={"authorization": f"Bearer {OPERATOR_TOKEN}", **headers})


DOORS: list[tuple[str, str, Json]] = [
    ("POST", "/setups", {"connector": "mem0", "name": "late"}),
    ("GET", "/gallery/mem0", {}),
    ("POST", "/setups/begun/identity", {"subject": "user-1"}),
    ("POST", "/setups/begun/credentials", {"values": {KEY: SECRET}}),
    ("POST", "/setups/begun/authorize", {}),
]


def test_a_switch_turned_off_hides_the_gallery_and_closes_every_door_that_begins(own: Bench) -> None:
    connected(own)
    begin(own, name="begun", connector="zep")
    first = raw(own, "/gallery")
    kept = {"if-none-match": first.headers["etag"]}
    assert raw(own, "/gallery", **kept).status_code == 304
    assert own.op("PUT", "/experimental", {"memory_connectors": False}) == {"memory_connectors": False}
    hidden = raw(own, "/gallery", **kept)
    assert (hidden.status_code, hidden.json()) == (200, {"memory_connectors": False, "connectors": []})
    assert raw(own, "/gallery", **{"if-none-match": hidden.headers["etag"]}).status_code == 200
    dialled = len(own.provider.methods)
    for method, path, body in DOORS:
        assert refusal(own.op, method, path, body or None) == (403, "memory_connectors_off"), path
    assert refusal(own.connect, "direct", provider="mem0") == (403, "memory_connectors_off")
    assert len(own.provider.methods) == dialled
    assert own.op("GET", "/setups/begun")["credentials"] == []
    # what was ever active goes on
    assert own.call(own.run("mem0")[1], "get_echo")["_meta"]["gateway/outcome"] == "success"
    own.op("POST", "/connections/mem0/reconnect")
    own.provider.secret = NEW
    own.op("POST", "/connections/mem0/rotate", {"values": {KEY: NEW}})
    own.provider.secret = SECRET
    own.connect("custom")
    own.op("PUT", "/experimental", {"memory_connectors": True})
    assert len(own.op("GET", "/gallery")["connectors"]) == 6


def test_off_by_default_and_what_is_stored_outlives_a_restart(tmp_path: Path, provider: Provider) -> None:
    place = {"store": str(tmp_path / "gateway.sqlite3"), "vault_key": VAULT_KEY}
    with gateway_served(**place) as operator:
        own = Bench(operator, provider, operator("POST", "/tenants", {})["tenant"], "mem0")
        connected(own, managed={"user_id": "u-1"})
        begin(own, name="begun")
        assert refusal(submit, own, "canary-that-was-refused", "begun") == (422, "memory_api_key_rejected")
        own.op("PUT", "/connections/mem0/instructions", {"text": "Recall first."})
        own.op("POST", "/connections/mem0/state", {"state": "paused"})
    pages = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"begun" in pages
    assert b"canary-that-was-refused" not in pages
    assert SECRET.encode() not in pages
    with gateway_served(**place, experimental=(), public_url="https://gateway.example/base/") as operator:
        own = Bench(operator, provider, own.tenant, "mem0")
        read = own.op("GET", "/connections/mem0")
        assert (read["status"], read["managed"]) == ("paused", {"user_id": "u-1"})
        assert own.op("GET", "/connections/mem0/instructions") == {"text": "Recall first.", "enabled": True, "edited": True}
        assert own.op("GET", "/setups/begun")["problem"]["code"] == "memory_api_key_rejected"
        assert own.op("GET", "/gallery") == {"memory_connectors": False, "connectors": []}
        for method, path, body in DOORS:
            assert refusal(own.op, method, path, body or None) == (403, "memory_connectors_off"), path
        assert refusal(own.op, "PUT", "/experimental", {"memory_connectors": True}) == (409, "experimental_unavailable")
        own.op("POST", "/connections/mem0/state", {"state": "active"})
        own.op("POST", "/connections/mem0/reconnect")
        run, token = own.run("mem0", place="remote")
        assert own.op("POST", f"/runs/{run}/delivery", {"form": "codex", "token": token})["url"] == "https://gateway.example/base/mcp"
        lose_secrets(place["store"])
        dialled = len(provider.methods)
        lost = own.op("POST", "/connections/mem0/check")
        assert (lost["health"], lost["health_reason"], lost["probed"]) == ("error", "vault_secret_missing", False)
        assert len(provider.methods) == dialled
        own.op("POST", "/connections/mem0/rotate", {"values": {KEY: SECRET}})
        assert own.op("GET", "/connections/mem0")["health"] == "ok"


def lose_secrets(store: str) -> None:
    """As a disk might: the rows of the vault are gone while the gateway runs."""
    connection = apsw.Connection(store)
    connection.set_busy_timeout(5000)
    connection.execute("DELETE FROM secrets")
    connection.close()


# setting up


def test_a_key_is_tried_first_refused_and_tried_again(own: Bench) -> None:
    drafted = begin(own)
    assert (drafted["status"], drafted["step"], drafted["credentials"]) == ("draft", "credentials", [])
    assert own.provider.methods == []
    for wrong in ("wrong-1", "wrong-2"):
        assert refusal(submit, own, wrong) == (422, "memory_api_key_rejected")
        read = own.op("GET", "/setups/mem0")
        assert (read["status"], read["problem"]["code"], read["credentials"]) == ("draft", "memory_api_key_rejected", [])
        assert "wrong" not in json.dumps(read)
    assert refusal(own.op, "POST", "/setups/mem0/credentials", {"values": {}}) == (422, "invalid_field")
    assert refusal(own.op, "POST", "/setups/mem0/credentials", {"values": {KEY: SECRET, "env.OTHER": "x"}}) == (422, "unknown_field")
    assert refusal(submit, own, "not\na header") == (422, "invalid_field")
    done = submit(own)
    assert (done["status"], done["step"], done["problem"]) == ("active", "done", None)
    assert done["credentials"] == [{"path": KEY, "version": 1}]
    assert own.call(own.run("mem0")[1], "get_echo")["_meta"]["gateway/outcome"] == "success"
    assert refusal(submit, own) == (409, "state_conflict")
    events = [r["event"] for r in own.records() if r["connection"] == "mem0" and r["invocation"] is None]
    assert events == ["setup_started", *["setup_refused"] * 5, "connection_created", "discovery"]


def test_a_provider_that_is_down_or_no_provider_leaves_the_draft(own: Bench) -> None:
    begin(own, endpoint="http://127.0.0.1:9/mcp")
    assert refusal(submit, own) == (502, "provider_unreachable")
    assert own.op("GET", "/connections/mem0")["tools"] == 0
    assert submit(own, endpoint=own.provider.url)["status"] == "active"
    own.op("DELETE", "/connections/mem0")
    begin(own)
    assert refusal(begin, own) == (409, "connection_exists")


def test_whose_a_personal_connection_is_must_be_known_first(own: Bench) -> None:
    assert begin(own, grant={"kind": "personal"})["step"] == "identity"
    assert refusal(submit, own) == (409, "identity_unresolved")
    assert own.provider.methods == []
    own.advance(601)
    waited = own.op("GET", "/setups/mem0")
    assert (waited["steps"][0], waited["problem"]["code"]) == ({"step": "identity", "state": "failed"}, "identity_unresolved")
    assert own.op("POST", "/setups/mem0/identity", {"subject": "user-7"})["step"] == "credentials"
    assert submit(own)["status"] == "active"
    assert own.op("GET", "/connections/mem0")["grant"] == {"kind": "personal", "subject": "user-7"}
    assert refusal(own.op, "POST", "/setups/mem0/identity", {"subject": "user-8"}) == (409, "state_conflict")
    assert own.call(own.run("mem0", subject="user-8")[1], "get_echo")["_meta"]["gateway/reason"] == "not_granted"


BAD_ENDPOINTS = ["", "mem0", "ftp://mem0.example", "http://mem0.example/mcp", "https://10.0.0.1/mcp", "https://u:p@mem0.example/", "https://[::1]/"]


@pytest.mark.parametrize("url", BAD_ENDPOINTS)
def test_an_endpoint_that_is_never_dialled_is_refused_before_the_draft(own: Bench, url: str) -> None:
    assert refusal(begin, own, endpoint=url)[0] == 422
    assert refusal(own.op, "GET", "/setups/mem0") == (404, "connection_unknown")


TENANT = "tenant-one.aws.cognee.ai"
WRONG_URLS = [
    *(f"{scheme}{TENANT}" for scheme in ("", "http://", "//", "https:", "https:/", "ftp://", "javascript:", "https//", "hTTp://", "ws://")),
    *(
        f"https://{host}"
        for host in (
            "",
            "aws.cognee.ai",
            ".aws.cognee.ai",
            "a.b.aws.cognee.ai",
            "aws.cognee.ai.evil.example",
            "evilaws.cognee.ai",
            "x.aws.cognee.ai.",
            "x.aws.cognee.com",
            "x.aws-cognee.ai",
            "x.awscognee.ai",
            "-x.aws.cognee.ai",
            "x-.aws.cognee.ai",
            "x_y.aws.cognee.ai",
            "x..aws.cognee.ai",
            "*.aws.cognee.ai",
            "x.aws.cognee.ai@evil.example",
            "evil.example@x.aws.cognee.ai",
            "u:p@x.aws.cognee.ai",
            "@x.aws.cognee.ai",
            "x.aws.cognee.ai:8443",
            "x.aws.cognee.ai:80",
            "x.aws.cognee.ai:0",
            "x.aws.cognee.ai:99999",
            "x.aws.cognee.ai:",
            "x.aws.cognee.ai:4 43",
            "127.0.0.1",
            "localhost",
            "[::1]",
            "169.254.169.254",
            "2130706433",
            "0x7f000001",
            "127.1",
            "10.0.0.1",
            "x.aws.cognee.ai%00",
            "x%2eaws.cognee.ai",
            "x.aws.cognee.ai\\evil.example",
            "x.aws.cognee.ai\\@evil",
            "x．aws.cognee.ai",
            "х.aws.cognee.ai",
            "x.aws.cognee.ai\u200b",
            "ｘ.aws.cognee.ai",
            "①.aws.cognee.ai",
            "xn--.aws.cognee.ai/",
            "{tenant}.aws.cognee.ai",
            "<tenant>.aws.cognee.ai",
            "$TENANT.aws.cognee.ai",
            "x" * 64 + ".aws.cognee.ai",
            "x.aws.cognee.ai.aws.cognee.ai",
            "aws.cognee.ai.x",
            "x.aws.cognee.ai,y.aws.cognee.ai",
            "x.aws.cognee.ai;",
            "x.aws.cognee.ai'",
            'x".aws.cognee.ai',
        )
    ),
    *(
        f"https://{TENANT}{rest}"
        for rest in (
            "/api",
            "/api/v1",
            "/mcp",
            "/?x=1",
            "?",
            "?x",
            "#",
            "#x",
            "/#",
            "//",
            "//x",
            "/.",
            "/..",
            "/%2e%2e",
            ":443/api",
            ";x",
            "/;x",
            "/ ",
            "\\",
            "/\\",
        )
    ),
    *(
        f"{before}https://{TENANT}{after}"
        for before, after in itertools.product(("", " ", "\t", "\n", "\ufeff", "\x00"), ("", " ", "\r\n", "\x00", "\u2028"))
        if before + after
    ),
]


def test_a_tenant_url_in_a_hundred_wrong_spellings_is_refused_before_anything_is_asked(own: Bench) -> None:
    assert len(set(WRONG_URLS)) > 100
    own.op("POST", "/setups", {"connector": "cognee", "name": "cognee"})
    for url in WRONG_URLS:
        values = {"env.COGNEE_BASE_URL": url, "env.COGNEE_API_KEY": "key-1"}
        assert refusal(own.op, "POST", "/setups/cognee/credentials", {"values": values}) == (422, "cognee_cloud_url_invalid"), url
        read = own.op("GET", "/setups/cognee")
        assert (read["problem"]["code"], read["credentials"]) == ("cognee_cloud_url_invalid", [])


# afterwards


def test_states_and_what_may_be_called_in_them(own: Bench) -> None:
    connected(own)
    run, token = own.run("mem0")

    def state(to: str) -> str:
        return str(own.op("POST", "/connections/mem0/state", {"state": to})["status"])

    for stopped in ("paused", "disabled"):
        assert state(stopped) == stopped
        assert own.call(token, "get_echo")["_meta"]["gateway/reason"] == "connection_inactive"
        assert anyio.run(names, own, token) == []
        assert refusal(own.op, "POST", "/connections/mem0/check") == (409, "state_conflict")
        assert state("active") == state("active") == "active"
        assert own.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"
    assert own.trail(run)[:2] == denied("connection_inactive")
    state("disabled")
    own.provider.secret = NEW
    assert refusal(state, "active") == (422, "memory_api_key_rejected")
    assert refusal(state, "paused") == (409, "state_conflict")
    own.op("POST", "/connections/mem0/rotate", {"values": {KEY: NEW}})
    assert state("active") == "active"
    assert state("archived") == "archived"
    assert own.op("GET", "/setups/mem0")["credentials"] == []
    for to in ("active", "paused", "disabled"):
        assert refusal(state, to) == (409, "state_conflict")
    assert refusal(own.op, "POST", "/connections/mem0/reconnect") == (409, "state_conflict")
    assert refusal(begin, own) == (409, "connection_exists")
    own.op("DELETE", "/connections/mem0")
    begin(own)


async def names(own: Bench, token: str) -> list[str]:
    async with own.agent(token) as session:
        return [each.name for each in (await session.list_tools()).tools]


def test_what_waits_for_approval_is_not_executed_on_a_stopped_connection(own: Bench) -> None:
    connected(own)
    own.permit(add_note="ask_first")
    held = own.call(own.run("mem0")[1], "add_note", {"text": "kept"})["_meta"]["gateway/approval"]["id"]
    own.op("POST", "/connections/mem0/state", {"state": "paused"})
    assert own.op("POST", f"/approvals/{held}/approve", {"by": "ann"})["approval"]["state"] == "cancelled"
    assert own.provider.calls == []


def test_new_credentials_replace_the_old_only_when_they_work(own: Bench) -> None:
    connected(own)
    token = own.run("mem0")[1]
    assert refusal(own.op, "POST", "/connections/mem0/rotate", {"values": {KEY: "wrong"}}) == (422, "memory_api_key_rejected")
    assert own.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"
    assert own.op("GET", "/setups/mem0")["credentials"] == [{"path": KEY, "version": 1}]
    own.provider.secret = NEW
    own.op("POST", "/connections/mem0/rotate", {"values": {KEY: NEW}})
    assert own.op("GET", "/setups/mem0")["credentials"] == [{"path": KEY, "version": 2}]
    assert own.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"
    for body, code in (({"values": {}}, "invalid_field"), ({"values": {"env.X": "y"}}, "unknown_field"), ({"values": {KEY: 7}}, "invalid_field")):
        assert refusal(own.op, "POST", "/connections/mem0/rotate", body) == (422, code)
    own.op("POST", "/connections/mem0/revoke")
    assert refusal(own.op, "POST", "/connections/mem0/rotate", {"values": {KEY: NEW}}) == (409, "grant_revoked")


def test_health_is_told_and_hides_nothing(own: Bench) -> None:
    connected(own)
    token = own.run("mem0")[1]

    def health() -> tuple[str, str | None]:
        read = own.op("GET", "/connections/mem0")
        return read["health"], read["health_reason"]

    own.provider.script = [(503, "text/plain", b"busy")]
    assert own.call(token, "get_echo")["_meta"]["gateway/outcome"] == "upstream_error"
    assert health() == ("error", "mcp_remote_status")
    assert "get_echo" in {name.removeprefix("mem0__") for name in anyio.run(names, own, token)}
    assert own.call(token, "get_failure")["_meta"]["gateway/outcome"] == "tool_error"
    assert health() == ("error", "mcp_remote_status")
    assert own.call(token, "get_echo")["_meta"]["gateway/outcome"] == "success"
    assert health() == ("ok", None)
    with pytest.raises(MCPError):
        own.call(token, "get_boom")
    assert health() == ("error", "remote_mcp_error")
    assert own.op("POST", "/connections/mem0/check") == {"status": "active", "health": "ok", "health_reason": None, "probed": True}
    own.provider.list_answer = lambda _: {"tools": []}
    own.advance(900)
    assert own.op("GET", "/connections/mem0")["tools"] > 0
    own.provider.secret = NEW
    own.advance(900)
    assert health() == ("error", "mcp_remote_status")
    assert own.op("GET", "/connections/mem0")["tools"] > 0
    checks = [(r["actor"], r["outcome"]) for r in own.records() if r["event"] == "connection_checked"]
    assert checks == [("operator:operator", "success"), ("gateway", "success"), ("gateway", "failure")]


def test_instructions_are_served_edited_and_turned_off(own: Bench) -> None:
    connected(own)
    own.connect("custom")
    token = own.run("mem0", "custom")[1]

    async def told(version: str) -> str:
        async with agent(own.operator.mcp, token, version) as session:
            if version == VERSIONS[-1]:
                found = await session.send_request(types.DiscoverRequest(params=types.RequestParams()), types.DiscoverResult)
                return found.instructions or ""
            opened = session.initialize_result if hasattr(session, "initialize_result") else None
            return (opened.instructions if opened else (await session.initialize()).instructions) or ""

    default = own.op("GET", "/gallery/mem0")["instructions"]
    assert own.op("GET", "/connections/mem0/instructions") == {"text": default, "enabled": True, "edited": False}
    for version in VERSIONS:
        text = anyio.run(told, version)
        assert f"## mem0\n{default}" in text
        assert "custom" not in text
    own.op("PUT", "/connections/mem0/instructions", {"text": "Recall before you speak."})
    own.op("PUT", "/connections/custom/instructions", {"text": "Notes are mine."})
    assert anyio.run(told, VERSIONS[-1]).endswith("## mem0\nRecall before you speak.\n\n## custom\nNotes are mine.")
    own.op("PUT", "/connections/mem0/instructions", {"enabled": False})
    assert "Recall before" not in anyio.run(told, VERSIONS[-1])
    own.op("POST", "/connections/custom/state", {"state": "paused"})
    assert "##" not in anyio.run(told, VERSIONS[-1])
    own.op("PUT", "/connections/mem0/instructions", {"enabled": True, "text": None})
    assert default in anyio.run(told, VERSIONS[-1])
    for bad in ({"text": "x" * 4001}, {"text": "\x1b[31mred"}, {"text": 7}, {"enabled": "yes"}):
        assert refusal(own.op, "PUT", "/connections/mem0/instructions", bad) == (422, "invalid_field")


@pytest.fixture
def scoped(gateway: Operator) -> Iterator[Bench]:
    provider = Provider(tools=[tool("get_message", SCOPED), tool("get_echo"), tool("add_message", SCOPED)])
    with provider_served(provider):
        own = Bench(gateway, provider, gateway("POST", "/tenants", {})["tenant"], "honcho")
        begin(own, connector="honcho", name="honcho", managed={"workspace_id": "acme"})
        submit(own, name="honcho")
        yield own


def test_a_managed_argument_goes_into_every_call_that_has_it(scoped: Bench) -> None:
    token = scoped.run("honcho")[1]
    assert scoped.call(token, "get_message", {"text": "a"})["structuredContent"]["got"] == {"text": "a", "workspace_id": "acme"}
    assert scoped.call(token, "get_message", {"text": "b", "workspace_id": "acme"})["_meta"]["gateway/outcome"] == "success"
    assert scoped.call(token, "get_echo", {"x": 1})["structuredContent"]["got"] == {"x": 1}
    before = len(scoped.provider.calls)
    refused = scoped.call(token, "get_message", {"text": "c", "workspace_id": "globex"})
    assert refused["_meta"]["gateway/reason"] == "managed_argument_mismatch"
    assert "acme" not in json.dumps(refused)
    assert len(scoped.provider.calls) == before
    for other in (None, 7, ["acme"], "ACME", "acme "):
        assert scoped.call(token, "get_message", {"text": "d", "workspace_id": other})["_meta"]["gateway/reason"] == "managed_argument_mismatch"


def test_what_was_asked_for_under_another_managed_argument_is_not_executed(scoped: Bench) -> None:
    scoped.permit(add_message="ask_first")
    token = scoped.run("honcho")[1]
    held = scoped.call(token, "add_message", {"text": "a"})["_meta"]["gateway/approval"]["id"]
    assert scoped.op("GET", f"/approvals/{held}")["arguments"] == {"text": "a", "workspace_id": "acme"}
    scoped.op("PUT", "/connections/honcho/managed", {"managed": {"workspace_id": "globex"}})
    assert scoped.op("POST", f"/approvals/{held}/approve", {"by": "ann"})["approval"]["state"] == "cancelled"
    again = scoped.call(token, "add_message", {"text": "a"})["_meta"]["gateway/approval"]["id"]
    scoped.op("POST", f"/approvals/{again}/approve", {"by": "ann"})
    assert [each["arguments"] for each in scoped.provider.calls] == [{"text": "a", "workspace_id": "globex"}]
    for bad in ({"peer_id": "x"}, {"workspace_id": ""}, {"workspace_id": {"a": 1}}, {"workspace_id": 1.5}, {"workspace_id": None}, {"": "x"}):
        assert refusal(scoped.op, "PUT", "/connections/honcho/managed", {"managed": bad}) == (422, "invalid_field")


# delivery


def read_as(form: str, text: str) -> tuple[str, dict[str, str]]:
    """URL and headers, as the program that this form is for reads them; keys that it does not know are nothing to it."""
    if form == "codex":
        server = tomllib.loads(text)["mcp_servers"]["gateway"]
        return server["url"], server.get("http_headers", {})
    server = json.loads(text)["mcpServers"]["gateway"]
    kind = {"claude_code": "http", "generic": "streamable-http", "gemini_cli": None}[form]
    assert server.get("type") == kind
    return server["httpUrl" if form == "gemini_cli" else "url"], server["headers"]


@pytest.mark.parametrize("form", ["codex", "claude_code", "gemini_cli", "generic"])
def test_a_client_that_reads_the_form_arrives_with_its_credential(own: Bench, form: str) -> None:
    connected(own)
    run, token = own.run("mem0")
    own.call(token, "get_echo")
    assert own.op("GET", f"/runs/{run}/delivery") == {"deliveries": [], "catalog": "ready", "calls": 0, "proven": False}
    made = own.op("POST", f"/runs/{run}/delivery", {"form": form, "token": token})
    url, headers = read_as(form, made["text"])
    assert url == made["url"] == own.operator.mcp
    assert own.op("GET", f"/runs/{run}/delivery")["proven"] is False
    own.call(headers["Authorization"].removeprefix("Bearer "), "get_echo")
    assert own.op("GET", f"/runs/{run}/delivery")["proven"] is True
    assert token not in json.dumps(own.records(run))
    for other in (own.run("mem0")[1], "nothing", OPERATOR_TOKEN):
        assert refusal(own.op, "POST", f"/runs/{run}/delivery", {"form": form, "token": other}) == (422, "run_token_invalid")


LOCAL = [
    "https://127.0.0.1:8443",
    "http://localhost",
    "https://gw.localhost/x",
    "https://[::1]",
    "http://127.1",
    "http://2130706433",
    "http://0x7f.1",
]
LOCAL += ["http://0.0.0.0:80", "http://[::]", "http://[::ffff:127.0.0.1]", "http://0177.0.0.1", "https://LOCALHOST."]
FAR = ["https://gw.example/base", "http://10.0.0.7", "https://[2001:db8::1]", "https://127.example.com", "https://localhost.example.com"]


def test_what_leads_back_to_its_reader_is_told_from_what_leads_here() -> None:
    assert [url for url in LOCAL if not is_local(url)] == []
    assert [url for url in FAR if is_local(url)] == []


def test_a_remote_run_gets_the_public_url_or_nothing(own: Bench) -> None:
    connected(own)
    run, token = own.run("mem0", place="remote")
    assert refusal(own.op, "POST", f"/runs/{run}/delivery", {"form": "codex", "token": token}) == (409, "delivery_unreachable")
    assert own.op("GET", f"/runs/{run}/delivery")["deliveries"] == []


# what happens meanwhile


def test_a_draft_that_was_given_up_while_its_key_was_tried_is_not_brought_back(own: Bench) -> None:
    for give_up, code in (
        (lambda: own.op("DELETE", "/connections/mem0"), "connection_unknown"),
        (lambda: own.op("POST", "/connections/mem0/state", {"state": "archived"}), "state_conflict"),
    ):
        begin(own)
        listed, release = threading.Event(), threading.Event()

        def slowly(_: str | None, listed: threading.Event = listed, release: threading.Event = release) -> Json:
            listed.set()
            release.wait(20)
            return {"tools": [{"name": "get_echo", "inputSchema": {"type": "object"}}]}

        own.provider.list_answer = slowly
        refused: list[str] = []
        trying = threading.Thread(target=lambda refused=refused: refused.append(refusal(submit, own)[1]))
        trying.start()
        assert listed.wait(20)
        give_up()
        release.set()
        trying.join(20)
        assert refused == [code]
        if code == "state_conflict":
            read = own.op("GET", "/setups/mem0")
            assert (read["status"], read["credentials"]) == ("archived", [])
        own.provider.list_answer = None
    own.op("DELETE", "/connections/mem0")


BAD_BODIES: list[tuple[str, str, Json, str]] = [
    ("POST", "/setups", {}, "invalid_field"),
    ("POST", "/setups", {"connector": "mem0", "name": "Mem 0"}, "invalid_field"),
    ("POST", "/setups", {"connector": "mem0", "name": "m", "values": {KEY: SECRET}}, "unknown_field"),
    ("POST", "/setups", {"connector": "mem0", "name": "m", "grant": {"kind": "everybody"}}, "invalid_field"),
    ("POST", "/setups", {"connector": "mem0", "name": "m", "grant": 7}, "invalid_field"),
    ("POST", "/setups", {"connector": "mem0", "name": "m", "managed": {"peer": "x"}}, "invalid_field"),
    ("POST", "/setups", {"connector": "cognee", "name": "m", "endpoint": "https://x.aws.cognee.ai"}, "invalid_field"),
    ("POST", "/setups/mem0/credentials", {"values": [KEY]}, "invalid_field"),
    ("POST", "/setups/mem0/credentials", {"values": {KEY: None}}, "invalid_field"),
    ("POST", "/setups/mem0/credentials", {"values": {KEY: "x" * 20_000}}, "invalid_field"),
    ("POST", "/setups/mem0/credentials", {"values": {KEY: ""}}, "invalid_field"),
    ("POST", "/setups/mem0/credentials", {"values": {KEY: "\u200b"}}, "invalid_field"),
    ("POST", "/setups/mem0/credentials", {"values": {KEY: SECRET}, "endpoint": "file:///etc/passwd"}, "url_rejected"),
    ("POST", "/setups/mem0/authorize", {}, "invalid_field"),
    ("POST", "/connections/mem0/state", {"state": "draft"}, "invalid_field"),
    ("POST", "/connections/mem0/state", {}, "invalid_field"),
    ("PUT", "/experimental", {"memory_connectors": "yes"}, "invalid_field"),
    ("PUT", "/experimental", {"everything": True}, "unknown_field"),
]


def test_bad_input_is_refused_by_name_and_changes_nothing(own: Bench) -> None:
    begin(own)
    for method, path, body, code in BAD_BODIES:
        with pytest.raises(Refused) as refused:
            own.op(method, path, body)
        error = refused.value.error
        assert (refused.value.status, error["code"]) == (422, code), (path, body)
        assert error["where"]
        assert error["fix"]
        assert error["message"]
        assert SECRET not in json.dumps(error)
    read = own.op("GET", "/setups/mem0")
    assert (read["status"], read["credentials"]) == ("draft", [])
    assert own.provider.methods == []
