"""What of OAuth is judged without asking anybody: challenges, metadata, registrations, tokens, redirects."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference_gateway.control_oauth import metadata_route
from reference_gateway.defects import Defects
from reference_gateway.errors import GatewayError
from reference_gateway.oauth.challenge import Challenge, bearer_challenge, scopes_of
from reference_gateway.oauth.discovery import resource_places, same_resource, server_places
from reference_gateway.oauth.documents import Client, choose_method, registered_client, resource_metadata, server_metadata
from reference_gateway.oauth.errors import OAuthError, error_word
from reference_gateway.oauth.pkce import challenge_fields
from reference_gateway.oauth.registration import check_redirect, is_public_document, metadata_document
from reference_gateway.oauth.tokens import Consent, Tokens, tokens_of

ISSUER = "https://as.example"
NOW = 1_780_000_000.0
GOOD: dict[str, Any] = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "registration_endpoint": f"{ISSUER}/register",
    "response_types_supported": ["code"],
    "code_challenge_methods_supported": ["S256"],
    "token_endpoint_auth_methods_supported": ["none"],
}


def check(url: object, kind: str) -> str:
    if not isinstance(url, str) or not url.startswith("https://"):
        raise OAuthError(f"oauth_{kind}_endpoint_rejected", "no")
    return url


def code_of(work: Any, *args: Any, **more: Any) -> str:
    with pytest.raises(GatewayError) as caught:
        work(*args, **more)
    return caught.value.code


# challenges


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ('Bearer resource_metadata="https://r.example/prm"', Challenge("https://r.example/prm")),
        ('bearer  scope="a b a", error="insufficient_scope"', Challenge(None, ("a", "b"), "insufficient_scope")),
        ('Basic realm="x", Bearer scope=one', Challenge(None, ("one",))),
        ("Bearer", Challenge()),
        ('Bearer realm="a \\"quoted\\" word", scope="s"', Challenge(None, ("s",))),
        ('Digest qop="auth"', None),
        ('Bearer scope="a", scope="b"', None),
        ("", None),
        ("Bearer " + "x" * 9000, None),
        ('Bearer scope="open', None),
    ],
)
def test_a_challenge_is_read_or_is_none(header: str, found: Challenge | None) -> None:
    assert bearer_challenge([header]) == found


@given(st.text(max_size=200))
def test_no_header_is_too_odd_to_read(header: str) -> None:
    found = bearer_challenge([header])
    assert found is None or all(" " not in scope for scope in found.scopes)


@pytest.mark.parametrize("text", [None, 7, "a\tb", 'a"b', "ü", " ".join(map(str, range(200)))])
def test_what_is_no_scope_is_not_asked_for(text: object) -> None:
    assert scopes_of(text) == ()


# places and identity


def test_metadata_is_looked_for_where_the_standards_say() -> None:
    assert resource_places("https://r.example/a/mcp?x=1") == (
        "https://r.example/.well-known/oauth-protected-resource/a/mcp",
        "https://r.example/.well-known/oauth-protected-resource",
    )
    assert server_places("https://as.example/t1") == (
        "https://as.example/.well-known/oauth-authorization-server/t1",
        "https://as.example/.well-known/openid-configuration/t1",
        "https://as.example/t1/.well-known/openid-configuration",
    )
    assert server_places("https://as.example/") == (
        "https://as.example/.well-known/oauth-authorization-server",
        "https://as.example/.well-known/openid-configuration",
    )


@pytest.mark.parametrize("resource", ["https://r.example/mcp", "https://r.example", "https://r.example/", "https://R.example/mcp/"])
def test_a_resource_speaks_for_itself_and_what_is_below(resource: str) -> None:
    assert same_resource(resource, "https://r.example/mcp")


@pytest.mark.parametrize(
    "resource",
    [
        "https://r.example.evil/mcp", "https://evil.example/mcp", "http://r.example/mcp", "https://r.example:444/mcp", "https://r.example/mc",
        "https://r.example/mcp/more", "https://r.example/mcp?x", "https://r.example/mcp#f", "https://u@r.example/mcp", "https://r.example/%6dcp",
        "https://r.example/a/../mcp", "https://r.example:bad/mcp", "", "mcp",
    ],
)  # fmt: skip
def test_another_resource_does_not(resource: str) -> None:
    assert not same_resource(resource, "https://r.example/mcp")


# the server's metadata: every field, by whoever may have written it

HOSTILE = [
    ("issuer", "https://other.example", "oauth_issuer_mismatch"),
    ("issuer", f"{ISSUER}/", "oauth_issuer_mismatch"),
    ("issuer", None, "oauth_issuer_mismatch"),
    ("authorization_endpoint", "javascript:alert(1)", "oauth_authorization_endpoint_rejected"),
    ("authorization_endpoint", 7, "oauth_authorization_endpoint_rejected"),
    ("authorization_endpoint", None, "oauth_authorization_endpoint_rejected"),
    ("token_endpoint", "http://as.example/token", "oauth_token_endpoint_rejected"),
    ("token_endpoint", ["https://as.example/token"], "oauth_token_endpoint_rejected"),
    ("registration_endpoint", "file:///etc/passwd", "oauth_registration_endpoint_rejected"),
    ("revocation_endpoint", "gopher://as.example", "oauth_revocation_endpoint_rejected"),
    ("response_types_supported", ["token"], "oauth_metadata_invalid"),
    ("response_types_supported", "code", "oauth_metadata_invalid"),
    ("code_challenge_methods_supported", ["plain"], "oauth_pkce_unsupported"),
    ("code_challenge_methods_supported", None, "oauth_pkce_unsupported"),
    ("code_challenge_methods_supported", {"S256": True}, "oauth_metadata_invalid"),
    ("token_endpoint_auth_methods_supported", [7], "oauth_metadata_invalid"),
    ("grant_types_supported", "authorization_code", "oauth_metadata_invalid"),
    ("scopes_supported", [["a"]], "oauth_metadata_invalid"),
    ("scopes_supported", ["a"] * 1001, "oauth_metadata_invalid"),
    ("authorization_response_iss_parameter_supported", "yes", "oauth_metadata_invalid"),
    ("client_id_metadata_document_supported", 1, "oauth_metadata_invalid"),
]


@pytest.mark.parametrize(("name", "value", "code"), HOSTILE)
def test_a_hostile_field_is_refused_by_code(name: str, value: Any, code: str) -> None:
    assert code_of(server_metadata, {**GOOD, name: value}, ISSUER, check) == code


def test_good_metadata_is_taken_and_odd_scopes_are_left_out() -> None:
    found = server_metadata({**GOOD, "scopes_supported": ["a", "b c", "ü", "a"], "unknown": {"x": 1}}, ISSUER, check)
    assert (found.token, found.scopes, found.iss_promised) == (f"{ISSUER}/token", ("a",), False)


@pytest.mark.parametrize(
    "document", [{}, {"resource": 7, "authorization_servers": [ISSUER]}, {"resource": "r", "authorization_servers": []}, {"resource": "r"}]
)
def test_resource_metadata_names_a_resource_and_its_servers(document: dict[str, Any]) -> None:
    assert code_of(resource_metadata, document) == "oauth_metadata_invalid"


# registration

REDIRECT = "https://gateway.example/oauth/callback"


@pytest.mark.parametrize(
    "answer",
    [
        {"redirect_uris": [REDIRECT]},
        {"client_id": "", "redirect_uris": [REDIRECT]},
        {"client_id": "x" * 4097, "redirect_uris": [REDIRECT]},
        {"client_id": "x\n", "redirect_uris": [REDIRECT]},
        {"client_id": "x", "redirect_uris": [REDIRECT + "/"]},
        {"client_id": "x"},
        {"client_id": "x", "redirect_uris": [REDIRECT], "client_secret": 7},
        {"client_id": "x", "redirect_uris": [REDIRECT], "client_secret": "s" * 16_385},
        {"client_id": "x", "redirect_uris": [REDIRECT], "client_secret_expires_at": 1_900_000_000},
        {"client_id": "x", "redirect_uris": [REDIRECT], "client_secret": "s", "client_secret_expires_at": 5},
        {"client_id": "x", "redirect_uris": [REDIRECT], "client_secret": "s", "token_endpoint_auth_method": "private_key_jwt"},
    ],
)
def test_a_registration_that_cannot_be_used_is_refused(answer: dict[str, Any]) -> None:
    server = server_metadata(GOOD, ISSUER, check)
    assert code_of(registered_client, answer, server, REDIRECT, "none", NOW) == "oauth_metadata_invalid"


def test_a_registration_may_say_less_and_more() -> None:
    server = server_metadata(GOOD, ISSUER, check)
    made = registered_client({"client_id": "x", "redirect_uris": ["https://b.example", REDIRECT], "extra": 1}, server, REDIRECT, "none", NOW)
    assert (made.id, made.method, made.secret) == ("x", "none", None)


def test_a_way_to_show_oneself_is_chosen_or_refused() -> None:
    assert choose_method(("client_secret_post", "client_secret_basic"), has_secret=True) == "client_secret_basic"
    assert code_of(choose_method, ("private_key_jwt",), has_secret=True) == "oauth_client_auth_unsupported"


@pytest.mark.parametrize(
    "uri", ["http://gateway.example/cb", "https://u@h.example/cb", "https://h.example/cb#x", "javascript:x", "http://127.0.0.2/cb", ""]
)
def test_a_redirect_leads_home_or_nowhere(uri: str) -> None:
    assert code_of(check_redirect, uri) == "oauth_redirect_rejected"


def test_our_own_document_says_who_we_are() -> None:
    url = "https://gateway.example/oauth/client-metadata.json"
    told = metadata_document(url, REDIRECT)
    assert (told["client_id"], told["redirect_uris"], told["application_type"]) == (url, [REDIRECT], "web")
    assert is_public_document(url)
    assert not is_public_document("http://gateway.example/x")


def test_the_document_is_served_only_where_others_can_reach_it() -> None:
    assert metadata_route(None) == metadata_route("http://127.0.0.1:8080") == []
    (route,) = metadata_route("https://gateway.example/")

    async def fetch() -> bytes:
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/oauth/client-metadata.json", "headers": [], "query_string": b""}
        await route.handle(scope | {"endpoint": route.endpoint, "path_params": {}}, None, send)  # type: ignore[arg-type]
        return bytes(sent[1]["body"])

    told = json.loads(asyncio.run(fetch()))
    assert told["client_id"] == "https://gateway.example/oauth/client-metadata.json"
    assert (told["redirect_uris"], told["token_endpoint_auth_method"]) == (["https://gateway.example/oauth/callback"], "none")


# tokens


def jwt(**claims: Any) -> str:
    return ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in ({"alg": "none"}, claims, {}))


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ({}, "oauth_token_unusable"),
        ({"access_token": "a b"}, "oauth_token_unusable"),
        ({"access_token": "x" * 16_385}, "oauth_token_unusable"),
        ({"access_token": "a", "token_type": "mac"}, "oauth_token_unusable"),
        ({"access_token": "a", "token_type": None}, "oauth_token_unusable"),
        ({"access_token": "a", "refresh_token": 7}, "oauth_token_unusable"),
        ({"access_token": "a", "expires_in": "soon"}, "oauth_token_unusable"),
        ({"access_token": "a", "expires_in": True}, "oauth_token_unusable"),
        ({"access_token": "a", "scope": ["a"]}, "oauth_token_unusable"),
        ({"access_token": "a", "expires_in": 0}, "oauth_token_expired"),
        ({"access_token": "a", "expires_in": -5}, "oauth_token_expired"),
        ({"access_token": jwt(exp=NOW - 1)}, "oauth_token_expired"),
        ({"access_token": jwt(nbf=NOW + 3600, exp=NOW + 7200)}, "oauth_token_not_yet_valid"),
    ],
)
def test_tokens_that_may_not_be_used_are_refused(answer: dict[str, Any], code: str) -> None:
    assert code_of(tokens_of, {"token_type": "Bearer", **answer}, NOW, ("a",)) == code


def test_tokens_end_at_an_instant() -> None:
    made = tokens_of({"access_token": jwt(exp=NOW + 50), "token_type": "bearer", "expires_in": 3600}, NOW, ("a",))
    assert (made.expires_at, made.scopes, made.due(NOW)) == (NOW + 50, ("a",), True)
    assert tokens_of({"access_token": "a", "token_type": "Bearer"}, NOW, ()).expires_at is None


def test_a_renewal_without_a_refresh_token_keeps_the_old_one() -> None:
    before = Tokens("a", "keep-me", NOW, ("a", "b"))
    made = tokens_of({"access_token": "n", "token_type": "Bearer"}, NOW, ("a",), before)
    assert (made.refresh, made.scopes) == ("keep-me", ("a", "b"))


def test_a_consent_survives_the_vault_and_shows_no_secret() -> None:
    consent = Consent(ISSUER, "r", "t", None, Client("id-1", ISSUER, REDIRECT, "sec-1"), Tokens("acc-1", "ref-1", NOW, ("a",)), ("a",), 3)
    assert Consent.load(consent.text()) == consent
    assert not any(word in repr(consent) for word in ("acc-1", "ref-1", "sec-1", "id-1"))
    assert code_of(Consent.load, '{"tokens":1}') == "oauth_consent_unreadable"


def test_a_provider_s_word_is_known_or_it_is_nothing() -> None:
    assert error_word("access_denied") == "access_denied"
    assert {error_word(each) for each in ("call me", "x" * 65, 7, None, "made_up")} == {"unrecognized"}


def test_the_challenge_is_the_standard_s_own_example() -> None:
    fields = challenge_fields("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", Defects())  # RFC 7636, appendix B
    assert fields == {"code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", "code_challenge_method": "S256"}
