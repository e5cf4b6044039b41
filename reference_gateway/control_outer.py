"""Operator routes about the gateway's outer side: a grant's audience, the vault's wrapping key, and scripted names (development)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from reference_gateway.audit import AuditFields, AuditLog
from reference_gateway.bodies import AudienceBody, EmptyBody, NamesBody, parse
from reference_gateway.connections import Connections
from reference_gateway.control_tenants import CONNECTION, Handler, TenantRoutes
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.operators import actor
from reference_gateway.vault import KeySource, Vault


class OuterRoutes:
    def __init__(
        self,
        *,
        tenants: TenantRoutes,
        connections: Connections,
        vault: Vault,
        keys: KeySource,
        egress: Egress,
        audit: AuditLog,
    ) -> None:
        self._tenants = tenants
        self._connections = connections
        self._vault = vault
        self._keys = keys
        self._egress = egress
        self._audit = audit

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [
            ("PUT", CONNECTION + "/audience", self.set_audience),
            ("POST", "/vault/rotate", self.rotate),
            ("PUT", "/development/names", self.set_names),
            ("GET", "/development/names", self.names),
        ]

    async def set_audience(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        self._connections.set_audience(connection, parse(AudienceBody, await request.body()).audience)
        return JSONResponse(self._connections.public(connection))

    async def rotate(self, request: Request) -> Response:
        """The file's present content becomes the wrapping key. Every row or none: rows and records are one transaction."""
        parse(EmptyBody, await request.body())
        key = self._keys.next()
        with self._vault.rotating(key) as done:
            for tenant, count in sorted(done.secrets.items()):
                self._audit.append(**_record(tenant, {"secrets": count, "key": done.after, "before": done.before}))
        return JSONResponse({"secrets": sum(done.secrets.values()), "key": done.after, "before": done.before})

    async def set_names(self, request: Request) -> Response:
        lab = self._egress.lab
        body = parse(NamesBody, await request.body())
        if lab is None:
            raise GatewayError("lab_not_open", "names are resolved by the system here", where="names", fix="start with --lab", http_status=409)
        lab.script(body.names, {(each.address, each.port): ("127.0.0.1", each.to) for each in body.leads})
        return await self.names(request)

    async def names(self, request: Request) -> Response:
        return JSONResponse({"asked": self._egress.lab.asked if self._egress.lab is not None else {}})


def _record(tenant: str, details: dict[str, Any]) -> AuditFields:
    return {
        "tenant": tenant,
        "actor": actor(),
        "event": "vault_rotated",
        "outcome": "success",
        "decision": "allow",
        "reason": "vault_rotated",
        "details": details,
    }
