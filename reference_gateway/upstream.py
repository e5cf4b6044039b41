"""Sessions with one MCP provider: one per protocol era, opened when first needed, kept, and renewed when the provider lost it.

Same era first: an agent's call goes out in the agent's own era and is converted only when the provider speaks just the other.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard

import anyio
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    LOG_LEVEL_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from reference_gateway import __version__
from reference_gateway.background import Background
from reference_gateway.errors import GatewayError
from reference_gateway.lines import LineBroken, Requests
from reference_gateway.listening import Listener
from reference_gateway.oauth.authorized import Authorized
from reference_gateway.peer import ASKS, MESSAGE, Peer
from reference_gateway.wire import FETCH_FAILED, MALFORMED, REMOTE_STATUS, TOO_LARGE, Json, Reply, UpstreamFailure, exchange, post

Era = Literal["legacy", "modern"]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Asked = Callable[[str, Json], Awaitable[Json | None]]
News = Callable[[str, Json], None]
"""Method and parameters of a notification that concerns no single request: a list changed, a resource was updated."""

LISTENING = "notifications/subscriptions/acknowledged"
NEWS = (
    "notifications/tools/list_changed",
    "notifications/resources/list_changed",
    "notifications/prompts/list_changed",
    "notifications/resources/updated",
    LISTENING,
)

SESSION_HEADER = "mcp-session-id"
CLIENT_INFO = {"name": "reference-gateway", "version": __version__}
LISTEN_WITHIN_S = 2.0
OPEN_LIMIT = 1_000_000
"""Bytes of an answer to initialize or server/discover."""


def era_of(version: str) -> Era:
    return "modern" if version in MODERN_PROTOCOL_VERSIONS else "legacy"


@dataclass(frozen=True, slots=True)
class Session:
    """What opening it told: the negotiated version, who answers, and the provider's id for it (handshake era only)."""

    era: Era
    version: str
    session_id: str | None
    server: Json
    instructions: str | None
    capabilities: Json = field(default_factory=dict)


class WrongVersion(UpstreamFailure):
    """The provider does not speak the version that the connection is pinned to, or none that we know."""

    def __init__(self, message: str) -> None:
        super().__init__(MALFORMED, message, answered=True)


