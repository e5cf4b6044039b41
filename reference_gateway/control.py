"""The operator API (docs/operator-api.md): its door, its errors, and the routes about the gateway as a whole.

Routes about tenants, connections, runs and approvals are in `control_tenants.py`.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from reference_gateway import __version__
from reference_gateway.arriving import arriving
from reference_gateway.audit import AuditLog
from reference_gateway.bodies import AdvanceBody, EmptyBody, parse
from reference_gateway.clock import Clock, TestClock
from reference_gateway.connections import Connections
from reference_gateway.control_access import AccessRoutes
from reference_gateway.control_tenants import TenantRoutes
from reference_gateway.defects import Defects
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.log import logger
from reference_gateway.operators import OWNER, Operator, Operators, enter
from reference_gateway.store.base import Store

PREFIX = "/operator/v1"
MAX_BODY = 1024 * 1024

Handler = Callable[[Request], Awaitable[Response]]

log = logger("control")


class Control:
    """`stop` ends the process; it is called after the answer to POST /shutdown has been sent."""

    def __init__(
        self,
        *,
        token: str,
        tenants: TenantRoutes,
        access: AccessRoutes,
        operators: Operators,
        connections: Connections,
        store: Store,
        audit: AuditLog,
        clock: Clock,
        egress: Egress,
        defects: Defects,
        stop: Callable[[], None],
        more: Sequence[list[tuple[str, str, Handler]]] = (),
    ) -> None:
        self._token = token
        self._tenants = tenants
        self._access = access
        self._operators = operators
        self._connections = connections
        self._store = store
        self._audit = audit
        self._clock = clock
        self._egress = egress
        self._defects = defects
        self._stop = stop
        self._more = more

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Method, path below the prefix, handler: all there are."""
        own: list[tuple[str, str, Handler]] = [
            ("GET", "/health", self.health),
            ("POST", "/clock/advance", self.advance),
            ("POST", "/shutdown", self.shutdown),
        ]
        return [*own, *self._tenants.routes(), *self._access.routes(), *(each for some in self._more for each in some)]

    def app(self) -> ASGIApp:
        routes = [Route(PREFIX + path, handler, methods=[method]) for method, path, handler in self.routes()]
        handlers: dict[Any, Any] = {GatewayError: _refused, HTTPException: _http_error, Exception: _crashed, ClientDisconnect: _gone}
        return _Door(
            Starlette(routes=routes, exception_handlers=handlers), self._token, self._operators, self._connections, self._clock, self._defects
        )

    async def health(self, request: Request) -> Response:
        connections = {f"{each.tenant}/{each.name}": {"status": each.status, "health": each.health} for each in self._connections.every()}
        return JSONResponse(
            {
                "status": "ok" if self._audit.state == "ok" else "degraded",
                "version": __version__,
                "store": {"kind": self._store.kind, "sqlite_version": self._store.version, "state": self._audit.state},
                "clock": "test" if self._clock.is_test else "system",
                "development": self._egress.development(),
                "connections": connections,
            }
        )

    async def advance(self, request: Request) -> Response:
        body = parse(AdvanceBody, await request.body())
        if not isinstance(self._clock, TestClock):
            raise GatewayError("clock_not_test", "time passes by itself here", where="clock", fix="start with --test-clock", http_status=409)
        await self._clock.advance(body.seconds)
        return JSONResponse({"now": self._tenants.now()})

    async def shutdown(self, request: Request) -> Response:
        parse(EmptyBody, await request.body())
        self._stop()
        return JSONResponse({"status": "stopping"}, status_code=202)


