"""Operator routes for people who look around: who am I, which connections are there, and what an approval brought."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from reference_gateway.approval import Approvals
from reference_gateway.connections import Connections
from reference_gateway.control_tenants import TENANT, Handler, TenantRoutes
from reference_gateway.operators import asking


class ListRoutes:
    def __init__(self, *, tenants: TenantRoutes, connections: Connections, approvals: Approvals) -> None:
        self._tenants = tenants
        self._approvals = approvals
        self._connections = connections

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [
            ("GET", TENANT + "/me", self.me),
            ("GET", TENANT + "/connections", self.connections),
            ("GET", TENANT + "/approvals/{approval}/outcome", self.outcome),
        ]

    async def me(self, request: Request) -> Response:
        tenant = self._tenants.tenant_of(request)
        operator = asking()
        return JSONResponse({"tenant": tenant, "operator": operator.name, "role": operator.role})

    async def connections(self, request: Request) -> Response:
        tenant = self._tenants.tenant_of(request)
        return JSONResponse({"connections": [self._connections.public(each) for each in self._connections.every(tenant)]})

    async def outcome(self, request: Request) -> Response:
        approval = self._approvals.get(self._tenants.tenant_of(request), request.path_params["approval"])
        return JSONResponse({"approval": approval.public(), "result": approval.result, "error": approval.error})
