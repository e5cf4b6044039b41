"""What authorization servers publish and answer, as frozen types: every field is judged here, by whoever may have written it.

Protected resource metadata (RFC 9728), authorization server metadata (RFC 8414, OpenID Connect Discovery), registration (RFC 7591).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reference_gateway.oauth.challenge import is_scope
from reference_gateway.oauth.errors import OAuthError

Json = Mapping[str, Any]
Check = Callable[[object, str], str]
"""URL and kind to the URL itself; raises OAuthError `oauth_<kind>_endpoint_rejected` (see `fetch.Fetcher.check`)."""

MAX_SERVERS = 10
MAX_CLIENT_ID = 4096
MAX_CLIENT_SECRET = 16_384
_VISIBLE = re.compile(r"[\x20-\x7e]+")
METHODS = ("client_secret_basic", "client_secret_post", "none")
"""How a client may show itself at the token endpoint; those that this broker can do, the one it prefers first."""


@dataclass(frozen=True, slots=True)
class ResourceMetadata:
    resource: str
    servers: tuple[str, ...]
    """Issuers, judged only when one is used."""
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    """`iss_promised`: authorization answers of this server always carry `iss` (RFC 9207)."""

    issuer: str
    authorization: str
    token: str
    registration: str | None
    revocation: str | None
    scopes: tuple[str, ...]
    methods: tuple[str, ...]
    grants: tuple[str, ...]
    iss_promised: bool
    takes_documents: bool


@dataclass(frozen=True, slots=True)
class Client:
    """An identity at one issuer, bound to one redirect URI. `method`: one of METHODS. `secret_expires_at`: seconds since 1970, 0 for never."""

    id: str
    issuer: str
    redirect_uri: str
    secret: str | None = None
    method: str = "none"
    secret_expires_at: int = 0
    kind: str = "registered"

    def __repr__(self) -> str:
        return f"Client(issuer={self.issuer!r}, kind={self.kind!r})"  # a client's id and secret go into no trace


def malformed(kind: str, what: str) -> OAuthError:
    return OAuthError("oauth_metadata_invalid", f"the {kind} is unusable: {what}", where=kind, fix="ask the provider to mend it", http_status=502)


def resource_metadata(document: Json) -> ResourceMetadata:
    kind = "protected resource metadata"
    resource = document.get("resource")
    if not isinstance(resource, str):
        raise malformed(kind, "resource is no text")
    servers = _texts(document, "authorization_servers", kind)
    if not servers or len(servers) > MAX_SERVERS:
        raise malformed(kind, f"it names no authorization server, or more than {MAX_SERVERS}")
    return ResourceMetadata(resource, servers, _scopes(document, kind))


def server_metadata(document: Json, issuer: str, check: Check, *, plain_allowed: bool = False) -> ServerMetadata:
    """Raises OAuthError for metadata of another issuer, of a server without PKCE S256 (`plain_allowed`: a defect), or with an unusable field."""
    kind = "authorization server metadata"
    if document.get("issuer") != issuer:
        raise OAuthError(
            "oauth_issuer_mismatch", "the metadata is not that of the issuer it was asked for", where=kind, fix="ask the provider", http_status=502
        )
    codes = _texts(document, "response_types_supported", kind, default=("code",))
    if "code" not in codes:
        raise malformed(kind, "it offers no authorization code")
    if "S256" not in _texts(document, "code_challenge_methods_supported", kind) and not plain_allowed:
        raise OAuthError("oauth_pkce_unsupported", "the authorization server does not offer PKCE with S256", where=kind, fix="ask the provider")
    registration, revocation = document.get("registration_endpoint"), document.get("revocation_endpoint")
    return ServerMetadata(
        issuer=issuer,
        authorization=check(document.get("authorization_endpoint"), "authorization"),
        token=check(document.get("token_endpoint"), "token"),
        registration=check(registration, "registration") if registration is not None else None,
        revocation=check(revocation, "revocation") if revocation is not None else None,
        scopes=_scopes(document, kind),
        methods=_texts(document, "token_endpoint_auth_methods_supported", kind, default=("client_secret_basic",)),
        grants=_texts(document, "grant_types_supported", kind, default=("authorization_code",)),
        iss_promised=_flag(document, "authorization_response_iss_parameter_supported", kind),
        takes_documents=_flag(document, "client_id_metadata_document_supported", kind),
    )


def registered_client(document: Json, server: ServerMetadata, redirect_uri: str, asked: str, now: float, *, loose_redirect: bool = False) -> Client:
    """The identity that a registration gave. The exact redirect URI must come back; more of them may. `loose_redirect`: a defect."""
    kind = "registration answer"
    client_id, secret = document.get("client_id"), document.get("client_secret")
    if not _fits(client_id, MAX_CLIENT_ID) or not isinstance(client_id, str):
        raise malformed(kind, "client_id is missing, too long or not printable")
    if secret is not None and not _fits(secret, MAX_CLIENT_SECRET):
        raise malformed(kind, "client_secret is too long or not printable")
    if redirect_uri not in _texts(document, "redirect_uris", kind) and not loose_redirect:
        raise malformed(kind, "it does not hold the redirect URI that was asked for")
    expires = document.get("client_secret_expires_at", 0)
    if not isinstance(expires, int) or isinstance(expires, bool) or expires < 0:
        raise malformed(kind, "client_secret_expires_at is no time")
    if expires and (secret is None or expires <= now):
        raise malformed(kind, "it holds an expiry without a secret, or a secret that has expired")
    method = document.get("token_endpoint_auth_method", asked)
    if secret is None:
        method = "none"
    elif method == "none" and "none" not in server.methods:
        method = choose_method(server.methods, has_secret=True)
    if method not in METHODS:
        raise malformed(kind, "token_endpoint_auth_method is none that this client can do")
    return Client(client_id, server.issuer, redirect_uri, secret if method != "none" else None, method, expires)


def choose_method(offered: tuple[str, ...], *, has_secret: bool) -> str:
    """Raises OAuthError `oauth_client_auth_unsupported`."""
    for method in METHODS if has_secret else ("none",):
        if method in offered:
            return method
    raise OAuthError(
        "oauth_client_auth_unsupported",
        "the token endpoint offers no way in which this client can show itself",
        where="token",
        fix="ask the provider",
    )


def _fits(value: object, limit: int) -> bool:
    return isinstance(value, str) and 0 < len(value) <= limit and _VISIBLE.fullmatch(value) is not None


def _texts(document: Json, name: str, kind: str, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    value = document.get(name)
    if value is None:
        return default
    if not isinstance(value, list) or len(value) > 1000 or not all(isinstance(each, str) and len(each) <= 4096 for each in value):
        raise malformed(kind, f"{name} is no list of texts")
    return tuple(value)


def _scopes(document: Json, kind: str) -> tuple[str, ...]:
    return tuple(each for each in dict.fromkeys(_texts(document, "scopes_supported", kind)) if is_scope(each))


def _flag(document: Json, name: str, kind: str) -> bool:
    value = document.get(name, False)
    if not isinstance(value, bool):
        raise malformed(kind, f"{name} is neither true nor false")
    return value
