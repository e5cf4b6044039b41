"""The short way of a tools/call: read, judged, sent and answered without the SDK's layers, which cost more than all the rest together.

Only what is plain goes this way: one complete JSON-RPC request whose headers say what its body says, that asks for no progress and
concerns a connection that asks nothing back. Everything else, and everything that is wrong, is handed on untouched to the SDK's
application, which then gives the protocol's own answer. Both ways end in the same pipeline.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS, classify_inbound_request, decode_header_value
from mcp.shared.inbound import InboundModernRoute as Modern
from mcp_types import SERVER_INFO_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reference_gateway.answering import recorded, unwrapped
from reference_gateway.cancelling import Cancellations
from reference_gateway.clock import Clock
from reference_gateway.connections import Connections
from reference_gateway.packing import packed
from reference_gateway.pipeline import Pipeline
from reference_gateway.runs import Run
from reference_gateway.upstream import Era

Json = dict[str, Any]

CALLER = "gateway.caller"
LOCAL = ("127.0.0.1", "localhost", "[::1]")
MAX_BODY = 4 * 1024 * 1024
MAX_SESSIONS = 8_000
PING_S = 15.0
"""After that long without an answer the response begins, so that nothing on the way takes it for dead."""
LONG_WAY_S = 600.0
"""A session of which the SDK heard nothing for so long goes the long way once: what it believes idle it ends, after half an hour."""

CANCEL = b"notifications/cancelled"
_CANCELLED = {"code": -32800, "message": "Request cancelled"}
_SESSION = b"mcp-session-id"
_KNOWN = {"name", "arguments", "_meta", "requestState"}
_EVENT_HEADERS = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache, no-transform"), (b"x-accel-buffering", b"no")]


@dataclass(slots=True)
class _Session:
    """A session of the handshake era, opened through here."""

    name: str
    run: str
    version: str
    heard: float
    calls: dict[tuple[type, object], anyio.CancelScope] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Request:
    id: str | int
    params: Json
    era: Era
    version: str
    session: _Session | None


@dataclass(slots=True)
class Caller:
    """Whose request it is, in the scope of each: the run as it stands when the request has arrived whole."""

    run: Run


class Shortcut:
    """`inner` is the SDK's application; `server_info` what it stamps on results of 2026-07-28. The caller is in the scope already."""

    def __init__(self, inner: ASGIApp, pipeline: Pipeline, connections: Connections, clock: Clock, server_info: Json, cancels: Cancellations) -> None:
        self._inner = inner
        self._pipeline = pipeline
        self._connections = connections
        self._clock = clock
        self._server_info = server_info
        self._cancels = cancels
        self._sessions: OrderedDict[bytes, _Session] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: dict[bytes, bytes] = dict(scope["headers"])
        if scope["method"] == "POST" and self._plain(scope, headers):
            body, receive = await _whole(receive)
            found = self._read(scope[CALLER].run, headers, body) if body is not None else None
            if isinstance(found, _Request):
                await receive()  # the body, which was read
                await self._answer(scope[CALLER].run, found, receive, send)
                return
            if found is not None:
                await _say(send, 202, None)
                found.cancel()
                return
            if body is not None and _SESSION not in headers:
                send = self._opening(scope[CALLER].run, body, send)
            elif (session := self._sessions.get(headers.get(_SESSION, b""))) is not None:
                session.heard = self._clock.monotonic()
        elif scope["method"] == "DELETE":
            self._sessions.pop(headers.get(_SESSION, b""), None)
        await self._inner(scope, receive, send)

    # what is plain

    def _plain(self, scope: Scope, headers: dict[bytes, bytes]) -> bool:
        """Whether the headers are those of a client with nothing special, each of them once."""
        accept = headers.get(b"accept", b"")
        return (
            len(headers) == len(scope["headers"])
            and b"origin" not in headers
            and headers.get(b"host", b"").decode("latin-1").rpartition(":")[0] in LOCAL
            and headers.get(b"content-type", b"").startswith(b"application/json")
            and b"application/json" in accept
            and b"text/event-stream" in accept
        )

    def _read(self, run: Run, headers: dict[bytes, bytes], body: bytes) -> _Request | anyio.CancelScope | None:
        """A call that may go the short way, or the call that a notification cancels; else None."""
        version = headers.get(b"mcp-protocol-version", b"").decode("latin-1")
        session = None
        if version in MODERN_PROTOCOL_VERSIONS:
            if headers.get(b"mcp-method") != b"tools/call" or _SESSION in headers:
                if CANCEL in body and _SESSION not in headers:
                    self._dropped(run, body)
                return None
        else:
            session = self._sessions.get(headers.get(_SESSION, b""))
            if session is None or session.run != run.run or version not in ("", session.version):
                return None
            if b"tools/call" not in body and CANCEL not in body:
                return None
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            return None
        if session is not None and message.get("method") == "notifications/cancelled" and "id" not in message:
            params = message.get("params")
            cancelled = params.get("requestId") if isinstance(params, dict) else None
            return session.calls.get((type(cancelled), cancelled)) if isinstance(cancelled, (str, int)) else None
        return self._call(run, headers, message, version, session)

    def _dropped(self, run: Run, body: bytes) -> None:
        """At 2026-07-28 the SDK takes a notification and drops it. That one was to cancel something is on record all the same."""
        try:
            message = json.loads(body)
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict) and message.get("method") == CANCEL.decode() and "id" not in message:
            params = message.get("params")
            self._cancels.cancelled(run, None, params.get("requestId") if isinstance(params, dict) else None)

    def _call(self, run: Run, headers: dict[bytes, bytes], message: Json, version: str, session: _Session | None) -> _Request | None:
        number, params = message.get("id"), message.get("params")
        if message.get("method") != "tools/call" or not isinstance(params, dict) or not isinstance(number, (str, int)) or isinstance(number, bool):
            return None
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta", {})
        if not isinstance(name, str) or not isinstance(arguments, (dict, type(None))) or not isinstance(meta, dict):
            return None
        if "progressToken" in meta or "task" in params or not set(params) <= _KNOWN:
            return None
        if session is None:
            told = {"mcp-protocol-version": version, "mcp-method": "tools/call", "mcp-name": headers.get(b"mcp-name", b"").decode("latin-1")}
            if not isinstance(classify_inbound_request(message, headers=told), Modern) or decode_header_value(told["mcp-name"]) != name:
                return None
            if not isinstance(meta.get("io.modelcontextprotocol/clientCapabilities"), dict):
                return None
        elif self._clock.monotonic() - session.heard > LONG_WAY_S or (type(number), number) in session.calls:
            return None
        route = self._connections.route(run, name)
        offers = route.connection is not None and route.connection.settings.offers
        if offers or (route.tool is not None and route.tool.mirrored):
            return None
        return _Request(number, params, "modern" if session is None else "legacy", version or (session.version if session else ""), session)

    def _opening(self, run: Run, body: bytes, send: Send) -> Send:
        """Notes the session that an initialize request opens."""

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                opened = next((value for name, value in message["headers"] if name.lower() == _SESSION), None)
                if opened is not None:
                    self._note(opened, run, body)
            await send(message)

        return watched

    def _note(self, opened: bytes, run: Run, body: bytes) -> None:
        asked = json.loads(body)["params"]["protocolVersion"]
        version = asked if asked in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        self._sessions[opened] = _Session(opened.decode("latin-1"), run.run, version, self._clock.monotonic())
        while len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)

    # the call

    async def _answer(self, run: Run, request: _Request, receive: Receive, send: Send) -> None:
        scope, params = anyio.CancelScope(), request.params
        session = request.session
        if session is None:
            leaving = asyncio.ensure_future(_left(receive, scope))
        else:
            session.calls[type(request.id), request.id] = scope
            self._cancels.begun(session.name, request.id)
        out = _Out(send, request)
        try:
            with scope:
                message = await self._outcome(run, request, params)
                await out.end(message)
            if scope.cancelled_caught and session is not None:
                await out.end({"error": _CANCELLED})
        finally:
            out.close()
            if session is None:
                leaving.cancel()
            else:
                del session.calls[type(request.id), request.id]
                self._cancels.ended(session.name, request.id)

    async def _outcome(self, run: Run, request: _Request, params: Json) -> Json:
        state = params.get("requestState")
        call = self._pipeline.new_call(run, params["name"], params.get("arguments") or {}, params.get("_meta") or {}, request.era, None)
        call.request_state = state if isinstance(state, str) else None
        try:
            with recorded(call.invocation):
                result = unwrapped(await self._pipeline.run(call))
        except MCPError as error:
            return {"error": error.error.model_dump(mode="json", exclude_none=True)}
        if request.era == "modern":
            meta = {**(result.get("_meta") or {}), SERVER_INFO_META_KEY: self._server_info}
            result = {"resultType": "complete", **result, "_meta": meta}
        return {"result": result}


