"""Operator routes of the gallery, of setups, and of what becomes of a connection afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from reference_gateway.bodies import (
    AuthorizeBody,
    CredentialsBody,
    DeliveryBody,
    EmptyBody,
    ExperimentalBody,
    IdentityBody,
    InstructionsBody,
    ManagedBody,
    SetupBody,
    StateBody,
    ValuesBody,
    parse,
)
from reference_gateway.connection import Connection
from reference_gateway.connections import Connections
from reference_gateway.connectors import CONNECTORS, connector, gallery_tag
from reference_gateway.control_tenants import CONNECTION, TENANT, Handler, TenantRoutes
from reference_gateway.defects import Defects
from reference_gateway.delivery import Deliveries
from reference_gateway.experiments import Experiments
from reference_gateway.health import Checks
from reference_gateway.lifecycle import Lifecycle
from reference_gateway.runs import Runs
from reference_gateway.setup.setups import Setups
from reference_gateway.stdio.templates import Template

SETUP = TENANT + "/setups/{connection}"


class SetupRoutes:
    def __init__(
        self,
        *,
        tenants: TenantRoutes,
        connections: Connections,
        experiments: Experiments,
        setups: Setups,
        lifecycle: Lifecycle,
        checks: Checks,
        deliveries: Deliveries,
        runs: Runs,
        templates: Mapping[str, Template],
        defects: Defects,
    ) -> None:
        self._tenants = tenants
        self._connections = connections
        self._experiments = experiments
        self._setups = setups
        self._lifecycle = lifecycle
        self._checks = checks
        self._deliveries = deliveries
        self._runs = runs
        self._templates = templates
        self._defects = defects

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [
            ("GET", TENANT + "/experimental", self.experimental),
            ("PUT", TENANT + "/experimental", self.set_experimental),
            ("GET", TENANT + "/gallery", self.gallery),
            ("GET", TENANT + "/gallery/{connector}", self.connector),
            ("GET", TENANT + "/templates", self.templates),
            ("POST", TENANT + "/setups", self.begin),
            ("GET", SETUP, self.setup),
            ("POST", SETUP + "/identity", self.identity),
            ("POST", SETUP + "/credentials", self.credentials),
            ("POST", SETUP + "/authorize", self.authorize),
            ("POST", CONNECTION + "/state", self.set_state),
            ("POST", CONNECTION + "/reconnect", self.reconnect),
            ("POST", CONNECTION + "/rotate", self.rotate),
            ("POST", CONNECTION + "/check", self.check),
            ("GET", CONNECTION + "/instructions", self.instructions),
            ("PUT", CONNECTION + "/instructions", self.set_instructions),
            ("PUT", CONNECTION + "/managed", self.set_managed),
            ("GET", TENANT + "/runs/{run}/delivery", self.delivery),
            ("POST", TENANT + "/runs/{run}/delivery", self.deliver),
        ]

    # the switch and the gallery

    async def experimental(self, request: Request) -> Response:
        return JSONResponse({"memory_connectors": self._experiments.memory_connectors(self._tenants.tenant_of(request))})

    async def set_experimental(self, request: Request) -> Response:
        tenant = self._tenants.tenant_of(request)
        self._experiments.set(tenant, memory_connectors=parse(ExperimentalBody, await request.body()).memory_connectors)
        return JSONResponse({"memory_connectors": self._experiments.memory_connectors(tenant)})

    async def gallery(self, request: Request) -> Response:
        on = self._experiments.memory_connectors(self._tenants.tenant_of(request))
        if "gallery-ignores-flag" in self._defects:
            on = True
        headers = {"etag": gallery_tag(on=on), "cache-control": "private, no-cache"}
        # With the switch off nothing is "not modified": the copy that somebody kept must go.
        if on and request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        shown = [each.public() for each in CONNECTORS.values()] if on else []
        return JSONResponse({"memory_connectors": on, "connectors": shown}, headers=headers)

    async def connector(self, request: Request) -> Response:
        name = request.path_params["connector"]
        self._experiments.require(self._tenants.tenant_of(request), name)
        return JSONResponse(connector(name).public())

    async def templates(self, request: Request) -> Response:
        self._tenants.tenant_of(request)
        return JSONResponse({"templates": [each.public() for each in self._templates.values()]})

    # setups

    def _view(self, connection: Connection, status: int = 200) -> Response:
        return JSONResponse(self._setups.view(connection), status_code=status)

    async def begin(self, request: Request) -> Response:
        tenant = self._tenants.tenant_of(request)
        return self._view(self._setups.begin(tenant, parse(SetupBody, await request.body())), 201)

    async def setup(self, request: Request) -> Response:
        return self._view(self._tenants.connection_of(request))

    async def identity(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        self._setups.identify(connection, parse(IdentityBody, await request.body()).subject)
        return self._view(connection)

    async def credentials(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        body = parse(CredentialsBody, await request.body())
        await self._setups.submit(connection, body.values, body.endpoint)
        return self._view(connection)

    async def authorize(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        body = parse(AuthorizeBody, await request.body())
        await self._setups.authorize(connection, body.session, body.redirect_uri)
        return self._view(connection)

    # afterwards

    async def set_state(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        await self._lifecycle.set_state(connection, parse(StateBody, await request.body()).state)
        return JSONResponse(self._connections.public(connection))

    async def reconnect(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        parse(EmptyBody, await request.body())
        await self._lifecycle.reconnect(connection)
        return JSONResponse(self._connections.public(connection))

    async def rotate(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        await self._lifecycle.rotate(connection, parse(ValuesBody, await request.body()).values)
        return JSONResponse(self._connections.public(connection))

    async def check(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        parse(EmptyBody, await request.body())
        return JSONResponse(await self._checks.one(connection))

    async def instructions(self, request: Request) -> Response:
        return JSONResponse(_instructions(self._tenants.connection_of(request)))

    async def set_instructions(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        body = parse(InstructionsBody, await request.body())
        self._lifecycle.instruct(connection, body.model_dump(exclude_unset=True))
        return JSONResponse(_instructions(connection))

    async def set_managed(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        self._lifecycle.manage(connection, parse(ManagedBody, await request.body()).managed)
        return JSONResponse(self._connections.public(connection))

    # delivery

    async def delivery(self, request: Request) -> Response:
        run = self._runs.get(self._tenants.tenant_of(request), request.path_params["run"])
        return JSONResponse(self._deliveries.state(run))

    async def deliver(self, request: Request) -> Response:
        run = self._runs.get(self._tenants.tenant_of(request), request.path_params["run"])
        body = parse(DeliveryBody, await request.body())
        return JSONResponse(self._deliveries.write(run, body.form, body.token, _base(request)))


def _instructions(connection: Connection) -> dict[str, Any]:
    return {"text": connection.text, "enabled": connection.instructions_on, "edited": connection.instructions is not None}


def _base(request: Request) -> str:
    """Where this very request came in, by the socket's own word: a Host header says whatever its sender likes."""
    host, port = request.scope["server"]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
