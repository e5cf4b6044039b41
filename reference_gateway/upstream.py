"""Sessions with one MCP provider: one per protocol era, opened when first needed, kept, and renewed when the provider lost it.

Same era first: an agent's call goes out in the agent's own era and is converted only when the provider speaks just the other.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard

import httpx2
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY, SERVER_INFO_META_KEY
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, MODERN_PROTOCOL_VERSIONS

from reference_gateway import __version__
from reference_gateway.background import Background
from reference_gateway.errors import GatewayError
from reference_gateway.wire import FETCH_FAILED, MALFORMED, REMOTE_STATUS, TOO_LARGE, Json, Reply, UpstreamFailure, exchange, post

Era = Literal["legacy", "modern"]
Progress = Callable[[float, float | None, str | None], Awaitable[None]]

SESSION_HEADER = "mcp-session-id"
CLIENT_INFO = {"name": "reference-gateway", "version": __version__}
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


class WrongVersion(UpstreamFailure):
    """The provider does not speak the version that the connection is pinned to, or none that we know."""

    def __init__(self, message: str) -> None:
        super().__init__(MALFORMED, message, answered=True)


class McpUpstream:
    """`headers` gives the credential's headers afresh for each request; `call_url` is where tools/call goes."""

    def __init__(
        self,
        http: httpx2.AsyncClient,
        url: str,
        headers: Callable[[], Mapping[str, str]],
        background: Background,
        *,
        pin: str | None = None,
        call_url: str | None = None,
    ) -> None:
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
    ) -> tuple[Reply, Session]:
        """One request in the agent's era where possible. A session that the provider has lost is renewed, once. Raises UpstreamFailure."""
        session = await self.session(era)
        try:
            return await self._send(session, method, params, limit, progress, schema), session
        except UpstreamFailure as failure:
            # 404 for a session id of ours, without naming our request: the provider never looked at it.
            if failure.status != 404 or session.session_id is None or failure.answered:
                raise
        if self._sessions.get(session.era) is session:
            del self._sessions[session.era]
        session = await self.session(era)
        return await self._send(session, method, params, limit, progress, schema), session

    def forget(self) -> None:
        """Learn afresh which eras the provider speaks."""
        self._unspoken.clear()

    async def close(self) -> None:
        """End what the provider keeps for us. The credential is read now: it may be gone in a moment."""
        sessions, self._sessions = list(self._sessions.values()), {}
        for session in sessions:
            if session.session_id is not None:
                try:
                    self._background.spawn(self._end(self._http_headers(session)))
                except GatewayError:
                    return  # without the credential the provider has to find out by itself

    async def _end(self, headers: Mapping[str, str]) -> None:
        try:
            await self._http.request("DELETE", self._url, headers=dict(headers))
        except (httpx2.RequestError, GatewayError):
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
        params = {"protocolVersion": offer, "capabilities": {}, "clientInfo": CLIENT_INFO}
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
        )
        await post(self._http, self._url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, self._http_headers(session))
        return session

    async def _discover(self) -> Session:
        version = self._pin or MODERN_PROTOCOL_VERSIONS[-1]
        reply = await self._send(Session("modern", version, None, {}, None), "server/discover", {}, OPEN_LIMIT)
        spoken = reply.result.get("supportedVersions")
        if not isinstance(spoken, list) or version not in spoken:
            raise WrongVersion(f"the provider does not speak protocol version {version}")
        meta = reply.result.get("_meta")
        server = meta.get(SERVER_INFO_META_KEY) if isinstance(meta, dict) else None
        return Session("modern", version, None, server if isinstance(server, dict) else {}, _text(reply.result.get("instructions")))

    async def _send(self, session: Session, method: str, params: Json, limit: int, progress: Progress | None = None, schema: object = None) -> Reply:
        request_id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": self._params(session, params, request_id, progress)}
        headers = self._http_headers(session)
        if session.era == "modern":
            headers[MCP_METHOD_HEADER] = method
            if method == "tools/call":
                headers[MCP_NAME_HEADER] = encode_header_value(params["name"])
                if isinstance(schema, dict):
                    headers.update(mcp_param_headers(x_mcp_header_map(schema), params.get("arguments") or {}))
        url = self._call_url if method == "tools/call" else self._url

        async def on_message(incoming: Json) -> None:
            await self._incoming(session, incoming, request_id, progress)

        try:
            return await exchange(self._http, url, message, headers, limit=limit, on_message=on_message)
        except asyncio.CancelledError:
            # In the handshake era a closed connection is no cancellation: the provider has to be told. Later eras see the close.
            if session.era == "legacy" and method != "initialize":
                note = {"method": "notifications/cancelled", "params": {"requestId": request_id, "reason": "the gateway stopped waiting"}}
                self._background.spawn(post(self._http, url, {"jsonrpc": "2.0", **note}, headers))
            raise

    def _params(self, session: Session, params: Json, request_id: int, progress: Progress | None) -> Json:
        meta = dict(params.get("_meta") or {})
        if progress is not None:
            meta["progressToken"] = request_id
        if session.era == "modern":
            meta[PROTOCOL_VERSION_META_KEY] = session.version
            meta[CLIENT_INFO_META_KEY] = CLIENT_INFO
            meta[CLIENT_CAPABILITIES_META_KEY] = {}
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
        if "id" in message:
            answer: Json = {"jsonrpc": "2.0", "id": message["id"]}
            if message.get("method") == "ping":
                answer["result"] = {}
            else:  # we offer no client abilities, so nothing else may be asked of us
                answer["error"] = {"code": -32601, "message": "Method not found"}
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


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
