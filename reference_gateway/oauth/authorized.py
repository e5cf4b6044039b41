"""A door to one provider that shows the connection's token, renews it in time, and answers a provider that does not take it any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from reference_gateway.clock import Clock
from reference_gateway.lines import Requests, Response
from reference_gateway.oauth.challenge import Challenge, bearer_challenge
from reference_gateway.oauth.consents import Consents, Held, Place
from reference_gateway.oauth.errors import OAuthError
from reference_gateway.oauth.refresh import NeedsAuthorization, Refresher
from reference_gateway.oauth.tokens import Consent

Secret = Callable[[str], str]
Person = Callable[[Challenge, Held | None], Awaitable[Held | None]]
"""Somebody who is there now and may consent at once: the challenge and what was sent, to a newer consent or None."""
MAX_ASKED = 2
"""How often one request may lead to a question, so that a provider that is never content is given up."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where one connection's consent is, and who renews it. `tried`: reads a consent that is being tried and is not stored yet."""

    place: Place
    consents: Consents
    refresher: Refresher
    clock: Clock
    tried: Secret | None = None
    person: Person | None = None

    def ready(self) -> str | None:
        """Why no request can leave just now, by code; None when one can. Renewing is no reason: that happens by itself."""
        if self.person is not None or self.trying() is not None:
            return None
        held = self.consents.read(self.place)
        if held is None or held.consent.tokens is None:
            return "oauth_reauthorization_required"
        tokens = held.consent.tokens
        lapsed = tokens.refresh is None and tokens.expired(self.clock.now().timestamp())
        return "oauth_refresh_missing" if lapsed else None

    def unready(self) -> str | None:
        """As `ready`, after `prepare`: then a token that has ended means that there is no other to be had just now."""
        if (reason := self.ready()) is not None or self.person is not None or self.trying() is not None:
            return reason
        held = self.consents.read(self.place)
        tokens = held.consent.tokens if held is not None else None
        return "oauth_token_unavailable" if tokens is None or tokens.expired(self.clock.now().timestamp()) else None

    async def prepare(self) -> None:
        """Renews what has to be renewed before a request may leave, so that what is recorded as sent does leave. Says nothing: see `ready`."""
        if self.ready() is None:
            with suppress(OAuthError):
                await self.current()

    def trying(self) -> Held | None:
        text = self.tried(self.place.path) if self.tried is not None else ""
        return Held(Consent.load(text), 0) if text else None

    async def current(self) -> Held | None:
        """None only where a person is there to be asked. Raises OAuthError."""
        held = self.trying() or self.consents.read(self.place)
        tokens = held.consent.tokens if held is not None else None
        if held is None or tokens is None:
            if self.person is not None:
                return None
            raise NeedsAuthorization
        now = self.clock.now().timestamp()
        if not held.generation or not tokens.due(now):
            return held
        try:
            return await self.refresher.renewed(self.place, held.generation)
        except OAuthError as error:
            if isinstance(error, NeedsAuthorization) or tokens.expired(now):
                raise
            return held  # it still holds for a moment, and the next request tries again

    async def newer(self, held: Held) -> Held | None:
        """After a 401: another token, or None. One that is only being tried is renewed by nobody."""
        if not held.generation or held.consent.tokens is None or held.consent.tokens.refresh is None:
            return None
        try:
            return await self.refresher.renewed(self.place, held.generation)
        except OAuthError:
            return None  # the provider's 401 says it all


class Authorized:
    """Stands where `Lines` stand.

    A request is sent once; again only after 401 or 403, with which a provider says that it did nothing, and with another token.
    """

    def __init__(self, lines: Requests, access: Access) -> None:
        self._lines = lines
        self.access = access

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        """Raises what `Lines` raise, and OAuthError when there is no token to send."""
        held = await self.access.current()
        response = await self._lines.request(method, url, _with(headers, held), body)
        renewed, asked = False, 0
        while response.status in (401, 403):
            challenge = bearer_challenge([response.headers.get("www-authenticate", "")]) or Challenge()
            newer: Held | None = None
            if response.status == 403:
                self._demanded(challenge, held)
            elif held is not None and not renewed:
                renewed, newer = True, await self.access.newer(held)
            if newer is None and self._may_ask(response.status, challenge, asked):
                asked += 1
                newer = await self._asked(challenge, held)
            if newer is None:
                return response
            response.close()
            held = newer
            response = await self._lines.request(method, url, _with(headers, held), body)
        return response

    def as_now(self) -> Requests:
        """The same door with the token of now, for what is still to be sent when the consent has been removed."""
        held = self.access.trying() or self.access.consents.read(self.access.place)
        return Fixed(self._lines, held)

    def _demanded(self, challenge: Challenge, held: Held | None) -> None:
        access = self.access
        stored = held is not None and held.generation > 0
        if challenge.insufficient_scope and stored and access.consents.demand(access.place, challenge.scopes):
            access.refresher.told(access.place, "scopes_demanded", "")

    def _may_ask(self, status: int, challenge: Challenge, asked: int) -> bool:
        return self.access.person is not None and asked < MAX_ASKED and (status == 401 or challenge.insufficient_scope)

    async def _asked(self, challenge: Challenge, held: Held | None) -> Held | None:
        return await self.access.person(challenge, held) if self.access.person is not None else None


class Fixed:
    """A door that shows one token, whatever becomes of it."""

    def __init__(self, lines: Requests, held: Held | None) -> None:
        self._lines = lines
        self._held = held

    async def request(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Response:
        return await self._lines.request(method, url, _with(headers, self._held), body)


def _with(headers: Mapping[str, str], held: Held | None) -> dict[str, str]:
    tokens = held.consent.tokens if held is not None else None
    return {**headers, "authorization": f"Bearer {tokens.access}"} if tokens is not None else dict(headers)
