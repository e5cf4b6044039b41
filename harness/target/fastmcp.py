"""FastMCP's proxy, as its own command line makes one from an MCP configuration file."""

from __future__ import annotations

import json

from harness.model.scenario import PROTOCOLS
from harness.target.base import Ability
from harness.target.child import Command
from harness.target.installed import Installation
from harness.target.light import LightTarget, Served, private_file, secret_of


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
        request = served.request
        server = {"url": request.url, "transport": "http", "headers": {"Authorization": f"Bearer {secret_of(request)}"}}
        config = private_file(served.home / "mcp.json", json.dumps({"mcpServers": {request.name: server}}))
        words = [str(installed.home / "bin" / "fastmcp"), "run", str(config), "--transport", "http", "--host", "127.0.0.1"]
        return Command(
            words=[*words, "--port", str(served.port), "--path", self.path, "--no-banner", "--log-level", "WARNING"],
            port=served.port,
            home=served.home,
            log=served.log,
            env={"FASTMCP_CHECK_FOR_UPDATES": "off"},
            hidden=(secret_of(request),),
        )


TARGET = FastMcp()
