"""Tokens as they arrive and as they are kept: with the instant at which they end, never with a span that a restart would forget."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from reference_gateway.oauth.challenge import scopes_of
from reference_gateway.oauth.documents import Client
from reference_gateway.oauth.errors import OAuthError
from reference_gateway.wire import decode

Json = Mapping[str, Any]

MAX_TOKEN = 16_384
LEEWAY_S = 60
REFRESH_BEFORE_S = 60
MAX_LIFE_S = 10 * 365 * 86_400
_BEARER = re.compile(r"[A-Za-z0-9._~+/-]+=*")  # RFC 6750 §2.1: what a header can carry
_VISIBLE = re.compile(r"[\x20-\x7e]+")


@dataclass(frozen=True, slots=True)
class Tokens:
    """`expires_at`: seconds since 1970; None when nobody said. `scopes`: what was granted."""

    access: str
    refresh: str | None
    expires_at: float | None
    scopes: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Tokens(expires_at={self.expires_at}, scopes={self.scopes!r})"  # never the tokens

    def due(self, now: float) -> bool:
        """Whether it is time for new ones."""
        return self.expires_at is not None and now >= self.expires_at - REFRESH_BEFORE_S

    def expired(self, now: float) -> bool:
        return self.expires_at is not None and now >= self.expires_at


@dataclass(frozen=True, slots=True)
class Consent:
    """What the vault keeps of one consent, as one text, so that no part of it can be newer than another.

    `tokens` None: they were lost, and only a person can give new ones. `asked`: the scopes that the person was asked for.
    `epoch` counts the times a person agreed; renewing tokens does not change it, so a call that waits for approval survives a renewal.
    """

    issuer: str
    resource: str
    token_endpoint: str
    revocation_endpoint: str | None
    client: Client
    tokens: Tokens | None
    asked: tuple[str, ...]
    epoch: int = 1

    def text(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"))

    def lost(self) -> Consent:
        return replace(self, tokens=None)

    def with_tokens(self, tokens: Tokens) -> Consent:
        return replace(self, tokens=tokens)

    @staticmethod
    def load(text: str) -> Consent:
        """Raises OAuthError `oauth_consent_unreadable`."""
        try:
            doc = json.loads(text)
            held = doc["tokens"]
            tokens = Tokens(**{**held, "scopes": tuple(held["scopes"])}) if held is not None else None
            return Consent(**{**doc, "client": Client(**doc["client"]), "tokens": tokens, "asked": tuple(doc["asked"])})
        except (ValueError, TypeError, KeyError) as error:
            raise OAuthError(
                "oauth_consent_unreadable", "what the vault holds is no consent", where="credentials", fix="authorize the connection again"
            ) from error


def tokens_of(document: Json, now: float, asked: tuple[str, ...], before: Tokens | None = None) -> Tokens:
    """A token endpoint's good answer. `before`: the tokens that these renew, whose refresh token holds on unless a new one came.

    Raises OAuthError `oauth_token_unusable`, `oauth_token_expired` or `oauth_token_not_yet_valid`; then nothing of it may be kept.
    """
    access, refresh = document.get("access_token"), document.get("refresh_token")
    if not isinstance(access, str) or len(access) > MAX_TOKEN or not _BEARER.fullmatch(access):
        raise _unusable("access_token is missing, too long or no bearer token")
    kind = document.get("token_type")
    if not isinstance(kind, str) or kind.lower() != "bearer":
        raise _unusable("token_type is not Bearer")
    if refresh is not None and not (isinstance(refresh, str) and len(refresh) <= MAX_TOKEN and _VISIBLE.fullmatch(refresh)):
        raise _unusable("refresh_token is too long or not printable")
    granted = _granted(document, asked if before is None else before.scopes)
    expires_at = _expiry(document, now)
    claimed = _claims(access)
    if claimed:
        expires_at = _judged(claimed, now, expires_at)
    return Tokens(access, refresh or (before.refresh if before is not None else None), expires_at, granted)


def _granted(document: Json, otherwise: tuple[str, ...]) -> tuple[str, ...]:
    """No `scope` means what was asked (RFC 6749 §5.1)."""
    scope = document.get("scope")
    if scope is None or scope == "":
        return otherwise
    found = scopes_of(scope)
    if not found:
        raise _unusable("scope is no list of scopes")
    return found


def _expiry(document: Json, now: float) -> float | None:
    span = document.get("expires_in")
    if isinstance(span, str) and re.fullmatch(r"[0-9]{1,10}", span):
        span = int(span)
    if span is None:
        return None
    if not isinstance(span, (int, float)) or isinstance(span, bool):
        raise _unusable("expires_in is no number")
    if span <= 0:
        raise OAuthError(
            "oauth_token_expired", "the provider gave a token that has already expired", where="token", fix="authorize again", http_status=502
        )
    return now + min(float(span), MAX_LIFE_S)


def _claims(access: str) -> Json:
    """What a token that happens to be a JWT says of its own time. Its signature is the resource's business; here it can only shorten trust."""
    parts = access.split(".")
    if len(parts) != 3:
        return {}
    try:
        value = decode(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _judged(claims: Json, now: float, expires_at: float | None) -> float | None:
    exp, starts = _instant(claims.get("exp")), _instant(claims.get("nbf"))
    if starts is not None and starts > now + LEEWAY_S:
        raise OAuthError(
            "oauth_token_not_yet_valid", "the provider gave a token that is not valid yet", where="token", fix="compare the clocks", http_status=502
        )
    if exp is None:
        return expires_at
    if exp <= now:
        raise OAuthError(
            "oauth_token_expired", "the provider gave a token that has already expired", where="token", fix="authorize again", http_status=502
        )
    return exp if expires_at is None else min(exp, expires_at)


def _instant(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e12 else None


def _unusable(what: str) -> OAuthError:
    return OAuthError("oauth_token_unusable", f"the token answer is unusable: {what}", where="token", fix="ask the provider", http_status=502)
