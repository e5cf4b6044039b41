"""LiteLLM's proxy as an MCP gateway: one YAML file for all connections, allow-lists per server, tools shown under a prefix."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from harness.errors import Untestable
from harness.target.base import Ability, ConnectionRequest, LaunchOptions, RunGrant
from harness.target.child import Child, Command
from harness.target.dialect import ErrorRefusal
from harness.target.installed import Installation
from harness.target.light import Served, private_file, secret_of
from harness.target.names import Naming
from harness.target.shared import SharedGateway, SharedTarget, bench_secret

MASTER_KEY = f"sk-{bench_secret('master')}"
SALT_KEY = f"sk-{bench_secret('salt')}"
READY_WITHIN_S = 300.0
END_WITHIN_S = 20.0


class LiteLlm(SharedTarget):
    """Declared: a tool is shown as CONNECTION-TOOL; a cursor is sealed, for which it needs its salt key.

    A tool that is not on its server's allow-list is neither shown nor called. Nothing can be asked first; its log of calls needs PostgreSQL.
    It passes the trace of a session's first call on with every later one, so a witness cannot tell by it which call of a session is which.
    """

    id = "litellm"
    summary = "LiteLLM's proxy from a YAML file, without a database"
    package = "litellm"
    abilities = frozenset[Ability]({"credentials", "several", "permissions", "access"})
    protocols = ("2025-06-18", "2025-11-25")
    naming = Naming(separator="-")
    dialects = (ErrorRefusal(re.compile(r"is not allowed for .*Contact proxy admin", re.DOTALL)),)
    path = "/mcp/"

    def running(self, installed: Installation, options: LaunchOptions, http: httpx2.AsyncClient) -> SharedGateway:
        return LiteLlmGateway(self, installed, options, http)

    def command(self, installed: Installation, served: Served) -> Command:
        words = [str(installed.home / "bin" / "litellm"), "--config", str(served.home / "config.yaml"), "--host", "127.0.0.1"]
        return Command(
            words=[*words, "--port", str(served.port), "--num_workers", "1", "--telemetry", "False"],
            port=served.port,
            home=served.home,
            log=served.log,
            env={"LITELLM_SALT_KEY": SALT_KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False"},
            hidden=(secret_of(served.request), MASTER_KEY, SALT_KEY),
            ready_within_s=READY_WITHIN_S,
            end_within_s=END_WITHIN_S,
        )


class LiteLlmGateway(SharedGateway):
    """It reads its file when it starts, so each change of a connection or a permission is a new start on the same port."""

    def __init__(self, kind: LiteLlm, installed: Installation, options: LaunchOptions, http: httpx2.AsyncClient) -> None:
        super().__init__(kind, installed, options, http)
        self._allowed: dict[tuple[str, str], list[str]] = {}
        self._known: dict[tuple[str, str], list[str]] = {}
        self._later: set[str] = set()

    def token(self, served: Served) -> str:
        return MASTER_KEY

    def operator_headers(self, served: Served) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {MASTER_KEY}"}

    async def connect(self, tenant: str, request: ConnectionRequest) -> Mapping[str, Any]:
        served = self.process_of(tenant) or self.new_process(tenant, request)
        self.remember(tenant, request, served)
        await self._started(tenant, served)
        return {"name": request.name, "gateway": self.label, "port": served.port}

    async def disconnect(self, tenant: str, connection: str) -> None:
        served = self.need(tenant, connection)
        del self.served[tenant, connection]
        del self.requests[tenant][connection]
        if self.process_of(tenant) is None:
            await self.ended(served)
        else:
            await self._started(tenant, served)

    @asynccontextmanager
    async def at_once(self, tenant: str) -> AsyncIterator[None]:
        """One start for several changes of a tenant whose process is up already."""
        self._later.add(tenant)
        try:
            yield
        finally:
            self._later.discard(tenant)
            served = self.process_of(tenant)
            if served is not None:
                await self._started(tenant, served)

    async def _started(self, tenant: str, served: Served) -> None:
        if tenant in self._later:
            return
        await self._end(served)
        await self.begun(tenant, served)

    async def begun(self, tenant: str, served: Served) -> None:
        """A process that has all of the tenant's connections; returns when it says that it is well."""
        servers = {name: self._server(tenant, request) for name, request in self.requests[tenant].items()}
        document = {"model_list": [], "mcp_servers": servers, "general_settings": {"master_key": MASTER_KEY}}
        private_file(served.home / "config.yaml", json.dumps(document, indent=1))
        served.child = await Child.start(self.label, self.kind.command(self.installed, served))
        await self.until_healthy(served, "/health/liveliness", READY_WITHIN_S)

    def _server(self, tenant: str, request: ConnectionRequest) -> dict[str, Any]:
        found: dict[str, Any] = {"url": request.url, "transport": "http", "auth_type": "bearer_token", "auth_value": secret_of(request)}
        allowed = self._allowed.get((tenant, request.name))
        return found if allowed is None else {**found, "allowed_tools": allowed}

    async def start_run(self, tenant: str, connections: Any, *, task: str, agent: str, subject: str) -> RunGrant:
        grant = await super().start_run(tenant, connections, task=task, agent=agent, subject=subject)
        return RunGrant(run=grant.run, token=MASTER_KEY, url=grant.url)

    # ---- allow-lists

    async def permissions(self, tenant: str, connection: str) -> Mapping[str, str]:
        """Of the tools that it listed before the first allow-list: what is not on the list is off."""
        known = await self._tools(tenant, connection)
        allowed = self._allowed.get((tenant, connection), known)
        return {tool: "allowed" if tool in allowed else "off" for tool in known}

    async def set_permissions(self, tenant: str, connection: str, changes: Mapping[str, str]) -> Mapping[str, str]:
        if "ask_first" in changes.values():
            what = f"approvals: {self.label} has allow-lists, and cannot have a tool asked first"
            raise Untestable(what, where=self.kind.id, fix="see docs/targets.md")
        words = {**await self.permissions(tenant, connection), **changes}
        self._allowed[tenant, connection] = [tool for tool, word in words.items() if word == "allowed"]
        await self._started(tenant, self.need(tenant, connection))
        return await self.permissions(tenant, connection)

    async def access(self, tenant: str, connection: str) -> Mapping[str, int]:
        words = list((await self.permissions(tenant, connection)).values())
        return {word: words.count(word) for word in ("allowed", "ask_first", "off")}

    async def _tools(self, tenant: str, connection: str) -> list[str]:
        """Every tool of the connection, as its own REST list has them; read once, before anything is left off it."""
        key = tenant, connection
        if key not in self._known:
            served = self.need(tenant, connection)
            response = await self.ask(served, "GET", "/mcp-rest/tools/list", params={"server_id": ""})
            listed = response.json().get("tools") if response.is_success else None
            if not isinstance(listed, list):
                what = f"permissions: {self.label} answered HTTP {response.status_code} when it was asked for its tools"
                raise Untestable(what, where="/mcp-rest/tools/list", fix="see its log")
            names = [str(tool.get("name")) for tool in listed if isinstance(tool, dict)]
            prefix = self.kind.naming.shown(connection, "")
            self._known[key] = [name.removeprefix(prefix) for name in names]
        return self._known[key]


TARGET = LiteLlm()
