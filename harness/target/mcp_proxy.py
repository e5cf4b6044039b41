"""mcp-proxy, twice: its server side can only start a command, so HTTP to HTTP is one that serves and one that asks, chained by stdio."""

from __future__ import annotations

from harness.target.base import Ability
from harness.target.child import Command
from harness.target.installed import Installation
from harness.target.light import LightTarget, Served, secret_of


class McpProxy(LightTarget):
    """It keeps the credential (an environment variable of the asking side); it has no record, no policy and no control plane.

    Declared: names, order and pages as the provider's own; it speaks the versions of mcp 1.x, so not 2026-07-28.
    """

    id = "mcp_proxy"
    summary = "mcp-proxy serving over HTTP what a second mcp-proxy reads over HTTP"
    package = "mcp-proxy"
    abilities = frozenset[Ability]({"credentials"})
    protocols = ("2025-06-18", "2025-11-25")
    path = "/mcp/"

    def command(self, installed: Installation, served: Served) -> Command:
        program = str(installed.home / "bin" / "mcp-proxy")
        asking = [program, "--transport", "streamablehttp", str(served.request.url)]
        return Command(
            words=[program, "--host", "127.0.0.1", "--port", str(served.port), "--pass-environment", "--", *asking],
            port=served.port,
            home=served.home,
            log=served.log,
            env={"API_ACCESS_TOKEN": secret_of(served.request)},
            hidden=(secret_of(served.request),),
        )


TARGET = McpProxy()
