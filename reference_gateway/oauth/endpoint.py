"""The token endpoint: a code or a refresh token becomes tokens, or a coded refusal that repeats nothing of what was answered."""

from __future__ import annotations

from collections.abc import Mapping

from reference_gateway.defects import Defects
from reference_gateway.oauth.documents import Client
from reference_gateway.oauth.errors import OAuthError, error_word
from reference_gateway.oauth.fetch import Fetched, Fetcher, Json
from reference_gateway.oauth.tokens import Consent


class Refused(OAuthError):
    """The authorization server's own no. `word`: its code if it is a registered one, else `unrecognized`."""

    http_status = 502

    def __init__(self, word: str, echo: str = "") -> None:
        super().__init__(
            "oauth_token_exchange_failed", f"the authorization server gave no token ({word}){echo}", where="token", fix="authorize again"
        )
        self.word = word


class TokenEndpoint:
    def __init__(self, fetcher: Fetcher, defects: Defects) -> None:
        self._fetcher = fetcher
        self._defects = defects

    async def exchange(self, url: str, client: Client, *, code: str, verifier: str, redirect_uri: str, resource: str) -> Json:
        """Raises Refused, Unanswered and OAuthError."""
        fields = {"grant_type": "authorization_code", "code": code, "code_verifier": verifier, "redirect_uri": redirect_uri}
        return await self._ask(url, client, {**fields, **self._resource(resource)})

    async def renew(self, consent: Consent, refresh: str) -> Json:
        """Raises Refused, Unanswered (the outcome is unknown) and OAuthError."""
        fields = {"grant_type": "refresh_token", "refresh_token": refresh}
        return await self._ask(consent.token_endpoint, consent.client, {**fields, **self._resource(consent.resource)})

    def _resource(self, resource: str) -> dict[str, str]:
        return {} if "oauth-no-resource" in self._defects else {"resource": resource}

    async def _ask(self, url: str, client: Client, fields: Mapping[str, str]) -> Json:
        shown, basic = shown_as(client, fields)
        fetched = await self._fetcher.post_form(url, "token", shown, basic)
        if fetched.good and fetched.document is not None:
            return fetched.document
        raise self._refusal(fetched)

    def _refusal(self, fetched: Fetched) -> Refused:
        document = fetched.document or {}
        # A word counts only under the statuses it may come with (RFC 6749 §5.2): a proxy's page must not cost anybody a consent.
        word = error_word(document.get("error")) if fetched.status in (400, 401) else "unrecognized"
        echo = f": {document.get('error_description')}" if "oauth-echoes-error" in self._defects else ""
        return Refused(word, echo)


def shown_as(client: Client, fields: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, str] | None]:
    """The fields with the client's own, and user and password for those that show themselves in a header."""
    if client.method == "client_secret_basic":
        return dict(fields), (client.id, client.secret or "")
    own = {"client_id": client.id}
    if client.method == "client_secret_post":
        own["client_secret"] = client.secret or ""
    return {**fields, **own}, None
