"""Operator routes below /tenants: connections, permissions, runs, approvals, audit."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from reference_gateway.approval import Approvals
from reference_gateway.audit import AuditLog, stamp
from reference_gateway.bodies import (
    ApproveBody,
    ConnectionBody,
    EmptyBody,
    PermissionsBody,
    RejectBody,
    ReviewBody,
    RunBody,
    TenantBody,
    invalid,
    parse,
)
from reference_gateway.clock import Clock
from reference_gateway.connection import Connection
from reference_gateway.connections import Connections
from reference_gateway.decisions import Decisions
from reference_gateway.errors import GatewayError
from reference_gateway.ids import Ids
from reference_gateway.operators import asking
from reference_gateway.permission import access
from reference_gateway.review import STATES as REVIEW_STATES
from reference_gateway.runs import Runs
from reference_gateway.store.base import AUDIT_PAGE, Store
from reference_gateway.texts import SAID, unprintable

STATES = ("pending", "executing", "executed", "failed", "rejected", "expired", "cancelled", "unknown")

Handler = Callable[[Request], Awaitable[Response]]

TENANT = "/tenants/{tenant}"
CONNECTION = TENANT + "/connections/{connection}"


class TenantRoutes:
    def __init__(
        self,
        *,
        store: Store,
        audit: AuditLog,
        approvals: Approvals,
        connections: Connections,
        runs: Runs,
        decisions: Decisions,
        clock: Clock,
        ids: Ids,
    ) -> None:
        self._store = store
        self._audit = audit
        self._approvals = approvals
        self._connections = connections
        self._runs = runs
        self._decisions = decisions
        self._clock = clock
        self._ids = ids

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [
            ("POST", "/tenants", self.add_tenant),
            ("POST", TENANT + "/connections", self.create),
            ("GET", CONNECTION, self.read),
            ("DELETE", CONNECTION, self.delete),
            ("POST", CONNECTION + "/refresh", self.refresh),
            ("GET", CONNECTION + "/tools", self.tools),
            ("GET", CONNECTION + "/reviews", self.reviews),
            ("POST", CONNECTION + "/reviews/{review}", self.review),
            ("GET", CONNECTION + "/permissions", self.permissions),
            ("PUT", CONNECTION + "/permissions", self.set_permissions),
            ("GET", CONNECTION + "/access", self.access),
            ("POST", CONNECTION + "/revoke", self.revoke),
            ("POST", TENANT + "/runs", self.create_run),
            ("POST", TENANT + "/runs/{run}/end", self.end_run),
            ("GET", TENANT + "/approvals", self.approvals),
            ("GET", TENANT + "/approvals/{approval}", self.approval),
            ("POST", TENANT + "/approvals/{approval}/approve", self.approve),
            ("POST", TENANT + "/approvals/{approval}/reject", self.reject),
            ("GET", TENANT + "/audit", self.audit),
        ]

    def now(self) -> str:
        return stamp(self._clock.now())

    def tenant_of(self, request: Request) -> str:
        """The front of every route below a tenant: what its path names is text that a store can look for."""
        for what, name in request.path_params.items():
            if unprintable(name):
                raise invalid(SAID, what, "nothing has such a name")
        tenant: str = request.path_params["tenant"]
        if not self._store.tenant_exists(tenant):
            raise GatewayError("tenant_unknown", "there is no such tenant", where=tenant[:100], fix="create it with POST /tenants", http_status=404)
        return tenant

    def connection_of(self, request: Request) -> Connection:
        return self._connections.get(self.tenant_of(request), request.path_params["connection"])

    # tenants and connections

    async def add_tenant(self, request: Request) -> Response:
        body = parse(TenantBody, await request.body())
        tenant = body.tenant or self._ids.new("t")
        self._store.tenant_add(tenant)
        return JSONResponse({"tenant": tenant}, status_code=201)

    async def create(self, request: Request) -> Response:
        tenant = self.tenant_of(request)
        connection = await self._connections.create(tenant, parse(ConnectionBody, await request.body()))
        return JSONResponse(self._connections.public(connection), status_code=201)

    async def read(self, request: Request) -> Response:
        return JSONResponse(self._connections.public(self.connection_of(request)))

    async def delete(self, request: Request) -> Response:
        await self._connections.delete(self.connection_of(request))
        return Response(status_code=204)

    async def refresh(self, request: Request) -> Response:
        connection = self.connection_of(request)
        parse(EmptyBody, await request.body())
        found, changes = await self._connections.refresh(connection)
        return JSONResponse(
            {
                "discovered": len(found.tools),
                "pages": found.pages,
                "complete": True,
                "added": list(changes.added),
                "changed": list(changes.changed),
                "removed": list(changes.removed),
                "dropped": [{"reason": reason, "count": count} for reason, count in sorted(found.dropped.items())],
                "quarantined": changes.quarantined,
            }
        )

    async def tools(self, request: Request) -> Response:
        connection = self.connection_of(request)
        catalog = connection.catalog
        server = {key: catalog.server.get(key) for key in ("name", "version")}
        return JSONResponse(
            {
                "tools": [connection.public_tool(tool) for tool in catalog.tools.values()],
                "complete": True,
                "pages": catalog.pages,
                "server": server,
                "protocol_version": catalog.protocol_version,
                "instructions": catalog.instructions,
            }
        )

    async def reviews(self, request: Request) -> Response:
        connection = self.connection_of(request)
        state = query_of(request, "state").get("state")
        if state is not None and state not in REVIEW_STATES:
            raise invalid("there is no such state", "state", f"use one of: {', '.join(REVIEW_STATES)}")
        return JSONResponse({"reviews": [each.doc() for each in connection.reviews if state in (None, each.state)]})

    async def review(self, request: Request) -> Response:
        connection = self.connection_of(request)
        body = parse(ReviewBody, await request.body())
        done = self._connections.review(connection, request.path_params["review"], body.decision, by=asking().stands_for(body.by), reason=body.reason)
        return JSONResponse({"review": done.doc()})

    async def permissions(self, request: Request) -> Response:
        return JSONResponse({"permissions": self.connection_of(request).permissions()})

    async def set_permissions(self, request: Request) -> Response:
        connection = self.connection_of(request)
        self._connections.set_words(connection, parse(PermissionsBody, await request.body()).permissions)
        return JSONResponse({"permissions": connection.permissions()})

    async def access(self, request: Request) -> Response:
        connection = self.connection_of(request)
        return JSONResponse(access(connection.catalog, connection.words))

    async def revoke(self, request: Request) -> Response:
        connection = self.connection_of(request)
        parse(EmptyBody, await request.body())
        self._connections.revoke(connection)
        return JSONResponse({"connection": connection.name, "grant": connection.settings.grant.document(), "revoked": True})

    # runs

    async def create_run(self, request: Request) -> Response:
        tenant = self.tenant_of(request)
        body = parse(RunBody, await request.body())
        for name in body.connections:
            self._connections.get(tenant, name)
        run, token = self._runs.create(
            tenant,
            body.connections,
            task=body.task,
            agent=body.agent,
            subject=body.subject,
            mode=body.mode,
            ttl_s=body.ttl_s,
            waiting=body.waiting,
            takes_task=body.takes_task,
            place=body.place,
        )
        return JSONResponse({"run": run.run, "token": token, "expires_at": run.expires_at}, status_code=201)

    async def end_run(self, request: Request) -> Response:
        tenant = self.tenant_of(request)
        parse(EmptyBody, await request.body())
        run = self._runs.end(tenant, request.path_params["run"])
        return JSONResponse({"run": run.run, "state": run.state})

    # approvals

    async def approvals(self, request: Request) -> Response:
        tenant = self.tenant_of(request)
        query = query_of(request, "run", "state")
        state = query.get("state")
        if state is not None and state not in STATES:
            raise invalid("there is no such state", "state", f"use one of: {', '.join(STATES)}")
        found = self._approvals.of(tenant, run=query.get("run"), state=state)
        return JSONResponse({"approvals": [approval.public() for approval in found]})

    async def approval(self, request: Request) -> Response:
        tenant = self.tenant_of(request)
        return JSONResponse(self._approvals.get(tenant, request.path_params["approval"]).public())

    async def approve(self, request: Request) -> Response:
        tenant = self.tenant_of(request)
        body = parse(ApproveBody, await request.body())
        approval, error = await self._decisions.approve(tenant, request.path_params["approval"], asking().stands_for(body.by))
        return JSONResponse({"approval": approval.public(), "result": approval.result, "error": error})

    async def reject(self, request: Request) -> Response:
        tenant = self.tenant_of(request)
        body = parse(RejectBody, await request.body())
        approval = self._decisions.reject(tenant, request.path_params["approval"], asking().stands_for(body.by), body.reason)
        return JSONResponse({"approval": approval.public()})

    # audit

    async def audit(self, request: Request) -> Response:
        tenant = self.tenant_of(request)
        query = query_of(request, "run", "after", "limit")
        after = whole_number(query, "after", 0, 2**62)
        limit = whole_number(query, "limit", AUDIT_PAGE, AUDIT_PAGE)
        records = self._audit.read(tenant, run=query.get("run"), after=after, limit=limit)
        seq, digest = self._audit.head()
        return JSONResponse({"records": records, "head": {"seq": seq, "hash": digest}})


def query_of(request: Request, *known: str) -> dict[str, str]:
    """Each parameter once, and none that is not known."""
    found: dict[str, Any] = {}
    for key, value in request.query_params.multi_items():
        if key not in known:
            raise GatewayError("unknown_field", "there is no such parameter", where=key[:100], fix=f"use: {', '.join(known)}", http_status=422)
        if key in found:
            raise invalid("the parameter is given twice", key, "give it once")
        if unprintable(value):
            raise invalid(SAID, key, "nothing has such a name")
        found[key] = value
    return found


def whole_number(query: dict[str, str], name: str, default: int, maximum: int) -> int:
    """Raises GatewayError `invalid_field`; what is above `maximum` is `maximum`."""
    text = query.get(name)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise invalid("not a whole number", name, "give a number from 0 up")
    return min(int(text), maximum)
