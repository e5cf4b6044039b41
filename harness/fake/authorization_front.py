"""A provider's stand-in behind consent: tokens of an authorization server open it, and each account stays the same whatever its token."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from harness.clock import Clock
from harness.fake.authorization import RESOURCE_PATH, AuthorizationServer, Behaviour
from harness.fake.kit import bearer, serve_app
from harness.fake.kit_store import Ids


@dataclass(frozen=True, slots=True)
class Consenting:
    """What stands behind one connection: the authorization server, and `base_url`, where the provider itself answers."""

    server: AuthorizationServer
    base_url: str


class Front:
    """ASGI: passes on what shows a token that holds, under the account's own credential, and turns away everything else."""

    def __init__(self, inner: ASGIApp, credential: str, server: AuthorizationServer) -> None:
        self._inner = inner
        self._credential = credential
        self._server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        headers = Headers(scope=scope)
        grant = self._server.grant_of(bearer(headers))
        if grant is None:
            await self._refusal(401, "invalid_token" if "authorization" in headers else "")(scope, receive, send)
            return
        demands = [each for each in self._server.behaviour.demands if each not in grant.scopes]
        body = await _whole(receive) if demands else b""
        if demands and _method(body) == "tools/call":
            await self._refusal(403, "insufficient_scope", " ".join(self._server.behaviour.demands))(scope, receive, send)
            return
        own = MutableHeaders(raw=list(scope["headers"]))
        own["authorization"] = f"Bearer {self._credential}"
        await self._inner({**scope, "headers": own.raw}, _again(body, receive) if demands else receive, send)

    def _refusal(self, status: int, error: str, scope: str = "") -> Response:
        if self._server.behaviour.challenge is not None:
            header = self._server.behaviour.challenge
        else:
            parts = [f'resource_metadata="{self._server.issuer}{RESOURCE_PATH}"']
            parts += [f'error="{error}"'] if error else []
            parts += [f'scope="{scope}"'] if scope else []
            header = "Bearer " + ", ".join(parts)
        return JSONResponse({"error": error or "unauthorized"}, status, {"WWW-Authenticate": header} if header else {})


@asynccontextmanager
async def consenting(app: ASGIApp, credential: str, clock: Clock, behaviour: Behaviour, know: Callable[[str], None]) -> AsyncIterator[Consenting]:
    """Both, served on loopback for as long as the block lasts."""
    server = AuthorizationServer(clock, behaviour, Ids("authorization", credential), know)
    async with AsyncExitStack() as stack:
        server.issuer = await stack.enter_async_context(serve_app(server.app()))
        yield Consenting(server, await stack.enter_async_context(serve_app(_unstarted(Front(app, credential, server)))))


def _unstarted(app: ASGIApp) -> ASGIApp:
    """The provider's own application has been started where it is served for everybody; here its lifespan is not run again."""

    async def served(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            await app(scope, receive, send)
            return
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    return served


async def _whole(receive: Receive) -> bytes:
    body = b""
    while True:
        message = await receive()
        body += bytes(message.get("body", b""))
        if not message.get("more_body"):
            return body


def _again(body: bytes, receive: Receive) -> Receive:
    left = [body]

    async def again() -> Message:
        return {"type": "http.request", "body": left.pop()} if left else await receive()

    return again


def _method(body: bytes) -> str:
    try:
        message = json.loads(body)
    except ValueError:
        return ""
    return str(message.get("method", "")) if isinstance(message, dict) else ""
