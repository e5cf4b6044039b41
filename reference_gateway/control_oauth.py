"""Operator routes of OAuth: what the browser brought back, how a connection stands, a client registered by hand, our own metadata."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from reference_gateway.authorizing import DOCUMENT_PATH, Authorizing, document_url, redirect_url
from reference_gateway.bodies import Body, Name, parse
from reference_gateway.connections import Connections
from reference_gateway.control_tenants import CONNECTION, TENANT, Handler, TenantRoutes
from reference_gateway.oauth.broker import Answer
from reference_gateway.oauth.pending import Asker
from reference_gateway.oauth.registration import Configured, metadata_document
from reference_gateway.operators import asking

Text = Annotated[str, Field(max_length=8192)]


class CallbackBody(Body):
    """The query with which the browser came back, and where that was."""

    state: Text
    redirect_uri: Text
    code: Text | None = None
    iss: Text | None = None
    error: Text | None = None
    error_description: Text | None = None
    error_uri: Text | None = None
    session: Name | None = None


class ClientBody(Body):
    id: Annotated[str, Field(min_length=1, max_length=4096, pattern=r"^[\x20-\x7e]+$")]
    secret: Annotated[str, Field(min_length=1, max_length=16_384, pattern=r"^[\x20-\x7e]+$")] | None = None


class OAuthRoutes:
    def __init__(self, tenants: TenantRoutes, connections: Connections, authorizing: Authorizing) -> None:
        self._tenants = tenants
        self._connections = connections
        self._authorizing = authorizing

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [
            ("POST", TENANT + "/oauth/callback", self.callback),
            ("GET", CONNECTION + "/oauth", self.status),
            ("PUT", CONNECTION + "/oauth/client", self.configure),
        ]

    async def callback(self, request: Request) -> Response:
        tenant = self._tenants.tenant_of(request)
        body = parse(CallbackBody, await request.body())
        who = asking().name or "operator"
        answer = Answer(body.state, body.redirect_uri, body.code, body.iss, body.error, body.error_description)
        name = await self._authorizing.complete(tenant, Asker(who, body.session or who), answer)
        return JSONResponse({"connection": name, **self._authorizing.shown(self._connections.get(tenant, name))})

    async def status(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        return JSONResponse({"connection": connection.name, **self._authorizing.shown(connection)})

    async def configure(self, request: Request) -> Response:
        connection = self._tenants.connection_of(request)
        body = parse(ClientBody, await request.body())
        self._authorizing.configure(connection.tenant, connection.name, Configured(body.id, body.secret))
        return JSONResponse({"connection": connection.name, "client": "configured"})


def metadata_route(public_url: str | None) -> list[Route]:
    """Our client ID metadata document, for whoever asks: it is public by its nature. [] where others could not reach it."""
    url, redirect_uri = document_url(public_url), redirect_url(public_url)
    if url is None or redirect_uri is None:
        return []

    async def show(request: Request) -> Response:
        return JSONResponse(metadata_document(url, redirect_uri), headers={"cache-control": "public, max-age=300"})

    return [Route(DOCUMENT_PATH, show, methods=["GET"])]
