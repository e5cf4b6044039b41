"""The agent at the other end of an open request, through the SDK's session of it."""

from __future__ import annotations

from typing import Any, cast

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import CLIENT_CAPABILITIES_META_KEY, LOG_LEVEL_META_KEY
from pydantic import BaseModel, ConfigDict

from reference_gateway.upstream import era_of

Json = dict[str, Any]


class _Message(BaseModel):
    """Any message, as it came."""

    method: str
    params: Json | None = None


class _Result(BaseModel):
    model_config = ConfigDict(extra="allow")


class AgentBehind:
    """Of the handshake era: asked and told on the stream of its request. Of 2026-07-28: told there, never asked."""

    def __init__(self, ctx: ServerRequestContext[Any, Any]) -> None:
        self._ctx = ctx
        meta = (ctx.params or {}).get("_meta")
        self._meta: Json = dict(meta) if isinstance(meta, dict) else {}
        self._modern = era_of(ctx.protocol_version) == "modern"

    @property
    def declared(self) -> Json:
        if self._modern:
            said = self._meta.get(CLIENT_CAPABILITIES_META_KEY)
            return said if isinstance(said, dict) else {}
        able = self._ctx.session.client_capabilities
        return able.model_dump(by_alias=True, mode="json", exclude_none=True) if able is not None else {}

    @property
    def log_level(self) -> str | None:
        level = self._meta.get(LOG_LEVEL_META_KEY)
        return level if isinstance(level, str) else None

    async def ask(self, method: str, params: Json) -> Json:
        if self._modern:
            raise MCPError(-32601, "an agent of 2026-07-28 cannot be asked while its request is open")
        request = cast(types.ServerRequest, _Message(method=method, params=params))
        metadata = ServerMessageMetadata(related_request_id=self._ctx.request_id)
        return (await self._ctx.session.send_request(request, _Result, metadata=metadata)).model_dump(mode="json")

    async def tell(self, method: str, params: Json) -> None:
        if self._modern and self.log_level is None:
            return
        await self._ctx.session.send_notification(said(method, params), self._ctx.request_id)


def said(method: str, params: Json) -> types.ServerNotification:
    """A notification as it came."""
    return cast(types.ServerNotification, _Message(method=method, params=params or None))
