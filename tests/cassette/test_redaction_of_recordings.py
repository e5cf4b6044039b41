"""Secrets cannot land: by name, by value in every encoding, in every place of an exchange; and a replay still finds its answers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.cassette.format import Cassette, Interaction
from harness.cassette.hunt import ENCODINGS, hunt, planted
from harness.cassette.match import index_of, key_of, nearest, request_key
from harness.cassette.prose import schema_without_prose
from harness.cassette.redact import Redactor
from harness.cassette.scrub import Scrubber
from harness.cassette.sensitive import is_secret_name
from harness.cassette.store import parse_cassette

D05 = "1/rt-Canary~~?>Zq"


def scrubber(**secrets: str) -> Scrubber:
    redactor = Redactor()
    redactor.know(secrets)
    return Scrubber(redactor, hash_prose=False)


def one(**changed: Any) -> Interaction:
    known: dict[str, Any] = {
        "method": "POST", "target": "/x", "request_headers": (("content-type", "application/json"),), "request_body": b"{}", "status": 200,
        "reason": "", "response_headers": (("content-type", "application/json"),), "response_body": b"{}",
    }  # fmt: skip
    return Interaction(**known | changed)


def texts(found: Interaction) -> bytes:
    headers = json.dumps([*found.request_headers, *found.response_headers]).encode()
    return b"\n".join((found.target.encode(), found.request_body or b"", found.response_body, headers))


FORMS = (
    "1%2Frt-Canary~~%3F%3EZq", "MS9ydC1DYW5hcnl+fj8+WnE=", "MS9ydC1DYW5hcnl-fj8-WnE", "1\\/rt-Canary~~?>Zq", "1/rt-Canary~~?&gt;Zq",
    base64.b64encode(f"user:{D05}".encode()).decode(),
)  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_d05_each_form_is_gone_from_each_place_and_found_without_redaction(form: str) -> None:
    made = one(
        target="/token?x=" + form.replace("&", "%26").replace("+", "%2B"),
        request_headers=(("content-type", "application/x-www-form-urlencoded"), ("authorization", f"Basic {form}"), ("last-event-id", form)),
        request_body=f"grant_type=refresh_token&note={form.replace('&', '%26')}".encode(),
        response_headers=(("content-type", "text/event-stream"), ("www-authenticate", f"Bearer {form}")),
        response_body=f"event: message\r\ndata: {json.dumps({'error': f'bad token {form}'})}\r\n\r\n".encode(),
    )
    known = {"canary": D05}
    (cleaned,) = scrubber(**known).scrub((made,))
    assert hunt({"x": texts(cleaned)}, known) == []
    assert hunt({"x": texts(made)}, known) != []


def test_d05_a_secret_that_was_issued_is_one_and_the_same_on_both_sides_and_matches_again() -> None:
    """What one answer hands out under a secret's name is looked for in every other exchange."""
    issued = "at-7Qx9-issued-once-42"
    answer = one(target="/token", response_body=json.dumps({"access_token": issued, "token_type": "bearer", "expires_in": 3600}).encode())
    asked = one(target=f"/read?session={issued}", request_body=json.dumps({"note": f"with {issued} in it"}).encode())
    first, second = scrubber().scrub((answer, asked))
    assert issued.encode() not in texts(first) + texts(second)
    pseudonym = json.loads(first.response_body)["access_token"]
    assert pseudonym in json.loads(second.request_body or b"")["note"]
    assert json.loads(first.response_body)["token_type"] == "bearer"
    assert json.loads(first.response_body)["expires_in"] == 3600
    again = request_key("POST", f"/read?session={pseudonym}", "application/json", json.dumps({"note": f"with {pseudonym} in it"}).encode())
    assert again == key_of(second), "the replay hands out the pseudonym, and it comes back"


def test_d06_a_redacted_recording_is_found_by_a_request_that_is_not_and_a_miss_tells_no_secret() -> None:
    recorded = """\
interactions:
- request: {method: GET, uri: 'http://127.0.0.1:9/v1/ping/?token=[REDACTED]&x=1', body: null, headers: {}}
  response: {status: {code: 200, message: OK}, headers: {}, body: {string: ok}}
version: 1
"""
    cassette = parse_cassette(recorded, "x.yaml")
    asked = request_key("GET", "/v1/ping/?token=CANARY-7f3a9c&x=1", "", None)
    assert asked in index_of(cassette)
    missed = request_key("GET", "/v1/ping/?token=CANARY-7f3a9c&x=2", "", None)
    assert missed not in index_of(cassette)
    number, diff = nearest(missed, cassette, [False])
    assert number == 0
    assert "-?x=1" in diff
    assert "+?x=2" in diff
    assert "CANARY" not in missed + diff


@pytest.mark.parametrize(
    "name",
    ["Authorization", "X-Api-Key", "apiKey", "api_key", "access_token", "refreshToken", "client_secret", "PASSWORD", "Set-Cookie", "cookie",
     "private_key", "sessionToken", "jwt", "client-assertion", "code_verifier", "credentials.authorization", "x-amz-signature"],
)  # fmt: skip
def test_names_that_carry_secrets(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["user_id", "session_id", "nextPageToken", "progressToken", "token_type", "token_endpoint", "authorization_servers", "key", "keys", "text",
     "tokens_count", "author", "sign", "monkey", "secretary", "next_token", "credentials_supported"],
)  # fmt: skip
def test_names_that_do_not(name: str) -> None:
    assert not is_secret_name(name)


