"""Consents that somebody was sent out to give. Each answer counts once, for ten minutes, and only from whoever was sent.

They live in this process alone: the verifier is never written anywhere, and a restart means asking again.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field

from reference_gateway.clock import Clock
from reference_gateway.defects import Defects
from reference_gateway.oauth.consents import Place
from reference_gateway.oauth.discovery import Found
from reference_gateway.oauth.documents import Client
from reference_gateway.oauth.errors import OAuthError

LIFE_S = 600.0
MAX_PENDING = 1000


@dataclass(frozen=True, slots=True)
class Asker:
    """Who began: the operator, and that operator's own session with whatever shows the consent page."""

    actor: str
    session: str


@dataclass(frozen=True, slots=True)
class Pending:
    """One consent that is waited for. `expires_at`: seconds since 1970."""

    id: str
    place: Place
    asker: Asker
    found: Found
    client: Client
    redirect_uri: str
    scopes: tuple[str, ...]
    expires_at: float
    verifier: str = field(repr=False)


class PendingBook:
    def __init__(self, clock: Clock, defects: Defects) -> None:
        self._clock = clock
        self._defects = defects
        self._waiting: dict[str, Pending] = {}

    def add(self, state: str, pending: Pending) -> None:
        now = self._now()
        self._waiting = {key: each for key, each in self._waiting.items() if each.expires_at > now}
        while len(self._waiting) >= MAX_PENDING:
            self._waiting.pop(next(iter(self._waiting)))
        self._waiting[state] = pending

    def take(self, state: str, tenant: str, asker: Asker, redirect_uri: str) -> Pending:
        """The entry, once. The wrong person does not use it up; whoever may answer does, whatever the answer is.

        Raises OAuthError `oauth_state_unknown` (never given, used or expired, or of another tenant), `oauth_state_foreign` or
        `oauth_redirect_mismatch`.
        """
        found = self._waiting.get(state)
        if found is None or found.place.tenant != tenant or found.expires_at <= self._now():
            raise OAuthError("oauth_state_unknown", "no consent with this state is waited for", where="state", fix="begin again", http_status=400)
        if not (hmac.compare_digest(found.asker.session.encode(), asker.session.encode()) and found.asker.actor == asker.actor):
            raise OAuthError("oauth_state_foreign", "somebody else asked for this consent", where="session", fix="begin again", http_status=403)
        if "oauth-state-reused" not in self._defects:
            del self._waiting[state]
        if found.redirect_uri != redirect_uri and "oauth-loose-redirect" not in self._defects:
            raise OAuthError(
                "oauth_redirect_mismatch",
                "the answer arrived elsewhere than it was sent to",
                where="redirect_uri",
                fix="begin again",
                http_status=400,
            )
        return found

    def knows(self, pending: str) -> bool:
        return any(each.id == pending for each in self._waiting.values())

    def forget(self, place: Place) -> None:
        """Nobody waits for a consent to a connection that is gone."""
        self._waiting = {key: each for key, each in self._waiting.items() if each.place != place}

    def drop(self, state: str) -> None:
        """Nobody waits for this answer any more."""
        self._waiting.pop(state, None)

    def count(self, place: Place) -> int:
        now = self._now()
        return sum(each.place == place and each.expires_at > now for each in self._waiting.values())

    def _now(self) -> float:
        return self._clock.now().timestamp()
