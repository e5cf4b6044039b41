"""From a connection's settings to the far side itself, and the first question to it: what are your tools?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import anyio

from reference_gateway.audit import AuditFields, AuditLog
from reference_gateway.background import Background
from reference_gateway.bridge.cognee import CogneeBridge
from reference_gateway.bridge.papr import DEFAULT_URL, PaprBridge
from reference_gateway.catalog import Discovery
from reference_gateway.clock import Clock, Deadline
from reference_gateway.connection import Settings, Slots
from reference_gateway.declaration import COGNEE_KEY, COGNEE_URL, Secret, auth_headers
from reference_gateway.defects import Defects, redirected
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.log import logger
from reference_gateway.oauth.authorized import Access, Authorized
from reference_gateway.oauth.broker import Broker
from reference_gateway.oauth.consents import Place
from reference_gateway.peer import abilities
from reference_gateway.provider import CogneeProvider, McpProvider, Provider
from reference_gateway.provider_papr import PaprProvider, rules_of
from reference_gateway.stdio.provider import StdioProvider
from reference_gateway.stdio.supervisor import Supervisor
from reference_gateway.stdio.templates import Template
from reference_gateway.upstream import McpUpstream
from reference_gateway.vault import Vault
from reference_gateway.wire import FETCH_FAILED, UpstreamFailure

REAL_TIME_S = 30.0

log = logger("dialling")


class Credentials:
    """Path → secret: those that are being tried, else those in the vault. `settle` once they are stored."""

    def __init__(self, vault: Vault, tenant: str, settings: Settings, tried: Mapping[str, str] | None = None) -> None:
        self._vault = vault
        self._place = (tenant, settings.name, settings.grant.key)
        self._tried = dict(tried or {})

    def __call__(self, path: str) -> str:
        return self._tried[path] if path in self._tried else self._vault.get(*self._place, path)

    def tried(self, path: str) -> str:
        """"" when what is stored counts."""
        return self._tried.get(path, "")

    def settle(self) -> None:
        self._tried = {}


class Dialler:
    def __init__(
        self,
        *,
        egress: Egress,
        vault: Vault,
        audit: AuditLog,
        clock: Clock,
        defects: Defects,
        background: Background,
        templates: Mapping[str, Template],
        broker: Broker | None = None,
    ) -> None:
        """`broker`: for connections whose credential is a person's consent; without one they cannot be used."""
        self.egress = egress
        self._broker = broker
        self.templates = templates
        self._vault = vault
        self._audit = audit
        self._clock = clock
        self._defects = defects
        self._background = background

    def credentials(self, tenant: str, settings: Settings, tried: Mapping[str, str] | None = None) -> Credentials:
        return Credentials(self._vault, tenant, settings, tried)

    def make(self, tenant: str, settings: Settings, secret: Secret) -> Provider:
        """Dials nothing and starts nothing."""
        maker = {"cognee_cloud": self._cognee, "papr_cloud": self._papr, "stdio": self._stdio}.get(settings.transport, self._mcp)
        return maker(tenant, settings, secret)

    def leave(self, client: Provider) -> None:
        """What nobody calls any more is ended while the work goes on."""
        self._background.spawn(client.close())

    def slots(self, settings: Settings) -> Slots:
        """How many calls may be under way there at once."""
        template = self.templates.get(settings.template or "")
        return Slots(template.slots) if template is not None else Slots()

    async def discovered(self, client: Provider) -> Discovery:
        """Raises GatewayError with the codes of docs/operator-api.md."""
        try:
            # On a clock that stands still, a provider that never answers would hold the operator's request for ever.
            with anyio.move_on_after(REAL_TIME_S), Deadline(self._clock, client.discovery_timeout_s):
                return await client.discover()
        except UpstreamFailure as failure:
            raise discovery_error(failure) from failure
        raise GatewayError("provider_unreachable", "the provider did not answer in time", fix="check that it runs", http_status=502)

    def _cognee(self, tenant: str, settings: Settings, secret: Secret) -> Provider:
        return CogneeProvider(lambda: CogneeBridge(self.egress, secret(COGNEE_URL), secret(COGNEE_KEY)), self._defects)

    def _papr(self, tenant: str, settings: Settings, secret: Secret) -> Provider:
        path, url, rules = settings.credential_paths[0], settings.url or DEFAULT_URL, rules_of(self._defects)
        return PaprProvider(lambda: PaprBridge(self.egress, url, (path, secret(path)), rules), rules)

    def _mcp(self, tenant: str, settings: Settings, secret: Secret) -> Provider:
        url = settings.url or ""
        pin = None if settings.protocol_version == "auto" else settings.protocol_version
        access = self._access(tenant, settings, secret)
        upstream = McpUpstream(
            Authorized(self.egress.lines, access) if access is not None else self.egress.lines,
            url,
            lambda: auth_headers(settings.auth, secret),
            self._background,
            pin=pin,
            abilities=abilities(settings.offers),
            call_url=redirected(url, self._defects["bypass-tap"]) if "bypass-tap" in self._defects else None,
        )
        return McpProvider(upstream, url, pin, self._defects, access=access)

    def _access(self, tenant: str, settings: Settings, secret: Secret) -> Access | None:
        """Of a connection whose credential is a person's consent."""
        path = settings.auth.get("path")
        if settings.auth.get("scheme") != "oauth" or path is None or self._broker is None:
            return None
        tried = secret.tried if isinstance(secret, Credentials) else None
        place = Place(tenant, settings.name, settings.grant.key, path)
        return Access(place, self._broker.consents, self._broker.refresher, self._clock, tried)

    def consents(self, tenant: str, settings: Settings) -> int:
        """How often a person has agreed to what a connection does; 0 when nobody has."""
        access = self._access(tenant, settings, self.credentials(tenant, settings))
        held = access.consents.read(access.place) if access is not None else None
        return held.consent.epoch if held is not None else 0

    def _stdio(self, tenant: str, settings: Settings, secret: Secret) -> Provider:
        template = self.templates.get(settings.template or "")
        if template is None:
            raise GatewayError(
                "template_unknown", "there is no such approved command any more", where=settings.template or "template", fix="approve it again"
            )
        pin = None if settings.protocol_version == "auto" else settings.protocol_version
        told = self._teller(tenant, settings)

        def values() -> dict[str, str]:
            return {key: secret(path) for key, path in template.env.items()}

        supervisor = Supervisor(template, values, self._clock, self._defects, told, pin=pin)
        return StdioProvider(supervisor, self._defects)

    def _teller(self, tenant: str, settings: Settings) -> Callable[[str, Mapping[str, Any]], None]:
        def told(event: str, details: Mapping[str, Any]) -> None:
            crashed = details.get("cause") == "crashed"
            fields = {
                "tenant": tenant,
                "actor": "gateway",
                "connection": settings.name,
                "provider": settings.provider,
                "event": event,
                "outcome": "failure" if crashed else "success",
                "decision": "allow",
                "reason": event,
                "details": dict(details),
            }
            try:
                self._audit.append(**cast(AuditFields, fields))
            except GatewayError as error:  # the process has started or ended all the same, and nobody waits for this word
                log.warning("not_recorded", code=error.code, about=event)

        return told


def discovery_error(failure: UpstreamFailure) -> GatewayError:
    """What the operator is told about a discovery that failed."""
    if failure.status in (401, 403):
        return GatewayError(
            "memory_api_key_rejected",
            f"the provider answered {failure.status}",
            where="credentials",
            fix="check the credential",
            http_status=422,
        )
    code = "provider_unreachable" if failure.reason == FETCH_FAILED else "provider_protocol"
    return GatewayError(code, failure.message, where="url", fix="check the address, and that an MCP server answers there", http_status=502)
