"""Gateways that serve several connections from one process: one process per tenant, ended with it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2

from harness.errors import Unreachable
from harness.target.base import ConnectionRequest, LaunchOptions, RunGrant, RunningTarget
from harness.target.child import free_port
from harness.target.installed import Installation
from harness.target.light import LightGateway, LightTarget, Served

ASK_WITHIN_S = 60.0
PAUSE_S = 0.25


def bench_secret(purpose: str) -> str:
    """A value that is the same each time, good enough for software that measures how random its secrets look, and worth nothing elsewhere."""
    return base64.urlsafe_b64encode(hashlib.sha256(f"synthetic {purpose}".encode()).digest()).decode().rstrip("=")


class SharedTarget(LightTarget):
    """`running` is the gateway's class."""

    def running(self, installed: Installation, options: LaunchOptions, http: httpx2.AsyncClient) -> SharedGateway:
        return SharedGateway(self, installed, options, http)

    @asynccontextmanager
    async def launch(self, options: LaunchOptions) -> AsyncIterator[RunningTarget]:
        """Installs it on first use. Raises Unreachable (4) when it cannot be had."""
        installed = self.installation()
        await installed.ensure(options.tell)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # nothing here speaks TLS: no authority needs to be read
        async with httpx2.AsyncClient(verify=context, trust_env=False, timeout=httpx2.Timeout(ASK_WITHIN_S)) as http:
            gateway = self.running(installed, options, http)
            try:
                yield gateway
            finally:
                await gateway.close()


class SharedGateway(LightGateway):
    """All connections of a tenant share one Served: the same process, folder and port under several names."""

    def __init__(self, kind: LightTarget, installed: Installation, options: LaunchOptions, http: httpx2.AsyncClient) -> None:
        super().__init__(kind, installed.label, options)
        self.installed = installed
        self.http = http
        self.requests: dict[str, dict[str, ConnectionRequest]] = {}

    def process_of(self, tenant: str) -> Served | None:
        return next((served for (owner, _), served in self.served.items() if owner == tenant), None)

    def new_process(self, tenant: str, request: ConnectionRequest) -> Served:
        home = Path(tempfile.mkdtemp(prefix=f"{self.kind.id}-"))
        return Served(request, home, free_port(), self.options.work_dir / f"{self.kind.id}.log")

    def remember(self, tenant: str, request: ConnectionRequest, served: Served) -> None:
        self.served[tenant, request.name] = served
        self.requests.setdefault(tenant, {})[request.name] = request

    async def close_tenant(self, tenant: str) -> None:
        await super().close_tenant(tenant)
        self.requests.pop(tenant, None)

    async def start_run(self, tenant: str, connections: Sequence[str], *, task: str, agent: str, subject: str) -> RunGrant:
        """One session reaches every connection of the tenant."""
        served = self.need(tenant, connections[0])
        return RunGrant(run="", token=self.token(served), url=f"http://127.0.0.1:{served.port}{self.kind.path}")

    async def ask(self, served: Served, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None) -> httpx2.Response:
        """Raises Unreachable when it does not answer at all; what it answers is the caller's to judge."""
        url = f"http://127.0.0.1:{served.port}{path}"
        try:
            return await self.http.request(method, url, json=body, params=params, headers=self.operator_headers(served))
        except httpx2.HTTPError as error:
            if served.child is not None:
                served.child.must_live()
            what = f"{self.label} did not answer {method} {path}: {str(error) or type(error).__name__}"
            raise Unreachable(what, where=url, fix=f"see {served.log.name} in the run's folder") from None

    def operator_headers(self, served: Served) -> Mapping[str, str]:
        return {}

    async def until_healthy(self, served: Served, path: str, within_s: float) -> None:
        """Raises Unreachable when it does not say that it is well in time."""
        waited = 0.0
        while True:
            response = await self.ask(served, "GET", path)
            if response.is_success:
                return
            if waited >= within_s:
                what = f"{self.label} listens, but is not well: HTTP {response.status_code} from {path}"
                raise Unreachable(what, where=self.kind.id, fix=f"see {served.log.name} in the run's folder")
            await asyncio.sleep(PAUSE_S)
            waited += PAUSE_S
