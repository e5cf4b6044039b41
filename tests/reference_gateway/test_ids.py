"""Ids at one's own door: what another tenant has is as unknown as what nobody has, and what cannot be an id is refused before anybody looks.

`postgres_tests` runs the same tests on PostgreSQL, which keeps fewer texts than SQLite does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.reference_gateway.conftest import (
    OPERATOR_TOKEN,
    SECRET,
    TEXT,
    TLS,
    VERSIONS,
    Bench,
    Provider,
    Refused,
    gateway_served,
    provider_served,
    tool,
)
from tests.reference_gateway.routes import ROUTES, every_route

SHARED = {"connector"}
"""Ids that are nobody's own: the same in every tenant."""
UNPRINTABLE = ["\0", "a\0b", "a\nb", "a\x1fb", "a\x7fb", "a\x85b", "a\u2028b"]


@dataclass
class Neighbours:
    """Two tenants of one gateway. `ids`: what the second has, by the parameter of a path; `token`: of an operator of the first."""

    own: Bench
    other: Bench
    ids: dict[str, str]
    token: str


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Of the store."""
    return str(tmp_path / "gateway.db")


@pytest.fixture
def neighbours(place: str, provider: Provider) -> Iterator[Neighbours]:
    with gateway_served(store=place, vault_key="5b" * 32) as operator:
        own, other = (Bench(operator, provider, operator("POST", "/tenants", {})["tenant"]) for _ in range(2))
        own.connect()
        other.connect("theirs", quarantine=True, permissions={"add_note": "ask_first"})
        run, token = other.run("theirs")
        held = other.call(token, "add_note", {"text": "a silver compass"})["_meta"]["gateway/approval"]["id"]
        provider.tools.append(tool("new_note", TEXT))
        other.op("POST", "/connections/theirs/refresh")
        review = other.op("GET", "/connections/theirs/reviews")["reviews"][0]["id"]
        other.op("POST", "/operators", {"operator": "theirs", "role": "viewer"})
        ids = {"connection": "theirs", "run": run, "approval": held, "review": review, "operator": "theirs", "tenant": other.tenant}
        yield Neighbours(own, other, ids, own.op("POST", "/operators", {"operator": "ann", "role": "operator"})["token"])


def params(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)


WITH_IDS = sorted((method, path, name) for method, path in every_route() for name in params(path) if name != "tenant")


def ask(neighbours: Neighbours, method: str, path: str, ids: dict[str, str], token: str = OPERATOR_TOKEN) -> httpx2.Response:
    """The route with these ids, and with the tenant's own for all others."""
    _, body = ROUTES[method, path.removeprefix("/tenants/{tenant}")]
    quoted = {"tenant": neighbours.own.tenant, "connection": "notes", **ids}
    filled = path
    for name in params(path):
        filled = filled.replace("{" + name + "}", "".join(f"%{byte:02x}" for byte in quoted.get(name, "none").encode()))
    url = f"{neighbours.own.operator.mcp.removesuffix('/mcp')}/operator/v1{filled}"
    return httpx2.request(method, url, json=body, headers={"authorization": f"Bearer {token}"}, verify=TLS, trust_env=False, timeout=30)


def state(bench: Bench) -> list[Any]:
    """All that an operator can see of a tenant."""
    places = ["/connections", "/connections/theirs/tools", "/approvals", "/operators", "/policies"]
    return [*(bench.op("GET", place) for place in places), bench.op("GET", "/audit")["records"]]


def test_what_another_tenant_has_is_unknown_here_and_nothing_happens_to_it(neighbours: Neighbours) -> None:
    before = state(neighbours.other)
    tried = 0
    for method, path, name in WITH_IDS:
        if name in SHARED:
            continue
        for token in (OPERATOR_TOKEN, neighbours.token):
            if "/operators" in path and token != OPERATOR_TOKEN:
                continue  # for the owner alone
            theirs, nobodys = (ask(neighbours, method, path, {name: each}, token) for each in (neighbours.ids[name], "nobodys"))
            assert theirs.status_code == nobodys.status_code, (method, path, name, theirs.text)
            assert theirs.status_code in (404, 422), (method, path, name, theirs.text)
            told = [{**answer.json()["error"], "where": ""} for answer in (theirs, nobodys)]
            assert told[0] == told[1], (method, path, name)
            assert neighbours.ids[name] not in theirs.json()["error"]["message"]
            tried += theirs.status_code == 404
    assert tried > len(WITH_IDS)
    assert state(neighbours.other) == before


@pytest.mark.parametrize("text", UNPRINTABLE)
def test_what_cannot_be_an_id_is_refused_at_every_route(neighbours: Neighbours, text: str) -> None:
    for method, path in sorted(every_route()):
        for name in params(path):
            answer = ask(neighbours, method, path, {name: text})
            assert answer.status_code == 422, (method, path, name, answer.text)
            assert answer.json()["error"]["code"] == "invalid_field"
            assert answer.json()["error"]["where"] == name
            if name == "tenant":
                assert ask(neighbours, method, path, {name: text}, neighbours.token).status_code in (403, 404)


@pytest.mark.parametrize("text", ["%00", "a%00b", "a%0ab"])
def test_what_cannot_be_an_id_is_refused_in_a_query_too(neighbours: Neighbours, text: str) -> None:
    own = neighbours.own
    for path in ("/audit?run=", "/approvals?run=", "/approvals?state=", "/connections/notes/reviews?state="):
        answer = own.operator.http.get(f"/tenants/{own.tenant}{path}{text}")
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_field"), path


