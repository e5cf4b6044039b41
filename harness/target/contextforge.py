"""IBM ContextForge: one process on SQLite, connections registered over its API, tools shown under a prefix and with other letters."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx2

from harness.errors import ContractBroken, Unreachable, Untestable
from harness.target.base import Ability, ConnectionRequest, LaunchOptions
from harness.target.child import Child, Command
from harness.target.contextforge_record import records_of
from harness.target.installed import Installation
from harness.target.light import Served, private_file, run_tool, secret_of
from harness.target.names import Naming
from harness.target.shared import SharedGateway, SharedTarget, bench_secret

ADMIN = "admin@example.com"
SIGNING_KEY = bench_secret("signing")
SEALING_KEY = bench_secret("sealing")
PASSWORD = f"Aa1-{bench_secret('administrator')}"
READY_WITHIN_S = 240.0
TOKEN_WITHIN_S = 90.0
TOKEN_MINUTES = 600
PAGE = 1000
SETTINGS: Mapping[str, str] = {
    "JWT_SECRET_KEY": SIGNING_KEY,
    "AUTH_ENCRYPTION_SECRET": SEALING_KEY,
    "PLATFORM_ADMIN_EMAIL": ADMIN,
    "PLATFORM_ADMIN_PASSWORD": PASSWORD,
    "BASIC_AUTH_PASSWORD": PASSWORD,
    "CACHE_TYPE": "memory",
    "ENVIRONMENT": "development",
    "PLUGINS_ENABLED": "false",
    # The tap is on loopback.
    "SSRF_ALLOW_LOCALHOST": "true",
    "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
    # Everything that it can keep of a call.
    "AUDIT_TRAIL_ENABLED": "true",
    "STRUCTURED_LOGGING_DATABASE_ENABLED": "true",
    "METRICS_BUFFER_ENABLED": "false",
    # Its limiter would lock the bench's account out after a hundred requests.
    "RATE_LIMIT_MEDIUM_RPM": "1000000",
    "RATE_LIMIT_MEDIUM_BURST": "1000000",
    "RATE_LIMIT_LOCKOUT_ENABLED": "false",
}


class ContextForge(SharedTarget):
    """Declared: a tool is shown as CONNECTION-TOOL, its underscores as hyphens; the list is one page, in its own order.

    A tool can be switched off, and on again; nothing can be asked first. Its audit trail can be read and holds no calls of tools, so it has
    no record for a scenario; the transparency report reads it all the same.
    """

    id = "contextforge"
    summary = "IBM ContextForge on SQLite, connections registered over its API"
    package = "mcp-contextforge-gateway"
    abilities = frozenset[Ability]({"credentials", "several", "catalog", "refresh", "permissions", "access"})
    protocols = ("2025-06-18", "2025-11-25")
    naming = Naming(separator="-", letters=(("_", "-"),))
    path = "/mcp/"

    def running(self, installed: Installation, options: LaunchOptions, http: httpx2.AsyncClient) -> SharedGateway:
        return ContextForgeGateway(self, installed, options, http)

    def command(self, installed: Installation, served: Served) -> Command:
        return Command(
            words=[str(installed.home / "bin" / "mcpgateway"), "--host", "127.0.0.1", "--port", str(served.port)],
            port=served.port,
            home=served.home,
            log=served.log,
            env={**SETTINGS, "DATABASE_URL": f"sqlite:///{served.home / 'mcp.db'}"},
            hidden=(secret_of(served.request), SIGNING_KEY, SEALING_KEY, PASSWORD),
            ready_within_s=READY_WITHIN_S,
        )


class ContextForgeGateway(SharedGateway):
    """`_ids`: (tenant, connection) → its id of the gateway. `_tokens`: port → the administrator's token."""

    def __init__(self, kind: ContextForge, installed: Installation, options: LaunchOptions, http: httpx2.AsyncClient) -> None:
        super().__init__(kind, installed, options, http)
        self._ids: dict[tuple[str, str], str] = {}
        self._tokens: dict[int, str] = {}

    def operator_headers(self, served: Served) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {self._tokens[served.port]}"}

    def token(self, served: Served) -> str:
        return self._tokens[served.port]

    async def connect(self, tenant: str, request: ConnectionRequest) -> Mapping[str, Any]:
        """Its tools are in its registry when this returns. Raises Unreachable when it refuses the connection."""
        served = self.process_of(tenant)
        if served is None:
            served = self.new_process(tenant, request)
            self.remember(tenant, request, served)
            served.child = await Child.start(self.label, self.kind.command(self.installed, served))
            self._tokens[served.port] = await self._token(served)
            await self.until_healthy(served, "/health", READY_WITHIN_S)
        else:
            self.remember(tenant, request, served)
        body = {"name": request.name, "url": request.url, "transport": "STREAMABLEHTTP", "visibility": "public"}
        secret = {"auth_type": "bearer", "auth_token": secret_of(request)}
        response = await self.ask(served, "POST", "/gateways", {**body, **secret})
        if not response.is_success:
            told = f"{self.label} refused registering {request.name}: HTTP {response.status_code} {response.text[:300]}"
            raise Unreachable(told, where=request.url or self.kind.id, fix="see its log; it may refuse the name, or the address of the tap")
        made = self._read(response, f"registering {request.name}")
        self._ids[tenant, request.name] = str(made["id"])
        return {"name": request.name, "gateway": self.label, "port": served.port, "id": str(made["id"])}

    async def disconnect(self, tenant: str, connection: str) -> None:
        served = self.need(tenant, connection)
        self._read(await self.ask(served, "DELETE", f"/gateways/{self._ids.pop((tenant, connection))}"), f"removing {connection}")
        del self.served[tenant, connection]
        if self.process_of(tenant) is None:
            await self.ended(served)

    async def _token(self, served: Served) -> str:
        """By its own tool, from the key it was started with."""
        words = [str(self.installed.python), "-m", "mcpgateway.utils.create_jwt_token", "--username", ADMIN, "--exp", str(TOKEN_MINUTES)]
        env = {"PATH": "/usr/bin:/bin", "HOME": str(served.home), "LANG": "C.UTF-8", **SETTINGS}
        code, output = await run_tool([*words, "--admin"], cwd=served.home, env=env, answer="", within_s=TOKEN_WITHIN_S)
        found = [line.strip() for line in output.splitlines() if line.startswith("eyJ") and line.count(".") == 2]
        if code != 0 or not found:
            raise Unreachable(f"{self.label} makes no token: {output.strip()[-200:]}", where="create_jwt_token", fix="run it by hand")
        private_file(served.home / "token", found[-1])
        return found[-1]

    # ---- its registry

    async def catalog(self, tenant: str, connection: str) -> Mapping[str, Any]:
        tools = await self._tools(tenant, connection)
        entries = [
            {
                "name": tool.get("originalName"),
                "exposed_as": tool.get("name"),
                "status": "active" if tool.get("enabled", True) else "removed",
                "input_schema": tool.get("inputSchema"),
                "output_schema": tool.get("outputSchema"),
                "annotations": tool.get("annotations"),
                "description": tool.get("originalDescription") or tool.get("description"),
            }
            for tool in tools
        ]
        return {"tools": entries, "complete": True, "pages": 1}

    async def _tools(self, tenant: str, connection: str) -> list[dict[str, Any]]:
        """As its registry has them, switched off or not."""
        served = self.need(tenant, connection)
        params = {"gateway_id": self._ids[tenant, connection], "include_inactive": "true", "limit": "0"}
        answer = self._read(await self.ask(served, "GET", "/tools", params=params), "its list of tools")
        listed = answer if isinstance(answer, list) else answer.get("tools") or answer.get("data") or []
        return [tool for tool in listed if isinstance(tool, dict) and tool.get("gatewayId") == params["gateway_id"]]

    async def refresh(self, tenant: str, connection: str) -> Mapping[str, Any]:
        served = self.need(tenant, connection)
        path = f"/gateways/{self._ids[tenant, connection]}/tools/refresh"
        return dict(self._read(await self.ask(served, "POST", path), f"refreshing {connection}"))

    async def permissions(self, tenant: str, connection: str) -> Mapping[str, str]:
        return {str(t["originalName"]): "allowed" if t.get("enabled", True) else "off" for t in await self._tools(tenant, connection)}

    async def set_permissions(self, tenant: str, connection: str, changes: Mapping[str, str]) -> Mapping[str, str]:
        if "ask_first" in changes.values():
            what = f"approvals: {self.label} can switch a tool off, and cannot have it asked first"
            raise Untestable(what, where=self.kind.id, fix="see docs/targets.md")
        served = self.need(tenant, connection)
        ids = {str(tool["originalName"]): str(tool["id"]) for tool in await self._tools(tenant, connection)}
        for tool, word in changes.items():
            params = {"activate": "true" if word == "allowed" else "false"}
            self._read(await self.ask(served, "POST", f"/tools/{ids[tool]}/state", params=params), f"switching {tool}")
        return await self.permissions(tenant, connection)

    async def access(self, tenant: str, connection: str) -> Mapping[str, int]:
        words = list((await self.permissions(tenant, connection)).values())
        return {word: words.count(word) for word in ("allowed", "ask_first", "off")}

    # ---- its records

    async def audit(self, tenant: str, run: str | None) -> list[Mapping[str, Any]]:
        """Its audit trail, as far as it tells of calls."""
        answer = self._read(await self.ask(self._started(tenant), "GET", "/api/logs/audit-trails", params={"limit": str(PAGE)}), "its audit trail")
        return records_of(answer if isinstance(answer, list) else [], self.kind.naming)

    def _started(self, tenant: str) -> Served:
        served = self.process_of(tenant)
        if served is None:
            raise Untestable(f"{self.label} was not started", where=tenant, fix="see the trouble that came before")
        return served

    def _read(self, response: httpx2.Response, what: str) -> Any:
        if not response.is_success:
            told = f"{self.label} refused {what}: HTTP {response.status_code} {response.text[:300]}"
            raise ContractBroken(told, where=self.kind.id, fix="see its log")
        try:
            return json.loads(response.content) if response.content else {}
        except ValueError:
            raise ContractBroken(f"{self.label} answered {what} without JSON", where=self.kind.id, fix="see its log") from None


TARGET = ContextForge()
