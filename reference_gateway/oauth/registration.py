"""Which identity the gateway has at an authorization server: configured, known from before, its own metadata document, or registered now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from reference_gateway.addresses import LOOPBACK
from reference_gateway.clock import Clock
from reference_gateway.defects import Defects
from reference_gateway.oauth.documents import METHODS, Client, Json, ServerMetadata, choose_method, malformed, registered_client
from reference_gateway.oauth.errors import OAuthError, error_word
from reference_gateway.oauth.fetch import Fetcher

CLIENT_NAME = "Reference MCP gateway"
GRANTS = ("authorization_code", "refresh_token")
_REDIRECT = re.compile(r"https://[^\s#@\\]{1,1500}|http://(?:127\.0\.0\.1|localhost|\[::1\])(?::[0-9]{1,5})?/[^\s#@\\]{0,1500}")


@dataclass(frozen=True, slots=True)
class Configured:
    """A client that somebody registered by hand. `method` None: whichever of ours the server offers."""

    id: str
    secret: str | None = None
    method: str | None = None

    def __repr__(self) -> str:
        return "Configured()"


def check_redirect(uri: str) -> str:
    """https, or http on the operator's own machine; without fragment, user or blank. Raises OAuthError `oauth_redirect_rejected`."""
    if not _REDIRECT.fullmatch(uri) or not uri.isascii():
        raise OAuthError(
            "oauth_redirect_rejected", "this redirect URI may not be used", where="redirect_uri", fix=f"use https, or http on {LOOPBACK}"
        )
    return uri


def metadata_document(url: str, redirect_uri: str) -> Json:
    """What the gateway says of itself under its own client id (client ID metadata documents)."""
    return {"client_id": url, **_about(redirect_uri), "token_endpoint_auth_method": "none"}


def _about(redirect_uri: str) -> dict[str, object]:
    native = redirect_uri.startswith("http://")
    return {
        "client_name": CLIENT_NAME,
        "redirect_uris": [redirect_uri],
        "grant_types": list(GRANTS),
        "response_types": ["code"],
        "application_type": "native" if native else "web",
    }


class Registrar:
    """`document_url`: where our own metadata document stands, if it can be reached by others."""

    def __init__(self, fetcher: Fetcher, clock: Clock, defects: Defects, document_url: str | None = None) -> None:
        self._fetcher = fetcher
        self._clock = clock
        self._defects = defects
        self._document_url = document_url

    async def client(
        self, server: ServerMetadata, redirect_uri: str, configured: Configured | None, known: Client | None, scopes: Sequence[str]
    ) -> Client:
        """Raises OAuthError. What belongs to another issuer or redirect URI is never used here."""
        if configured is not None:
            return self._configured(server, redirect_uri, configured)
        if known is not None and self._still_good(known, server, redirect_uri):
            return known
        if server.takes_documents and self._document_url is not None and "none" in server.methods:
            return Client(self._document_url, server.issuer, redirect_uri, kind="document")
        if server.registration is None:
            raise OAuthError(
                "oauth_manual_client_required", "the authorization server registers nobody by itself", where="client",
                fix="register a client there, and give its id (and secret) as `client`",
            )  # fmt: skip
        return await self._register(server, server.registration, redirect_uri, scopes)

    def _configured(self, server: ServerMetadata, redirect_uri: str, given: Configured) -> Client:
        method = given.method or choose_method(server.methods, has_secret=given.secret is not None)
        if method not in METHODS or (method != "none") != (given.secret is not None):
            raise OAuthError("oauth_client_auth_unsupported", "the client's secret and its method do not belong together", where="client")
        return Client(given.id, server.issuer, redirect_uri, given.secret, method, kind="configured")

    def _still_good(self, known: Client, server: ServerMetadata, redirect_uri: str) -> bool:
        if known.issuer != server.issuer or known.redirect_uri != redirect_uri:
            return False
        return not known.secret_expires_at or known.secret_expires_at > self._clock.now().timestamp() + 60

    async def _register(self, server: ServerMetadata, endpoint: str, redirect_uri: str, scopes: Sequence[str]) -> Client:
        asked = next((each for each in ("none", *METHODS) if each in server.methods), "none")
        document = {**_about(redirect_uri), "token_endpoint_auth_method": asked}
        if scopes:
            document["scope"] = " ".join(scopes)
        fetched = await self._fetcher.post_json(endpoint, "registration", document)
        if fetched.document is None:
            raise malformed("registration answer", "it is not a JSON object" if fetched.status in (200, 201) else f"HTTP {fetched.status}")
        if not fetched.good:
            word = error_word(fetched.document.get("error"))
            raise OAuthError(
                "oauth_registration_refused", f"the authorization server registered no client ({word})", where="registration",
                fix="register one by hand, and give it as `client`", http_status=502,
            )  # fmt: skip
        loose = "oauth-loose-redirect" in self._defects
        client = registered_client(fetched.document, server, redirect_uri, asked, self._clock.now().timestamp(), loose_redirect=loose)
        if client.method not in server.methods:
            client = replace(client, method=choose_method(server.methods, has_secret=client.secret is not None))
        return client


def is_public_document(url: str) -> bool:
    """Whether a client ID metadata document may live there: https, and a path."""
    parts = urlsplit(url)
    return parts.scheme == "https" and len(parts.path) > 1 and not parts.fragment
