"""Operator routes about the log as a whole, for the gateway's owner alone: its export, and the key that its marks are signed with."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from reference_gateway.checkpoints import Checkpoints
from reference_gateway.control_tenants import Handler, query_of, whole_number

MOST = 2**62


class AuditRoutes:
    def __init__(self, checkpoints: Checkpoints) -> None:
        self._checkpoints = checkpoints

    def routes(self) -> list[tuple[str, str, Handler]]:
        return [("GET", "/audit/export", self.export), ("GET", "/audit/key", self.key)]

    async def export(self, request: Request) -> Response:
        query = query_of(request, "after", "until")
        after, until = whole_number(query, "after", 0, MOST), whole_number(query, "until", MOST, MOST)
        return StreamingResponse(self._checkpoints.export(after, until), media_type="application/jsonl")

    async def key(self, _: Request) -> Response:
        return JSONResponse({"key": self._checkpoints.public_key, "checkpoints": self._checkpoints.state})
