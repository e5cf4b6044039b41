"""The broker: sends a person out to consent, takes what they come back with, and keeps nothing of what went wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlencode

from reference_gateway.clock import Clock
from reference_gateway.defects import Defects
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.ids import Ids
from reference_gateway.oauth.challenge import Challenge
from reference_gateway.oauth.consents import Consents, Held, Place
from reference_gateway.oauth.discovery import Discovery, Found
from reference_gateway.oauth.endpoint import TokenEndpoint
from reference_gateway.oauth.errors import OAuthError, error_word
from reference_gateway.oauth.fetch import Fetcher
from reference_gateway.oauth.pending import LIFE_S, Asker, Pending, PendingBook
from reference_gateway.oauth.pkce import challenge_fields, new_verifier
from reference_gateway.oauth.probe import knock, lets_in
from reference_gateway.oauth.refresh import Refresher, Told
from reference_gateway.oauth.registration import Configured, Registrar, check_redirect
from reference_gateway.oauth.tokens import Consent, tokens_of

OFFLINE = "offline_access"
MAX_CODE = 4096

Settle = Callable[[Consent], Awaitable[None]]
"""What is done with a consent that was just given: try it, then store it. Raises GatewayError when it is not to be kept."""
Failed = Callable[[GatewayError], None]


@dataclass(frozen=True, slots=True)
class Wish:
    """What a consent is wanted for. `scopes`: those that are reviewed for this provider; `challenge`: where one is known already."""

    place: Place
    url: str
    asker: Asker
    redirect_uri: str
    settle: Settle
    failed: Failed
    scopes: tuple[str, ...] = ()
    configured: Configured | None = None
    challenge: Challenge | None = None
    known: Consent | None = None
    more: tuple[str, ...] = ()
    """Scopes that the provider demanded beyond the consent that stands."""


@dataclass(frozen=True, slots=True)
class Started:
    """`url` is where the person's browser goes; `state` is part of it, and comes back. `expires_at`: seconds since 1970."""

    id: str
    url: str
    state: str = field(repr=False)
    expires_at: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the browser brought back, as it stood in the query; `redirect_uri` is where it arrived."""

    state: str
    redirect_uri: str
    code: str | None = field(default=None, repr=False)
    iss: str | None = None
    error: str | None = None
    error_description: str | None = None


class Broker:
    """`document_url`: where the gateway's own client ID metadata document stands, if others can reach it."""

    def __init__(
        self,
        *,
        egress: Egress,
        consents: Consents,
        clock: Clock,
        ids: Ids,
        defects: Defects,
        document_url: str | None = None,
        told: Told = lambda place, event, code: None,
    ) -> None:
        self._egress = egress
        self._clock = clock
        self._ids = ids
        self._defects = defects
        self.consents = consents
        fetcher = Fetcher(egress, clock)
        self._discovery = Discovery(fetcher, defects)
        self._registrar = Registrar(fetcher, clock, defects, document_url)
        self._endpoint = TokenEndpoint(fetcher, defects)
        self.pending = PendingBook(clock, defects)
        self.refresher = Refresher(consents, self._endpoint, clock, ids, defects, told)
        self._wishes: dict[str, Wish] = {}

    async def begin(self, wish: Wish) -> Started:
        """Finds the provider's authorization server and an identity there. Nothing is stored. Raises OAuthError."""
        check_redirect(wish.redirect_uri)
        challenge = wish.challenge or await knock(self._egress, self._clock, wish.url)
        found = await self._discovery.find(wish.url, challenge)
        scopes = self._scopes(wish, challenge, found)
        known = wish.known.client if wish.known is not None else None
        client = await self._registrar.client(found.server, wish.redirect_uri, wish.configured, known, scopes)
        state, verifier = self._ids.token(), new_verifier(self._ids)
        pending = Pending(
            id=self._ids.new("oa"),
            place=wish.place,
            asker=wish.asker,
            found=found,
            client=client,
            redirect_uri=wish.redirect_uri,
            scopes=scopes,
            expires_at=self._clock.now().timestamp() + LIFE_S,
            verifier=verifier,
        )
        self.pending.add(state, pending)
        self._wishes = {key: each for key, each in self._wishes.items() if self.pending.knows(key)}
        self._wishes[pending.id] = wish
        return Started(pending.id, self._authorization_url(pending, state), state, pending.expires_at)

    async def complete(self, tenant: str, asker: Asker, answer: Answer) -> Pending:
        """Takes one answer, once, and settles the consent it brings. Raises OAuthError; then nothing was stored."""
        pending = self.pending.take(answer.state, tenant, asker, answer.redirect_uri)
        wish = self._wishes[pending.id]
        try:
            consent = await self._exchanged(pending, wish, answer)
            await wish.settle(consent)
        except GatewayError as error:
            wish.failed(error)
            raise
        self.consents.forget(pending.place)
        return pending

    async def _exchanged(self, pending: Pending, wish: Wish, answer: Answer) -> Consent:
        server = pending.found.server
        self._check_issuer(pending, answer)
        if answer.error is not None:
            echo = f": {answer.error_description}" if "oauth-echoes-error" in self._defects else ""
            raise OAuthError(
                "oauth_authorization_denied", f"the consent was not given ({error_word(answer.error)}){echo}", where="consent", fix="begin again",
                http_status=400,
            )  # fmt: skip
        if not answer.code or len(answer.code) > MAX_CODE:
            raise OAuthError(
                "oauth_code_missing", "the answer holds neither a usable code nor an error", where="code", fix="begin again", http_status=400
            )
        document = await self._endpoint.exchange(
            server.token,
            pending.client,
            code=answer.code,
            verifier=pending.verifier,
            redirect_uri=pending.redirect_uri,
            resource=pending.found.resource,
        )
        tokens = tokens_of(document, self._clock.now().timestamp(), pending.scopes)
        if not await lets_in(self._egress, self._clock, wish.url, tokens.access):
            raise OAuthError(
                "oauth_token_rejected",
                "the provider does not take the token that its authorization server gave",
                where="token",
                fix="ask the provider",
            )
        return Consent(
            issuer=server.issuer,
            resource=pending.found.resource,
            token_endpoint=server.token,
            revocation_endpoint=server.revocation,
            client=pending.client,
            tokens=tokens,
            asked=pending.scopes,
            epoch=wish.known.epoch + 1 if wish.known is not None else 1,
        )

    def _check_issuer(self, pending: Pending, answer: Answer) -> None:
        """RFC 9207, letter for letter: a server that is honest sends its own name; one that was mixed up with another does not."""
        server = pending.found.server
        if "oauth-iss-unchecked" in self._defects:
            return
        if answer.iss != server.issuer and (answer.iss is not None or server.iss_promised):
            raise OAuthError(
                "oauth_issuer_mismatch",
                "the answer is not from the authorization server that was asked",
                where="iss",
                fix="begin again",
                http_status=400,
            )

    def _scopes(self, wish: Wish, challenge: Challenge | None, found: Found) -> tuple[str, ...]:
        """The provider's challenge, with what is reviewed; else what the resource lists; always with what was asked for before."""
        wanted: Sequence[str] = (*wish.scopes, *(challenge.scopes if challenge is not None else ()))
        if not wanted and wish.known is None:
            wanted = found.resource_scopes
        before = wish.known.asked if wish.known is not None and wish.known.issuer == found.server.issuer else ()
        scopes = tuple(dict.fromkeys((*before, *wanted, *wish.more)))
        if OFFLINE in found.server.scopes and "refresh_token" in found.server.grants and scopes:
            scopes = tuple(dict.fromkeys((*scopes, OFFLINE)))
        return scopes

    def _authorization_url(self, pending: Pending, state: str) -> str:
        fields = {
            "response_type": "code",
            "client_id": pending.client.id,
            "redirect_uri": pending.redirect_uri,
            "state": state,
            **challenge_fields(pending.verifier, self._defects),
        }
        if "oauth-no-resource" not in self._defects:
            fields["resource"] = pending.found.resource
        if pending.scopes:
            fields["scope"] = " ".join(pending.scopes)
        endpoint = pending.found.server.authorization
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(fields)}"

    def forget(self, place: Place) -> None:
        """The connection is gone: nobody waits for a consent to it."""
        self.pending.forget(place)
        self.consents.forget(place)

    def store(self, place: Place, consent: Consent) -> Held:
        """A consent that a person just gave, whatever stood there: theirs is the last word, until the next renewal."""
        generation = self.consents.replace(place, consent, None)
        assert generation is not None  # unconditional
        return Held(consent, generation)
