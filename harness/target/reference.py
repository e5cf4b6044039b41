"""The reference gateway, started as a child process and driven by docs/operator-api.md; no code is shared with it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from harness.errors import HarnessError, PortInUse, Unreachable, UsageError
from harness.target.base import Ability, ConnectionRequest, LaunchOptions, RunGrant, RunningTarget

READY_WITHIN_S = 30.0
END_WITHIN_S = 5.0
APPROVE_WITHIN_S = 75.0
SEPARATOR = "__"


class ReferenceTarget:
    id = "reference"
    summary = "the reference gateway of this project, as a child process"
    abilities: frozenset[Ability] = frozenset(
        {"audit", "approvals", "permissions", "access", "catalog", "refresh", "revoke", "runs", "test_clock", "mapped", "defects"}
    )

    @asynccontextmanager
    async def launch(self, options: LaunchOptions) -> AsyncIterator[RunningTarget]:
        token = secrets.token_hex(24)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "reference_gateway",
            *arguments_for(options),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=child_environment(token),
        )
        log = asyncio.create_task(_keep_log(process, options))
        try:
            ready = await _ready_line(process, log)
            context = ssl.create_default_context()
            async with httpx2.AsyncClient(verify=context, trust_env=False, timeout=httpx2.Timeout(15.0)) as http:
                yield ReferenceGateway(ready, token, http, process)
        finally:
            await _end(process)
            await log


TARGET = ReferenceTarget()


def arguments_for(options: LaunchOptions) -> list[str]:
    arguments = ["--port", "0", "--allow-loopback"]
    for host, address in options.mapped.items():
        arguments += ["--map", f"{host}={address}"]
    if options.ca_file is not None:
        arguments += ["--map-ca", str(options.ca_file)]
    if options.test_clock:
        arguments.append("--test-clock")
    for defect in options.defects:
        arguments += ["--defect", defect]
    return arguments


def child_environment(token: str) -> dict[str, str]:
    """Only what a child process needs to run at all, and its operator token: no credential of ours leaks into it."""
    kept = {k: v for k, v in os.environ.items() if k in {"PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "TMPDIR", "SYSTEMROOT", "VIRTUAL_ENV"}}
    return {**kept, "GATEWAY_OPERATOR_TOKEN": token}


async def _keep_log(process: asyncio.subprocess.Process, options: LaunchOptions) -> list[str]:
    """Drain standard error into a file; the last lines explain a gateway that died."""
    tail: list[str] = []
    assert process.stderr is not None
    with (options.work_dir / "gateway.log").open("ab") as sink:
        while line := await process.stderr.readline():
            sink.write(line)
            tail = [*tail, line.decode(errors="replace").rstrip()][-5:]
    return tail


async def _ready_line(process: asyncio.subprocess.Process, log: asyncio.Task[list[str]]) -> Mapping[str, Any]:
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), READY_WITHIN_S)
    except TimeoutError:
        raise Unreachable(
            f"the gateway was not ready within {READY_WITHIN_S:g} s", where="reference gateway", fix="see gateway.log in the run's folder"
        ) from None
    if not line:
        code = await process.wait()
        raise died(code, await log)
    try:
        ready = json.loads(line)
        ready["operator"], ready["mcp"], ready["pid"]
    except (ValueError, TypeError, KeyError):
        raise Unreachable(
            f"the gateway's first line is not a ready line: {line[:200]!r}",
            where="reference gateway",
            fix="nothing but the ready line may go to standard output",
        ) from None
    return dict(ready)


def died(code: int, tail: list[str]) -> HarnessError:
    """What a gateway's early end means: wrong usage and a port in use are ours to mend (2), anything else is unreachable (4)."""
    last = tail[-1] if tail else "(it wrote nothing)"
    if code == 2 and "port" in last:
        return PortInUse(f"the gateway could not start: {last}", where="reference gateway", fix="choose another port, or end what holds it")
    if code == 2:
        return UsageError(f"the gateway refused its command line: {last}", where="reference gateway", fix="see python -m reference_gateway --help")
    return Unreachable(
        f"the gateway ended with code {code} before it was ready: {last}", where="reference gateway", fix="see gateway.log in the run's folder"
    )


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    try:
        process.terminate()
        await asyncio.wait_for(process.wait(), END_WITHIN_S)
    except TimeoutError:
        process.kill()
        await process.wait()
    except ProcessLookupError:
        await process.wait()


