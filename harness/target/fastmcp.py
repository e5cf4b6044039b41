"""FastMCP's proxy, as its own command line makes one from an MCP configuration file."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from harness.model.scenario import PROTOCOLS
from harness.target.base import Ability, ConnectionRequest, LaunchOptions, RunGrant
from harness.target.child import Child, Command
from harness.target.installed import Installation
from harness.target.joint import Joint
from harness.target.light import LightGateway, LightTarget, Served, private_file, secret_of
from harness.target.names import Naming

JOINT_NAMES = Naming(separator="_")
"""With several servers in its file, it puts the server's name before the tool's; with one, it does not."""


class FastMcp(LightTarget):
    """One server in the file, so that it shows bare names. It keeps the credential; it has no record, no policy and no control plane.

    Declared: `tools/list` is one page; each tool gains `title` and `_meta.fastmcp`, and its keys come sorted.
    """

    id = "fastmcp"
    summary = "FastMCP's proxy (fastmcp run mcp.json), one process per connection"
    package = "fastmcp"
    abilities = frozenset[Ability]({"credentials"})
    protocols = PROTOCOLS

    def command(self, installed: Installation, served: Served) -> Command:
        return self.command_for(installed, served, [served.request])

    def command_for(self, installed: Installation, served: Served, requests: Sequence[ConnectionRequest]) -> Command:
        """One process for all of these, in this order."""
        servers = {
            request.name: {"url": request.url, "transport": "http", "headers": {"Authorization": f"Bearer {secret_of(request)}"}}
            for request in requests
        }
        config = private_file(served.home / "mcp.json", json.dumps({"mcpServers": servers}))
        words = [str(installed.home / "bin" / "fastmcp"), "run", str(config), "--transport", "http", "--host", "127.0.0.1"]
        return Command(
            words=[*words, "--port", str(served.port), "--path", self.path, "--no-banner", "--log-level", "WARNING"],
            port=served.port,
            home=served.home,
            log=served.log,
            env={"FASTMCP_CHECK_FOR_UPDATES": "off"},
            hidden=tuple(secret_of(request) for request in requests),
        )

    def gateway(self, installed: Installation, options: LaunchOptions) -> LightGateway:
        return FastMcpGateway(self, installed, options)


class FastMcpGateway(LightGateway):
    """Beside the process of each connection there may be one more, for a session over several of them."""

    def __init__(self, kind: FastMcp, installed: Installation, options: LaunchOptions) -> None:
        super().__init__(kind, installed.label, options)
        self._own, self._installed = kind, installed

    @asynccontextmanager
    async def joined(self, tenant: str, requests: Sequence[ConnectionRequest]) -> AsyncIterator[Joint]:
        name = "+".join(request.name for request in requests)
        served = self.made(tenant, name, requests[0])
        served.child = await Child.start(self.label, self._own.command_for(self._installed, served, requests))
        try:
            yield Joint(RunGrant(run="", token="", url=f"http://127.0.0.1:{served.port}{self.kind.path}"), JOINT_NAMES)
        finally:
            await self.disconnect(tenant, name)


TARGET = FastMcp()
