"""Who is signed in: sessions in memory, each with the operator's token, which never leaves the process again, and a CSRF token."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from reference_gateway.clock import Clock
from reference_gateway.ids import Ids

COOKIE = "console_session"
LIFETIME_S = 8 * 3600.0
IDLE_S = 1800.0
MOST = 1000
"""Sessions at once; the one that was idle longest makes room."""


@dataclass(slots=True)
class Session:
    """`role`: owner, operator or viewer, as the operator API said at sign-in; it judges every call anew."""

    key: str
    csrf: str
    tenant: str
    token: str
    name: str
    role: str
    ends: datetime
    seen: datetime
    asked: dict[str, str] = field(default_factory=dict)
    """Consents that this browser was sent out for: OAuth state → connection."""

    @property
    def browser(self) -> str:
        """What the operator API is told of this browser, so that a consent counts only where it was asked for."""
        return hashlib.sha256(f"consents of {self.key}".encode()).hexdigest()

    @property
    def may_act(self) -> bool:
        return self.role != "viewer"

    def proves(self, csrf: str) -> bool:
        return hmac.compare_digest(csrf.encode("utf-8", "surrogateescape"), self.csrf.encode())


class Sessions:
    def __init__(self, clock: Clock, ids: Ids) -> None:
        self._clock = clock
        self._ids = ids
        self._found: dict[str, Session] = {}

    def begin(self, tenant: str, token: str, name: str, role: str) -> Session:
        """Always under a new key, so that nobody can be signed in under one that another person chose."""
        now = self._clock.now()
        session = Session(self._ids.token(), self._ids.token(), tenant, token, name, role, now + timedelta(seconds=LIFETIME_S), now)
        if len(self._found) >= MOST:
            del self._found[min(self._found.values(), key=lambda each: each.seen).key]
        self._found[session.key] = session
        return session

    def of(self, key: str | None) -> Session | None:
        """None for an unknown key, one that was idle too long, or one past its end."""
        session = self._found.get(key or "")
        if session is None:
            return None
        now = self._clock.now()
        if now >= session.ends or now >= session.seen + timedelta(seconds=IDLE_S):
            del self._found[session.key]
            return None
        session.seen = now
        return session

    def end(self, session: Session) -> None:
        self._found.pop(session.key, None)
