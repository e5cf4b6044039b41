"""Renewing tokens: one request per renewal, whoever asks and however often, and a loser that never undoes what a winner stored.

Within a process all who need a new token wait for one task, which no caller's leaving breaks off: a refresh token that was spent and
whose successor was thrown away is a lost consent. Between processes a lease in the store keeps the others waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from reference_gateway.clock import Clock
from reference_gateway.defects import Defects
from reference_gateway.ids import Ids
from reference_gateway.oauth.consents import Consents, Held, Place
from reference_gateway.oauth.endpoint import Refused, TokenEndpoint
from reference_gateway.oauth.errors import OAuthError
from reference_gateway.oauth.fetch import Unanswered
from reference_gateway.oauth.tokens import tokens_of

LEASE_S = 120.0
WAIT_S = 30.0
POLL_S = 0.025


class NeedsAuthorization(OAuthError):
    """Only a person can give this consent again."""

    def __init__(self, message: str = "the provider wants the consent to be given again") -> None:
        super().__init__("oauth_reauthorization_required", message, where="connection", fix="authorize the connection again")


Told = Callable[[Place, str, str], None]
"""What is to be recorded: where, the event, and a code or ""."""


class Refresher:
    def __init__(self, consents: Consents, endpoint: TokenEndpoint, clock: Clock, ids: Ids, defects: Defects, told: Told) -> None:
        self.told = told
        self._consents = consents
        self._endpoint = endpoint
        self._clock = clock
        self._ids = ids
        self._defects = defects
        self._running: dict[Place, asyncio.Task[Held]] = {}

    async def renewed(self, place: Place, stale: int) -> Held:
        """A consent with usable tokens that is newer than generation `stale`. Raises OAuthError.

        Codes: `oauth_reauthorization_required`, `oauth_refresh_missing`, `oauth_refresh_in_progress`, `oauth_refresh_superseded`,
        `oauth_refresh_outcome_unknown`, `oauth_token_exchange_failed`, and those of a token that may not be used.
        """
        task = self._running.get(place)
        if task is None:
            task = asyncio.ensure_future(self._renew(place, stale))
            self._running[place] = task
            task.add_done_callback(lambda done: self._done(place, done))
        return await asyncio.shield(task)

    def _done(self, place: Place, task: asyncio.Task[Held]) -> None:
        if self._running.get(place) is task:
            del self._running[place]
        if not task.cancelled():
            task.exception()  # looked at, so that nobody complains when every caller has left

    async def close(self) -> None:
        """Waits for what is under way: its outcome is worth a moment."""
        tasks = list(self._running.values())
        if tasks:
            await asyncio.wait(tasks, timeout=2.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _renew(self, place: Place, stale: int) -> Held:
        holder, waited = self._ids.new("lease"), 0.0
        while True:
            held = self._usable(place)
            if held.generation != stale and not self._due(held):
                return held  # somebody else was faster
            now = self._now()
            if "oauth-loser-wipes" in self._defects or self._consents.take_lease(place, holder, now, now + LEASE_S):
                break
            if waited >= WAIT_S:
                raise OAuthError(
                    "oauth_refresh_in_progress", "another process is renewing the token", where="connection", fix="try again", http_status=409
                )
            await self._clock.sleep(POLL_S)
            waited += POLL_S
        try:
            held = self._usable(place)
            if held.generation != stale and not self._due(held):
                return held
            return await self._ask(place, held)
        finally:
            self._consents.leave_lease(place, holder)

    async def _ask(self, place: Place, held: Held) -> Held:
        consent, tokens = held.consent, held.consent.tokens
        if tokens is None:
            raise NeedsAuthorization
        if tokens.refresh is None:
            raise OAuthError("oauth_refresh_missing", "the provider gave nothing to renew the token with", where="connection", fix="authorize again")
        try:
            document = await self._endpoint.renew(consent, tokens.refresh)
        except Unanswered as error:
            raise OAuthError(
                "oauth_refresh_outcome_unknown", "it is not known whether the token was renewed", where="token", fix="try again; else authorize again"
            ) from error
        except Refused as refusal:
            if refusal.word != "invalid_grant":
                raise
            return self._lost(place, held)
        renewed = consent.with_tokens(tokens_of(document, self._now(), consent.asked, tokens))
        generation = self._consents.replace(place, renewed, held.generation)
        if generation is None:
            return self._superseded(place, held)
        self.told(place, "token_renewed", "")
        return Held(renewed, generation)

    def _lost(self, place: Place, held: Held) -> Held:
        """`invalid_grant`. It speaks of the token that was sent, so it counts only as long as that is still the one we have."""
        wiping = "oauth-loser-wipes" in self._defects
        if self._consents.replace(place, held.consent.lost(), None if wiping else held.generation) is None:
            return self._superseded(place, held)
        self.told(place, "authorization_lost", "oauth_reauthorization_required")
        raise NeedsAuthorization

    def _superseded(self, place: Place, held: Held) -> Held:
        """Somebody stored another consent meanwhile; theirs holds."""
        theirs = self._usable(place)
        if theirs.generation == held.generation or self._due(theirs):
            raise OAuthError("oauth_refresh_superseded", "another renewal came first", where="connection", fix="try again", http_status=409)
        return theirs

    def _usable(self, place: Place) -> Held:
        held = self._consents.read(place)
        if held is None or held.consent.tokens is None:
            raise NeedsAuthorization
        return held

    def _due(self, held: Held) -> bool:
        return held.consent.tokens is None or held.consent.tokens.due(self._now())

    def _now(self) -> float:
        return self._clock.now().timestamp()