def leaves(body: Any) -> Iterator[Any]:
    """The body, once for each text in it, with a text in its place that no store need keep; of names as of values."""
    if isinstance(body, str):
        yield "a\0b"
    elif isinstance(body, dict):
        for key, value in body.items():
            for changed in leaves(value):
                yield {**body, key: changed}
        yield {**body, "a\0b": "c"}
    elif isinstance(body, list):
        for number, value in enumerate(body):
            for changed in leaves(value):
                yield [*body[:number], changed, *body[number + 1 :]]
        yield [*body, "a\0b"]


def bodies(neighbours: Neighbours) -> dict[tuple[str, str], Any]:
    """Bodies that say more than the least."""
    connection = {
        "name": "more", "provider": "generic", "transport": "mcp_http", "url": neighbours.own.provider.url, "agents": ["a"],
        "auth": {"scheme": "bearer", "path": "credentials.authorization"}, "credentials": {"credentials.authorization": SECRET},
        "permissions": {"add_note": "off"}, "grant": {"kind": "personal", "subject": "s"}, "managed": {"text": "t"},
    }  # fmt: skip
    run = {"connections": ["notes"], "task": "t", "agent": "a", "subject": "s", "takes_task": True}
    return {
        ("POST", "/connections"): connection,
        ("POST", "/runs"): run,
        ("POST", "/approvals/{approval}/approve"): {"by": "ann"},
        ("POST", "/approvals/{approval}/reject"): {"by": "ann", "reason": "because"},
        ("POST", "/connections/{connection}/reviews/{review}"): {"decision": "allow", "by": "ann", "reason": "because"},
        ("PUT", "/policies"): {"policies": [{"id": "p", "permission": "off", "agents": ["a"], "connections": ["notes"], "tools": ["add_note"]}]},
        ("PUT", "/connections/{connection}/agents"): {"agents": ["a"]},
        ("PUT", "/connections/{connection}/audience"): {"audience": ["a"]},
        ("PUT", "/connections/{connection}/permissions"): {"permissions": {"add_note": "off"}},
        ("PUT", "/connections/{connection}/managed"): {"managed": {"text": "a"}},
        ("PUT", "/connections/{connection}/instructions"): {"text": "a"},
        ("POST", "/connections/{connection}/rotate"): {"values": {"credentials.authorization": SECRET}},
        ("POST", "/setups"): {"connector": "mem0", "name": "x", "grant": {"kind": "personal", "subject": "s"}, "endpoint": "https://x.example/mcp"},
        ("POST", "/oauth/callback"): {"state": "s", "redirect_uri": "https://x.example/", "code": "c", "iss": "i", "session": "s"},
        ("POST", "/runs/{run}/delivery"): {"form": "codex", "token": "t"},
    }


def test_no_text_of_a_body_is_more_than_the_gateway_can_bear(neighbours: Neighbours) -> None:
    """It takes it or refuses it in its own words; on no store does it fail."""
    own = neighbours.own
    tried = 0
    for (method, path), (_, least) in ROUTES.items():
        for body in leaves(bodies(neighbours).get((method, path), least)) if least is not None else ():
            ids = {name: {"connection": "notes", "run": own.run()[0]}.get(name, "none") for name in params(path)}
            answer = own.operator.http.request(method, f"/tenants/{own.tenant}{path.format(**ids)}", content=json.dumps(body).encode())
            assert answer.status_code < 500 or answer.status_code == 502, (method, path, body, answer.text)
            tried += 1
    assert tried > len(ROUTES)


@pytest.mark.parametrize("text", [*UNPRINTABLE, "\ud800"])
def test_names_hold_no_control_characters(neighbours: Neighbours, text: str) -> None:
    own, other, held = neighbours.own, neighbours.other, f"/approvals/{neighbours.ids['approval']}"
    run = bodies(neighbours)["POST", "/runs"]
    tried = [(own, "/runs", {**run, field: text}) for field in ("task", "agent", "subject")]
    tried += [(other, f"{held}/{decision}", {"by": text}) for decision in ("approve", "reject")]
    for bench, path, body in tried:
        with pytest.raises(Refused) as refused:
            bench.op("POST", path, body)
        assert (refused.value.status, refused.value.code) == (422, "invalid_field"), (path, body)
    assert other.op("GET", held)["state"] == "pending"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_tool_that_cannot_be_named_is_dropped_at_discovery_and_counted(neighbours: Neighbours, version: str) -> None:
    names = ["get_memory", "a\0b", "a\nb", "a\u2028b", "x" * 257, "x" * 256, "naïve"]
    listing = {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in names]}
    with provider_served(Provider(list_answer=lambda cursor: dict(listing))) as odd:
        own = Bench(neighbours.own.operator, odd, neighbours.own.tenant, "odd")
        assert own.connect("odd", protocol_version=version)["tools"] == 3
        found = own.op("POST", "/connections/odd/refresh")
        assert found["dropped"] == [{"reason": "unusable_name", "count": 4}]
        assert {each["name"] for each in own.op("GET", "/connections/odd/tools")["tools"]} == {"get_memory", "x" * 256, "naïve"}
        _, token = own.run("odd")
        assert own.call(token, "x" * 256, {}, version=version)["_meta"]["gateway/outcome"] == "success"