def test_names_of_parameters_in_a_schema_are_names_and_values_elsewhere_are_not() -> None:
    schema = {"tools": [{"name": "login", "inputSchema": {"properties": {"api_key": {"type": "string"}, "password": {"type": "string"}}}}]}
    called = {"params": {"arguments": {"api_key": "synthetic-0123456789ab", "nested": json.dumps({"password": "hunter2-hunter2"}), "user_id": "ann"}}}
    (found,) = scrubber().scrub((one(request_body=json.dumps(called).encode(), response_body=json.dumps(schema).encode()),))
    assert json.loads(found.response_body) == schema
    assert b"synthetic-0123456789ab" not in texts(found)
    assert b"hunter2" not in texts(found)
    assert json.loads(found.request_body or b"")["params"]["arguments"]["user_id"] == "ann"


def test_headers_are_kept_by_name_and_everything_else_is_dropped() -> None:
    used = scrubber()
    (found,) = used.scrub(
        (one(request_headers=(("accept", "x"), ("x-tenant", "t-1"), ("cookie", "a=b")), response_headers=(("date", "now"), ("retry-after", "3"))),)
    )
    assert found.request_headers == (("accept", "x"),)
    assert found.response_headers == (("retry-after", "3"),)
    assert used.dropped == {"x-tenant", "cookie", "date"}


def test_running_text_shows_no_credential() -> None:
    said = (
        "curl -H 'Authorization: Bearer synthetic-abc123def4' 'https://x.test/?api_key=synthetic-99887766&x=1' failed; "
        'password: "synthetic-3cret9"'
    )
    (found,) = scrubber().scrub((one(response_body=said.encode(), response_headers=(("content-type", "text/plain"),)),))
    for secret in (b"synthetic-abc123def4", b"synthetic-99887766", b"synthetic-3cret9"):
        assert secret not in found.response_body
    assert b"x=1" in found.response_body


def test_each_planted_encoding_is_seen_and_14_of_14_are_redacted() -> None:
    secret = "sk-4cNQ7-canary/42+x~"
    assert len(ENCODINGS) == 14
    for encoding, raw in planted(secret).items():
        assert hunt({"": raw}, {"k": secret}), f"blind for {encoding}"
        (found,) = scrubber(k=secret).scrub((one(response_body=raw, response_headers=(("content-type", "application/octet-stream"),)),))
        assert hunt({"": found.response_body}, {"k": secret}) == [], encoding
        assert found.response_body != raw


PLAIN = st.text(max_size=12) | st.integers(-5, 2**64) | st.booleans() | st.none()
ARGUMENTS = PLAIN | st.lists(PLAIN, max_size=2) | st.dictionaries(st.sampled_from(["x", "token", "deep"]), PLAIN, max_size=2)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(["text", "password", "user_id", "api_key", "note"]), ARGUMENTS, max_size=3), st.text(max_size=8))
def test_what_was_recorded_is_always_found_again(arguments: dict[str, Any], query: str) -> None:
    """Whatever redaction did to the recording, the same request made anew, with other ids, has the same key."""

    def body(rpc_id: int) -> bytes:
        meta = {"progressToken": rpc_id, "traceparent": f"00-{rpc_id}"}
        params = {"name": "t", "arguments": arguments, "_meta": meta}
        return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": params}).encode()

    from urllib.parse import urlencode

    target = "/mcp?" + urlencode({"q": query, "token": "synthetic-0123456789"})
    (recorded,) = scrubber(k="known-secret-12345").scrub((one(target=target, request_body=body(7)),))
    assert key_of(recorded) == request_key("POST", target, "application/json", body(99))


def test_two_different_questions_have_two_keys() -> None:
    def key(**arguments: Any) -> str:
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "t", "arguments": arguments}}
        return request_key("POST", "/mcp", "application/json", json.dumps(call).encode())

    keys = [key(a=1), key(a="1"), key(a=None), key(), key(a=[1]), key(b=1), key(a=True), key(a=2**70), key(a=2**70 + 1)]
    assert len(set(keys)) == len(keys)
    assert nearest(key(a=3), Cassette("x", None, ()), [])[0] is None


def test_a_schema_keeps_its_shape_and_loses_its_texts() -> None:
    schema = {
        "type": "object", "title": "Args", "description": "long text", "required": ["title"],
        "properties": {"title": {"type": "string", "description": "a title", "default": "hello", "enum": ["hello", "x"], "pattern": "^h"},
                       "n": {"anyOf": [{"type": "integer", "title": "N"}, {"type": "null"}], "default": 3, "examples": [1, "one"]}},
        "$defs": {"description": {"type": "string", "$comment": "why"}},
    }  # fmt: skip
    found = schema_without_prose(schema)
    told = json.dumps(found)
    for text in ("long text", "a title", '"Args"', '"N"', "why", '"one"'):
        assert text not in told
    assert found["properties"]["title"]["enum"] == ["hello", "x"]
    assert found["properties"]["title"]["default"].startswith("sha256:")
    assert found["properties"]["n"]["default"] == 3
    assert set(found["$defs"]) == {"description"}
    assert schema_without_prose(found) == found
