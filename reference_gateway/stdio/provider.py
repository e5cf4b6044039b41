"""A local server as the far side of a connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from reference_gateway.catalog import Discovery, distinct, walk
from reference_gateway.defects import Defects
from reference_gateway.provider import LIST_LIMIT, RESULT_LIMIT, Answer, ProviderCall
from reference_gateway.stdio.supervisor import Supervisor
from reference_gateway.wire import Json

TRANSPORT = "stdio"


class StdioProvider:
    transport = TRANSPORT
    spawns_process = True
    default_timeout_s = 10.0
    discovery_timeout_s = 30.0

    def __init__(self, supervisor: Supervisor, defects: Defects) -> None:
        self.supervisor = supervisor
        self._defects = defects

    def endpoint(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return f"stdio:{self.supervisor.template.id}"

    def objection(self, tool: str, arguments: Mapping[str, Any]) -> str | None:
        return None

    def unready(self) -> str | None:
        return self.supervisor.unready()

    def details(self) -> Json:
        return {"process": self.supervisor.public()}

    async def check(self) -> bool:
        """Whether anything was asked of a provider: a server that does not run is left alone, one that runs must list its tools."""
        if self.supervisor.state != "running":
            return False
        await self.supervisor.request("tools/list", {}, limit=LIST_LIMIT)
        return True

    async def discover(self) -> Discovery:
        opened = await self.supervisor.opened()

        async def fetch(params: Json) -> Json:
            return await self.supervisor.request("tools/list", params, limit=LIST_LIMIT)

        listed, pages = await walk(fetch, self._defects)
        tools, dropped = distinct(listed, self._defects)
        server, instructions = opened.get("serverInfo"), opened.get("instructions")
        version = str(opened.get("protocolVersion"))
        return Discovery(
            tuple(tools), pages, dropped, server if isinstance(server, dict) else {}, version, instructions if isinstance(instructions, str) else None
        )

    async def call(self, call: ProviderCall) -> Answer:
        params: Json = {"name": call.tool, "arguments": dict(call.arguments)}
        if call.meta:
            params["_meta"] = call.meta
        return Answer(await self.supervisor.request("tools/call", params, limit=RESULT_LIMIT, progress=call.progress), None)

    async def close(self) -> None:
        await self.supervisor.close()