class _Door:
    """Nothing behind it is reached without a token for it, and no body is larger than it may be."""

    def __init__(self, app: ASGIApp, token: str, operators: Operators, connections: Connections, clock: Clock, defects: Defects) -> None:
        self._app = app
        self._token = token.encode()
        self._operators = operators
        self._connections = connections
        self._clock = clock
        self._defects = defects

    def _who(self, authorization: bytes) -> Operator | None:
        scheme, _, token = authorization.partition(b" ")
        if scheme.lower() != b"bearer" or not token.strip():
            return None
        return OWNER if hmac.compare_digest(token.strip(), self._token) else self._operators.by_token(token.strip().decode("latin-1"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = scope["headers"]
        given = [value for key, value in headers if key == b"authorization"]
        try:
            who = self._who(given[0]) if len(given) == 1 else None
            if who is not None:
                self._connections.current()
        except GatewayError as error:  # the store, which knows the operators, is gone
            await _error(error.http_status, error.code, error.message, "store", error.fix)(scope, receive, send)
            return
        if who is None:
            answer = _error(401, "operator_unauthorized", "the operator's token is required", "Authorization", "send it as a bearer token")
            answer.headers["WWW-Authenticate"] = "Bearer"
            await answer(scope, receive, send)
            return
        if (forbidden := _objection(who, scope["method"], scope["path"].removeprefix(PREFIX), self._defects)) is not None:
            await forbidden(scope, receive, send)
            return
        enter(who)
        length = next((value for key, value in headers if key == b"content-length"), b"0")
        if not length.isdigit() or int(length[:20]) > MAX_BODY or any(key == b"transfer-encoding" for key, _ in headers):
            await _error(413, "invalid_field", f"the body is larger than {MAX_BODY} bytes, or its size is not said", "body", "send less")(
                scope, receive, send
            )
            return
        await self._app(scope, arriving(receive, self._clock, lambda: self._still_theirs(given[0])), send)

    def _still_theirs(self, authorization: bytes) -> None:
        """Raises GatewayError."""
        if self._who(authorization) is None:
            what, fix = "the token was taken away while the request arrived", "get another one"
            raise GatewayError("operator_unauthorized", what, where="Authorization", fix=fix, http_status=401)


def _objection(who: Operator, method: str, path: str, defects: Defects) -> JSONResponse | None:
    """Why an operator of one tenant may not do this. Of other tenants they do not even learn whether they exist."""
    if who.tenant is None:
        return None
    _, first, *rest = path.split("/")
    if first == "tenants" and rest and rest[0] != who.tenant and "operator-everywhere" not in defects:
        return _error(404, "tenant_unknown", "there is no such tenant", rest[0][:100], "use your own")
    if first != "tenants" or not rest or rest[1:2] == ["operators"]:
        return _error(403, "operator_forbidden", "that is for the owner of the gateway", path[:100], "ask them")
    if who.role == "viewer" and method not in ("GET", "HEAD") and "viewer-decides" not in defects:
        return _error(403, "operator_forbidden", "a viewer changes nothing", path[:100], "ask an operator")
    return None


def _error(status: int, code: str, message: str, where: str, fix: str, **more: Any) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": message, "where": where, "fix": fix, **more}}, status_code=status)


async def _refused(request: Request, error: GatewayError) -> Response:
    if error.http_status >= 500:
        log.warning("refused", code=error.code, path=request.url.path)
    more = {"state": error.state} if hasattr(error, "state") else {}
    return _error(error.http_status, error.code, error.message, error.where, error.fix, **more)


async def _http_error(request: Request, error: HTTPException) -> Response:
    code = {404: "route_unknown", 405: "method_not_allowed"}.get(error.status_code, "http_error")
    return _error(error.status_code, code, str(error.detail), request.url.path, "see docs/operator-api.md")


async def _crashed(request: Request, error: Exception) -> Response:
    """A defect of ours. Its text may hold anything, so only its kind is told; the log has the rest."""
    return _error(500, "internal_error", f"the gateway failed ({type(error).__name__})", request.url.path, "report it, with the gateway's log")


async def _gone(request: Request, error: ClientDisconnect) -> Response:
    return _error(400, "client_gone", "the caller left before its body was read", request.url.path, "send it again")
