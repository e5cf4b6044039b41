"""Operator routes about who may do what: policies, a connection's agents, a run's mode, and the tenant's operators."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from reference_gateway.bodies import AgentsBody, ModeBody, OffersBody, OperatorBody, PoliciesBody, parse
from reference_gateway.connections import Connections
from reference_gateway.control_tenants import CONNECTION, TENANT, Handler, TenantRoutes
from reference_gateway.offering import set_offers
from reference_gateway.operators import Operators
from reference_gateway.policy import Policies
from reference_gateway.runs import Runs


class AccessRoutes:
    def __init__(self, *, tenants: TenantRoutes, connections: Connections, policies: Policies, operators: Operators, runs: Runs) -> None:
        self._tenants = tenants
        self._connections = connections
        self._policies = policies
        self._operators = operators
        self._runs = runs

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [
            ("GET", TENANT + "/policies", self.policies),
            ("PUT", TENANT + "/policies", self.set_policies),
            ("PUT", CONNECTION + "/agents", self.set_agents),
            ("PUT", CONNECTION + "/offers", self.set_offers),
            ("GET", TENANT + "/runs/{run}", self.run),
            ("POST", TENANT + "/runs/{run}/mode", self.set_mode),
            ("GET", TENANT + "/operators", self.operators),
            ("POST", TENANT + "/operators", self.add_operator),
            ("DELETE", TENANT + "/operators/{operator}", self.remove_operator),
        ]

    async def policies(self, request: Request) -> Response:
        return JSONResponse({"policies": self._policies.of(self._tenants.tenant_of(request))})

    async def set_policies(self, request: Request) -> Response:
        tenant = self._tenants.tenant_of(request)
        body = parse(PoliciesBody, await request.body())
        return JSONResponse({"policies": self._policies.put(tenant, body, self._connections.every(tenant))})

    async def set_agents(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        self._connections.set_agents(connection, parse(AgentsBody, await request.body()).agents)
        return JSONResponse(self._connections.public(connection))

    async def set_offers(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        await set_offers(self._connections, connection, parse(OffersBody, await request.body()).offers)
        return JSONResponse(self._connections.public(connection))

    async def run(self, request: Request) -> Response:
        return JSONResponse(self._runs.get(self._tenants.tenant_of(request), request.path_params["run"]).public())

    async def set_mode(self, request: Request) -> Response:
        tenant = self._tenants.tenant_of(request)
        body = parse(ModeBody, await request.body())
        return JSONResponse(self._runs.set_mode(tenant, request.path_params["run"], body.mode).public())

    async def operators(self, request: Request) -> Response:
        return JSONResponse({"operators": self._operators.of(self._tenants.tenant_of(request))})

    async def add_operator(self, request: Request) -> Response:
        tenant = self._tenants.tenant_of(request)
        body = parse(OperatorBody, await request.body())
        made, token = self._operators.add(tenant, body.operator, body.role)
        return JSONResponse({"operator": made.name, "role": made.role, "token": token}, status_code=201)

    async def remove_operator(self, request: Request) -> Response:
        self._operators.remove(self._tenants.tenant_of(request), request.path_params["operator"])
        return Response(status_code=204)
