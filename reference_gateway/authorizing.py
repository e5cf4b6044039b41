"""The broker as setups see it (`setup.setups.Broker`): one authorization per connection at a time, and what became of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from reference_gateway.audit import AuditFields, AuditLog, stamp
from reference_gateway.connection import Connection
from reference_gateway.connections import Connections
from reference_gateway.errors import GatewayError
from reference_gateway.log import logger
from reference_gateway.oauth.broker import Answer, Broker, Started, Wish
from reference_gateway.oauth.consents import Place
from reference_gateway.oauth.errors import OAuthError
from reference_gateway.oauth.pending import Asker
from reference_gateway.oauth.registration import Configured, is_public_document
from reference_gateway.oauth.tokens import Consent
from reference_gateway.operators import actor
from reference_gateway.setup.setups import Asked, Authorization

log = logger("authorizing")

DOCUMENT_PATH = "/oauth/client-metadata.json"
CALLBACK_PATH = "/oauth/callback"

Finish = Callable[[Connection, Mapping[str, str]], Awaitable[None]]
Key = tuple[str, str]
"""Tenant and connection."""


@dataclass(frozen=True, slots=True)
class _Begun:
    started: Started
    at: float
    failed: GatewayError | None = None
    done: bool = False


class Authorizing:
    """`finish` lets a draft in with its first consent; it is set once setups exist, for they in turn need this."""

    def __init__(self, broker: Broker, connections: Connections, audit: AuditLog, now: Callable[[], float], default_redirect: str | None) -> None:
        self._broker = broker
        self._connections = connections
        self._audit = audit
        self._now = now
        self._default_redirect = default_redirect
        self._begun: dict[Key, _Begun] = {}
        self._configured: dict[Key, Configured] = {}
        self.finish: Finish | None = None

    def configure(self, tenant: str, connection: str, client: Configured) -> None:
        """A client that somebody registered by hand, for the next authorization; kept in this process until that has succeeded."""
        self._configured[tenant, connection] = client

    async def begin(self, asked: Asked) -> Authorization:
        """Raises OAuthError; nothing is stored."""
        key = (asked.tenant, asked.connection)
        place = Place(asked.tenant, asked.connection, asked.grant.key, asked.path)
        redirect_uri = asked.redirect_uri or self._default_redirect
        if redirect_uri is None:
            raise OAuthError("oauth_redirect_rejected", "it is not said where the browser is to come back to", where="redirect_uri", fix="give it")
        held = self._broker.consents.read(place)

        async def settle(consent: Consent) -> None:
            await self._settle(key, place, asked.url, consent)

        def failed(error: GatewayError) -> None:
            self._fail(key, error)

        wish = Wish(
            place=place,
            url=asked.url,
            asker=Asker(asked.actor, asked.session),
            redirect_uri=redirect_uri,
            settle=settle,
            failed=failed,
            scopes=asked.scopes,
            configured=self._configured.get(key),
            known=held.consent if held is not None else None,
            more=self._broker.consents.demanded(place),
        )
        started = await self._broker.begin(wish)
        self._begun[key] = _Begun(started, self._now())
        self._record(key, "authorization_started", {"again": held is not None})
        return self.status(*key)

    async def complete(self, tenant: str, asker: Asker, answer: Answer) -> str:
        """The connection that the answer was for. Raises OAuthError, and what letting it in raises; then nothing was stored."""
        pending = await self._broker.complete(tenant, asker, answer)
        key = (tenant, pending.place.connection)
        self._configured.pop(key, None)
        if (begun := self._begun.get(key)) is not None:
            self._begun[key] = _Begun(begun.started, begun.at, done=True)
        return pending.place.connection

    def status(self, tenant: str, connection: str) -> Authorization:
        begun = self._begun.get((tenant, connection))
        if begun is None or begun.done:
            return Authorization("none")
        if begun.failed is not None:
            return Authorization("denied" if begun.failed.code == "oauth_authorization_denied" else "failed", problem=begun.failed.code)
        if self._now() >= begun.started.expires_at:
            return Authorization("expired")
        return Authorization("waiting", begun.started.url, _stamp(begun.started.expires_at))

    def forget(self, tenant: str, connection: str) -> None:
        if (begun := self._begun.pop((tenant, connection), None)) is not None:
            self._broker.pending.drop(begun.started.state)  # or the answer would go to whatever has this name by then
        self._configured.pop((tenant, connection), None)

    def shown(self, connection: Connection) -> dict[str, Any]:
        """How a connection stands with its provider; no secret is within reach of it."""
        place = place_of(connection)
        held = self._broker.consents.read(place) if place is not None else None
        demanded = self._broker.consents.demanded(place) if place is not None else ()
        tokens = held.consent.tokens if held is not None else None
        state = "none" if held is None else "needs_reauthorization" if tokens is None else "needs_scopes" if demanded else "authorized"
        begun = self.status(connection.tenant, connection.name)
        return {
            "state": state,
            "issuer": held.consent.issuer if held is not None else None,
            "client": held.consent.client.kind if held is not None else None,
            "scopes": list(tokens.scopes) if tokens is not None else [],
            "demanded": list(demanded),
            "expires_at": _stamp(tokens.expires_at) if tokens is not None and tokens.expires_at is not None else None,
            "renewable": tokens is not None and tokens.refresh is not None,
            "generation": held.generation if held is not None else 0,
            "authorization": {"state": begun.state, "url": begun.url, "expires_at": begun.expires_at, "problem": begun.problem},
        }

    async def _settle(self, key: Key, place: Place, url: str, consent: Consent) -> None:
        connection = self._connections.get(*key)
        own = connection.settings
        if (own.url, own.grant.key, connection.revoked) != (url, place.grant, False) or connection.status == "archived":
            raise OAuthError(  # deleted, and made again under the same name: nobody agreed to that one
                "oauth_state_unknown", "the connection is no longer the one that was authorized", where="state", fix="begin again", http_status=400
            )
        if connection.was_active:
            self._broker.store(place, consent)
        elif self.finish is not None:
            await self.finish(connection, {place.path: consent.text()})
        self._record(key, "authorization_completed", {"scopes": list(consent.tokens.scopes) if consent.tokens is not None else []})

    def _fail(self, key: Key, error: GatewayError) -> None:
        if (begun := self._begun.get(key)) is not None:
            self._begun[key] = _Begun(begun.started, begun.at, failed=error)
        self._record(key, "authorization_failed", {"code": error.code}, outcome="failure")

    def _record(self, key: Key, event: str, details: dict[str, Any], *, outcome: str = "success") -> None:
        connection = self._connections.find(*key)
        fields: Any = {
            "tenant": key[0],
            "actor": actor(),
            "connection": key[1],
            "provider": connection.settings.provider if connection is not None else None,
            "event": event,
            "outcome": outcome,
            "decision": "allow",
            "reason": details.get("code", event),
            "details": details,
        }
        own: AuditFields = fields
        self._audit.append(**own)


def teller(audit: AuditLog) -> Callable[[Place, str, str], None]:
    """What the broker does by itself, for the record."""

    def told(place: Place, event: str, code: str) -> None:
        lost = event == "authorization_lost"
        fields: Any = {
            "tenant": place.tenant,
            "actor": "gateway",
            "connection": place.connection,
            "event": event,
            "outcome": "failure" if lost else "success",
            "decision": "allow",
            "reason": code or event,
            "details": {},
        }
        try:
            audit.append(**fields)
        except GatewayError as error:  # it has happened all the same, and no request waits for this word
            log.warning("not_recorded", code=error.code, about=event)

    return told


def place_of(connection: Connection) -> Place | None:
    """Where its consent is; None for a connection that needs none."""
    own = connection.settings
    path = own.auth.get("path") if own.auth.get("scheme") == "oauth" else None
    return Place(connection.tenant, connection.name, own.grant.key, path) if path else None


def document_url(public_url: str | None) -> str | None:
    """Where our client ID metadata document stands, if others can reach it there (https only)."""
    url = f"{public_url.rstrip('/')}{DOCUMENT_PATH}" if public_url is not None else None
    return url if url is not None and is_public_document(url) else None


def redirect_url(public_url: str | None) -> str | None:
    """Where a browser comes back to when nobody said otherwise."""
    return f"{public_url.rstrip('/')}{CALLBACK_PATH}" if public_url is not None else None


def _stamp(seconds: float) -> str:
    return stamp(datetime.fromtimestamp(seconds, UTC))