class _Out:
    """The answer to one call: JSON when it comes soon, else a stream that is kept alive until it does."""

    def __init__(self, send: Send, request: _Request) -> None:
        self._send = send
        self._request = request
        self._begun = False
        self._pinging: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(PING_S, self._begin)

    def _begin(self) -> None:
        self._pinging = asyncio.ensure_future(self._ping())

    async def _ping(self) -> None:
        self._begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": _EVENT_HEADERS})
        while True:
            await self._send({"type": "http.response.body", "body": b": ping\r\n\r\n", "more_body": True})
            await asyncio.sleep(PING_S)

    async def end(self, message: Json) -> None:
        """`message` is `{"result"}` or `{"error"}`."""
        self.close()
        body = packed({"jsonrpc": "2.0", "id": self._request.id, **message})
        if self._begun:
            await self._send({"type": "http.response.body", "body": b"event: message\r\ndata: " + body + b"\r\n\r\n"})
            return
        modern_error = "error" in message and self._request.era == "modern"
        await _say(self._send, ERROR_CODE_HTTP_STATUS.get(message["error"]["code"], 200) if modern_error else 200, body)

    def close(self) -> None:
        self._timer.cancel()
        if self._pinging is not None:
            self._pinging.cancel()


async def _say(send: Send, status: int, body: bytes | None) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body or b"")).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body or b""})


async def _left(receive: Receive, scope: anyio.CancelScope) -> None:
    """At 2026-07-28 an agent cancels by closing the response."""
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _whole(receive: Receive) -> tuple[bytes | None, Receive]:
    """The body, or None for one that is too large or broke off; and what gives the same messages again, and then what follows them."""
    messages: list[Message] = []
    size = 0
    whole = False
    while not whole and size <= MAX_BODY:
        message = await receive()
        messages.append(message)
        if message["type"] != "http.request":
            break
        size += len(message.get("body", b""))
        whole = not message.get("more_body", False)
    body = b"".join(message.get("body", b"") for message in messages) if whole and size <= MAX_BODY else None

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return body, again
