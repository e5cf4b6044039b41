"""The console put together: its routes, and nothing that does not go through the operator API."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.types import ASGIApp

from reference_gateway.clock import Clock
from reference_gateway.console.api import OperatorApi
from reference_gateway.console.connection_pages import ConnectionPages
from reference_gateway.console.decision_pages import DecisionPages
from reference_gateway.console.sessions import Sessions
from reference_gateway.console.setup_pages import SetupPages
from reference_gateway.console.sign_in import SignIn
from reference_gateway.console.web import BASE, CAME_BACK, Page, Web
from reference_gateway.ids import Ids


def console(operator_api: ASGIApp, clock: Clock, ids: Ids, public_url: str | None = None) -> ASGIApp:
    """Serves everything below /console. `public_url`: see `Web`."""
    web = Web(Sessions(clock, ids), OperatorApi(operator_api), public_url)
    entry, connections, setups, decisions = SignIn(web), ConnectionPages(), SetupPages(), DecisionPages()
    pages: list[tuple[str, str, Page]] = [
        ("POST", "/sign-out", entry.leave),
        ("GET", "/", connections.index),
        ("GET", "/gallery", setups.gallery),
        ("POST", "/setups", setups.start),
        ("GET", "/setups/{connection}", setups.steps),
        ("POST", "/setups/{connection}/identity", setups.identity),
        ("POST", "/setups/{connection}/credentials", setups.credentials),
        ("POST", "/setups/{connection}/authorize", setups.authorize),
        ("POST", "/setups/{connection}/discard", setups.discard),
        ("GET", "/connections/{connection}", connections.one),
        ("POST", "/connections/{connection}/permissions", connections.permit),
        ("POST", "/connections/{connection}/state", connections.state),
        ("POST", "/connections/{connection}/deed", connections.deed),
        ("POST", "/connections/{connection}/rotate", connections.rotate),
        ("GET", "/reviews", connections.reviews),
        ("POST", "/reviews/{connection}/{review}", connections.decide),
        ("GET", "/approvals", decisions.approvals),
        ("POST", "/approvals/{approval}/approve", decisions.approve),
        ("POST", "/approvals/{approval}/reject", decisions.reject),
        ("GET", "/audit", decisions.audit),
        ("GET", "/runs", decisions.runs),
        ("POST", "/runs/{run}/end", decisions.end_run),
    ]
    routes = [Route(BASE + path, web.page(page), methods=[method]) for method, path, page in pages]
    routes += [
        Route(BASE + CAME_BACK, web.returning(setups.came_back), methods=["GET"]),
        Route(f"{BASE}/sign-in", entry.page, methods=["GET"]),
        Route(f"{BASE}/sign-in", entry.enter, methods=["POST"]),
        Route(f"{BASE}/static/{{name}}", web.static, methods=["GET"]),
    ]
    return Starlette(routes=routes)