class ReferenceGateway:
    """Client of the operator API. Times in seconds; bodies and answers as documented there."""

    def __init__(self, ready: Mapping[str, Any], token: str, http: httpx2.AsyncClient, process: asyncio.subprocess.Process) -> None:
        self._base = str(ready["operator"])
        self.mcp_url = str(ready["mcp"])
        self.process_id: int | None = int(ready["pid"])
        self._headers = {"Authorization": f"Bearer {token}"}
        self._http = http
        self._process = process

    async def _ask(self, method: str, path: str, body: Any = None, *, timeout: float = 15.0, params: Mapping[str, str] | None = None) -> Any:
        try:
            response = await self._http.request(method, self._base + path, json=body, headers=self._headers, timeout=timeout, params=params)
        except httpx2.HTTPError as error:
            state = f"it ended with code {self._process.returncode}" if self._process.returncode is not None else "it is still running"
            raise Unreachable(
                f"the gateway did not answer {method} {path}: {str(error) or type(error).__name__}; {state}",
                where=self._base + path,
                fix="see gateway.log in the run's folder",
            ) from None
        return _unwrap(method, path, response)

    async def open_tenant(self, name: str) -> str:
        return str((await self._ask("POST", "/tenants", {"tenant": name}))["tenant"])

    async def connect(self, tenant: str, request: ConnectionRequest) -> Mapping[str, Any]:
        grant: dict[str, str] = {"kind": request.spec.grant}
        if request.spec.grant == "personal":
            grant["subject"] = request.subject
        body: dict[str, Any] = {
            "name": request.name,
            "provider": request.provider,
            "transport": request.transport,
            "protocol_version": request.protocol,
            "grant": grant,
            "credentials": dict(request.credentials),
            "permissions": dict(request.spec.permissions),
            "quarantine": request.spec.quarantine,
        }
        if request.auth:
            body["auth"] = dict(request.auth)
        if request.url is not None:
            body["url"] = request.url
        return _mapping(await self._ask("POST", f"/tenants/{tenant}/connections", body, timeout=30.0))

    async def disconnect(self, tenant: str, connection: str) -> None:
        await self._ask("DELETE", f"/tenants/{tenant}/connections/{connection}")

    async def start_run(self, tenant: str, connections: Sequence[str], *, task: str, agent: str, subject: str) -> RunGrant:
        body = {"connections": list(connections), "task": task, "agent": agent, "subject": subject}
        made = await self._ask("POST", f"/tenants/{tenant}/runs", body)
        return RunGrant(run=str(made["run"]), token=str(made["token"]), url=self.mcp_url)

    async def end_run(self, tenant: str, run: str) -> None:
        await self._ask("POST", f"/tenants/{tenant}/runs/{run}/end")

    async def catalog(self, tenant: str, connection: str) -> Mapping[str, Any]:
        return _mapping(await self._ask("GET", f"/tenants/{tenant}/connections/{connection}/tools"))

    async def refresh(self, tenant: str, connection: str) -> Mapping[str, Any]:
        return _mapping(await self._ask("POST", f"/tenants/{tenant}/connections/{connection}/refresh", timeout=30.0))

    async def permissions(self, tenant: str, connection: str) -> Mapping[str, str]:
        return _mapping((await self._ask("GET", f"/tenants/{tenant}/connections/{connection}/permissions"))["permissions"])

    async def set_permissions(self, tenant: str, connection: str, changes: Mapping[str, str]) -> Mapping[str, str]:
        body = {"permissions": dict(changes)}
        return _mapping((await self._ask("PUT", f"/tenants/{tenant}/connections/{connection}/permissions", body))["permissions"])

    async def access(self, tenant: str, connection: str) -> Mapping[str, int]:
        return _mapping(await self._ask("GET", f"/tenants/{tenant}/connections/{connection}/access"))

    async def revoke(self, tenant: str, connection: str) -> None:
        await self._ask("POST", f"/tenants/{tenant}/connections/{connection}/revoke")

    async def decide(self, tenant: str, approval: str, *, approve: bool, by: str, reason: str) -> Mapping[str, Any]:
        word = "approve" if approve else "reject"
        body = {"by": by} if approve else {"by": by, "reason": reason}
        return _mapping(await self._ask("POST", f"/tenants/{tenant}/approvals/{approval}/{word}", body, timeout=APPROVE_WITHIN_S))

    async def audit(self, tenant: str, run: str | None) -> list[Mapping[str, Any]]:
        records: list[Mapping[str, Any]] = []
        after = 0
        while True:
            params = {"after": str(after), "limit": "1000", **({"run": run} if run else {})}
            page = (await self._ask("GET", f"/tenants/{tenant}/audit", params=params))["records"]
            records.extend(page)
            if len(page) < 1000:
                return records
            after = int(page[-1]["seq"])

    async def advance(self, seconds: float) -> None:
        await self._ask("POST", "/clock/advance", {"seconds": seconds})

    async def health(self) -> Mapping[str, Any]:
        return _mapping(await self._ask("GET", "/health"))

    def exposed_name(self, connection: str, tool: str) -> str:
        return f"{connection}{SEPARATOR}{tool}"

    def tool_of(self, exposed: str) -> tuple[str, str]:
        """Connection names hold no underscore, so the first separator is the only possible one."""
        connection, _, tool = exposed.partition(SEPARATOR)
        return connection, tool

    def said(self, result: Mapping[str, Any] | None, error: Mapping[str, Any] | None) -> Mapping[str, Any]:
        meta = (result or {}).get("_meta") if result is not None else (error or {}).get("data")
        if not isinstance(meta, Mapping):
            return {}
        words = {k.removeprefix("gateway/"): v for k, v in meta.items() if isinstance(k, str) and k.startswith("gateway/")}
        approval = words.get("approval")
        if isinstance(approval, Mapping):
            words["approval"] = approval.get("id")
        return words


def _mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unreachable("the operator API answered something else than an object", where="operator/v1", fix="see docs/operator-api.md")
    return value


def _unwrap(method: str, path: str, response: httpx2.Response) -> Any:
    if response.status_code == 204:
        return {}
    try:
        body = response.json()
    except ValueError:
        raise Unreachable(
            f"{method} {path} answered HTTP {response.status_code} without JSON", where="operator/v1", fix="see docs/operator-api.md"
        ) from None
    if response.is_success:
        return body
    error = body.get("error", {}) if isinstance(body, dict) else {}
    raise OperatorRefused(
        str(error.get("code", "")),
        f"the gateway refused {method} {path}: HTTP {response.status_code} {error.get('code', '')}: {error.get('message', '')}",
        where=str(error.get("where", "")),
        fix=str(error.get("fix", "")),
        provider=response.status_code == 502,
    )


class OperatorRefused(HarnessError):
    """The operator API said no; `code` is its code. A provider that cannot be reached counts as unreachable (4)."""

    def __init__(self, code: str, what: str, *, where: str, fix: str, provider: bool) -> None:
        super().__init__(what, where=where, fix=fix)
        self.code = code
        if provider:
            self.exit_code = Unreachable.exit_code