class McpUpstream:
    """`headers` gives the credential's headers afresh for each request; `call_url` is where tools/call goes."""

    def __init__(
        self,
        http: Requests,
        url: str,
        headers: Callable[[], Mapping[str, str]],
        background: Background,
        *,
        pin: str | None = None,
        call_url: str | None = None,
        abilities: Json | None = None,
        asked: Asked | None = None,
    ) -> None:
        """`abilities`: the client capabilities that we offer; `asked` answers what a provider may then ask of us (None: no such method)."""
        self._abilities: Json = abilities or {}
        self._asked = asked
        self.news: News | None = None
        """Who is told of them; they are read from whatever stream they arrive on."""
        self._listeners: list[Listener] = []
        self._http = http
        self._url = url
        self._call_url = call_url or url
        self._headers = headers
        self._background = background
        self._pin = pin
        self._ids = itertools.count(1)
        self._sessions: dict[Era, Session] = {}
        self._locks: dict[Era, asyncio.Lock] = {"legacy": asyncio.Lock(), "modern": asyncio.Lock()}
        self._unspoken: set[Era] = set()

    async def session(self, preferred: Era) -> Session:
        """The open session in the preferred era, or in the only one the provider speaks. Raises UpstreamFailure."""
        if self._pin is not None:
            return await self._opened(era_of(self._pin))
        other: Era = "legacy" if preferred == "modern" else "modern"
        if preferred in self._unspoken:
            return await self._opened(other)
        try:
            return await self._opened(preferred)
        except UpstreamFailure as failure:
            if other in self._unspoken or not _means_unspoken(failure):
                raise
        session = await self._opened(other)
        self._unspoken.add(preferred)
        return session

    async def request(
        self,
        method: str,
        params: Json,
        *,
        era: Era,
        limit: int,
        progress: Progress | None = None,
        schema: object = None,
        peer: Peer | None = None,
    ) -> tuple[Reply, Session]:
        """One request in the agent's era where possible. A session that the provider has lost is renewed, once. Raises UpstreamFailure."""
        session = await self.session(era)
        try:
            return await self._send(session, method, params, limit, progress, schema, peer), session
        except UpstreamFailure as failure:
            # 404 for a session id of ours, without naming our request: the provider never looked at it.
            if failure.status != 404 or session.session_id is None or failure.answered:
                raise
        if self._sessions.get(session.era) is session:
            del self._sessions[session.era]
        session = await self.session(era)
        return await self._send(session, method, params, limit, progress, schema, peer), session

    async def offer(self, abilities: Json) -> None:
        """Other client capabilities than before; sessions that were opened with those are ended."""
        if abilities != self._abilities:
            await self.close()
            self._abilities = abilities

    def hear(self, session: Session) -> None:
        """From now on also hear what a provider of the handshake era says outside requests, for as long as the session lasts."""
        self._listen(session)

    def forget(self) -> None:
        """Learn afresh which eras the provider speaks."""
        self._unspoken.clear()

    async def close(self) -> None:
        """End what the provider keeps for us. The credential is read now: it may be gone in a moment."""
        listeners, self._listeners = self._listeners, []
        for listener in listeners:
            await listener.close()
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            if session.session_id is not None:
                try:
                    http = self._http.as_now() if isinstance(self._http, Authorized) else self._http
                    self._background.spawn(self._end(http, self._http_headers(session)))
                except GatewayError:
                    return  # without the credential the provider has to find out by itself

    async def _end(self, http: Requests, headers: Mapping[str, str]) -> None:
        try:
            (await http.request("DELETE", self._url, headers)).close()
        except (LineBroken, GatewayError):
            return  # it is gone either way

    async def _opened(self, era: Era) -> Session:
        if (session := self._sessions.get(era)) is not None:
            return session
        async with self._locks[era]:
            if (session := self._sessions.get(era)) is not None:
                return session
            session = await (self._discover() if era == "modern" else self._initialize())
            self._sessions[era] = session
            return session

    async def _initialize(self) -> Session:
        offer = self._pin or LATEST_HANDSHAKE_VERSION
        params = {"protocolVersion": offer, "capabilities": self._abilities, "clientInfo": CLIENT_INFO}
        blank = Session("legacy", "", None, {}, None)
        reply = await self._send(blank, "initialize", params, OPEN_LIMIT)
        version = reply.result.get("protocolVersion")
        if version not in HANDSHAKE_PROTOCOL_VERSIONS or (self._pin is not None and version != self._pin):
            raise WrongVersion(f"the provider offers protocol version {version!r}, not {offer}")
        server = reply.result.get("serverInfo")
        session = Session(
            "legacy",
            str(version),
            reply.headers.get(SESSION_HEADER),
            server if isinstance(server, dict) else {},
            _text(reply.result.get("instructions")),
            _object(reply.result.get("capabilities")),
        )
        await post(self._http, self._url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, self._http_headers(session))
        if self._asked is not None:
            listener = self._listen(session)
            with anyio.move_on_after(LISTEN_WITHIN_S):  # what is asked of us must find us listening; but nobody is held up by silence
                await listener.opened.wait()
        return session

    def _listen(self, session: Session) -> Listener:
        async def heard(message: Json) -> None:
            await self._incoming(session, message, 0, None)

        listener = Listener(self._http, self._url, lambda: self._http_headers(session), heard)
        self._listeners.append(listener)
        return listener

    async def _discover(self) -> Session:
        version = self._pin or MODERN_PROTOCOL_VERSIONS[-1]
        blank = Session("modern", version, None, {}, None)
        try:
            reply = await self._send(blank, "server/discover", {}, OPEN_LIMIT)
        except UpstreamFailure as failure:
            if not _offers(failure, version):
                raise
            reply = await self._send(blank, "server/discover", {}, OPEN_LIMIT)
        spoken = reply.result.get("supportedVersions")
        if not isinstance(spoken, list) or version not in spoken:
            raise WrongVersion(f"the provider does not speak protocol version {version}")
        meta = reply.result.get("_meta")
        server = meta.get(SERVER_INFO_META_KEY) if isinstance(meta, dict) else None
        return Session("modern", version, None, _object(server), _text(reply.result.get("instructions")), _object(reply.result.get("capabilities")))

    async def _send(
        self,
        session: Session,
        method: str,
        params: Json,
        limit: int,
        progress: Progress | None = None,
        schema: object = None,
        peer: Peer | None = None,
    ) -> Reply:
        request_id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": self._params(session, params, request_id, progress, peer)}
        headers = self._http_headers(session)
        if session.era == "modern":
            headers[MCP_METHOD_HEADER] = method
            if (named := NAME_BEARING_METHODS.get(method)) is not None:
                headers[MCP_NAME_HEADER] = encode_header_value(params[named])
                if isinstance(schema, dict):
                    headers.update(mcp_param_headers(x_mcp_header_map(schema), params.get("arguments") or {}))
        url = self._call_url if method == "tools/call" else self._url

        asking: set[asyncio.Task[None]] = set()

        async def on_message(incoming: Json) -> None:
            if peer is not None and incoming.get("method") in ASKS and "id" in incoming:
                asking.add(asyncio.ensure_future(self._ask(session, incoming, peer)))
            elif peer is not None and incoming.get("method") == MESSAGE:
                await peer.tell(MESSAGE, _object(incoming.get("params")))
            else:
                await self._incoming(session, incoming, request_id, progress)

        try:
            return await exchange(self._http, url, message, headers, limit=limit, on_message=on_message)
        except asyncio.CancelledError:
            # In the handshake era a closed connection is no cancellation: the provider has to be told. Later eras see the close.
            if session.era == "legacy" and method != "initialize":
                note = {"method": "notifications/cancelled", "params": {"requestId": request_id, "reason": "the gateway stopped waiting"}}
                self._background.spawn(post(self._http, url, {"jsonrpc": "2.0", **note}, headers))
            raise
        finally:
            for task in asking:
                task.cancel()

    async def _ask(self, session: Session, message: Json, peer: Peer) -> None:
        """What a provider asks on the stream of a request is asked of the agent behind it, if that can answer."""
        method, answer = message["method"], {"jsonrpc": "2.0", "id": message["id"]}
        if ASKS[method] not in peer.capabilities:
            answer["error"] = {"code": -32601, "message": f"the agent behind this request does not offer {ASKS[method]}"}
        else:
            try:
                answer["result"] = await peer.ask(method, _object(message.get("params")))
            except MCPError as error:
                answer["error"] = error.error.model_dump(mode="json", exclude_none=True)
        await post(self._http, self._url, answer, self._http_headers(session))

    def _params(self, session: Session, params: Json, request_id: int, progress: Progress | None, peer: Peer | None) -> Json:
        meta = dict(params.get("_meta") or {})
        if progress is not None:
            meta["progressToken"] = request_id
        if session.era == "modern":
            meta[PROTOCOL_VERSION_META_KEY] = session.version
            meta[CLIENT_INFO_META_KEY] = CLIENT_INFO
            meta[CLIENT_CAPABILITIES_META_KEY] = self._abilities if peer is None else peer.capabilities
            if peer is not None and peer.log_level is not None:
                meta[LOG_LEVEL_META_KEY] = peer.log_level
        rest = {key: value for key, value in params.items() if key != "_meta"}
        return {**rest, "_meta": meta} if meta else rest

    def _http_headers(self, session: Session) -> dict[str, str]:
        headers = {"accept": "application/json, text/event-stream", "content-type": "application/json", **self._headers()}
        if session.version:
            headers[MCP_PROTOCOL_VERSION_HEADER] = session.version
        if session.session_id is not None:
            headers[SESSION_HEADER] = session.session_id
        return headers

    async def _incoming(self, session: Session, message: Json, request_id: int, progress: Progress | None) -> None:
        params = message.get("params")
        if self.news is not None and "id" not in message and message.get("method") in NEWS:
            self.news(message["method"], _object(params))
            return
        if "id" in message:
            answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
            if message.get("method") == "ping":
                result: Json | None = {}
            else:  # what we offered no ability for may not be asked of us
                result = await self._asked(str(message.get("method")), params if isinstance(params, dict) else {}) if self._asked else None
            answer |= {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
            self._background.spawn(post(self._http, self._url, answer, self._http_headers(session)))
        elif message.get("method") == "notifications/progress" and progress is not None and isinstance(params, dict):
            done, total, text = params.get("progress"), params.get("total"), params.get("message")
            if params.get("progressToken") == request_id and _is_number(done):
                await progress(float(done), float(total) if _is_number(total) else None, text if isinstance(text, str) else None)


def _means_unspoken(failure: UpstreamFailure) -> bool:
    """Whether a failed opening says "not this era", rather than "not now" or "not you"."""
    if failure.reason in (FETCH_FAILED, TOO_LARGE) or failure.status in (401, 403, 407, 408, 429):
        return False
    return failure.reason != REMOTE_STATUS or (failure.status is not None and 400 <= failure.status < 500)


def _offers(failure: UpstreamFailure, version: str) -> bool:
    """Whether a refusal of our protocol version names that very version as one that is spoken."""
    data = (failure.rpc or {}).get("data")
    spoken = data.get("supported") if isinstance(data, dict) else None
    return (failure.rpc or {}).get("code") == UNSUPPORTED_PROTOCOL_VERSION and isinstance(spoken, list) and version in spoken


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _object(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
