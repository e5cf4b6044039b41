"""The reference gateway, started as a child process and driven by docs/operator-api.md; no code is shared with it."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import httpx2

from harness.errors import HarnessError, PortInUse, Unreachable, UsageError
from harness.model.scenario import PROTOCOLS
from harness.target.base import ABILITIES, Ability, ConnectionRequest, LaunchOptions, RunGrant, RunningTarget
from harness.target.outer import ReferenceOuter, held_folder, key_file, previous_key
from harness.target.pipes import PipedChild, drain, end, keep_log, settle
from harness.target.reference_log import CHECKPOINTS_FILE, ReferenceLog
from harness.target.reference_log import KEY_FILE as AUDIT_KEY_FILE
from harness.target.relay import RelayHandle, reference_relay
from harness.target.rows import SHARED_KEY, SHARED_STORE, STORE_FILE
from harness.target.setting import ReferenceSetting
from harness.target.stand_in import templates_file

READY_WITHIN_S = 30.0
END_WITHIN_S = 5.0
NOTICED_WITHIN_S = 0.5
APPROVE_WITHIN_S = 75.0
SEPARATOR = "__"
NAME = "reference gateway"
SEE_LOG = "see gateway.log in the run's folder"
COMMAND = (sys.executable, "-m", "reference_gateway")


@dataclass(frozen=True, slots=True)
class ReferenceTarget:
    """`command`: what to start; any program that serves docs/operator-api.md. Times in seconds."""

    id: str = "reference"
    summary: str = "the reference gateway of this project, as a child process"
    abilities: frozenset[Ability] = ABILITIES
    protocols: tuple[str, ...] = PROTOCOLS
    tap_port: int = 0
    command: tuple[str, ...] = COMMAND
    more: tuple[str, ...] = ()
    """Further arguments of the gateway's."""
    ready_within_s: float = READY_WITHIN_S
    end_within_s: float = END_WITHIN_S

    def given(self, value: str) -> ReferenceTarget:
        raise UsageError(f"target {self.id} takes no value, {value!r} was given", where="--target", fix="write --target reference")

    @asynccontextmanager
    async def launch(self, options: LaunchOptions) -> AsyncIterator[RunningTarget]:
        """Raises Unreachable (4) for a gateway that dies or is never ready, UsageError or PortInUse (2) for one that refuses to start."""
        token = secrets.token_hex(24)
        with held_folder(options.store) as folder:
            async with self._launched(replace(options, store=folder), token) as gateway:
                yield gateway

    @asynccontextmanager
    async def _launched(self, options: LaunchOptions, token: str) -> AsyncIterator[RunningTarget]:
        process, child, pipes = await self._start(options, token)
        log = asyncio.create_task(keep_log(process, options.work_dir / "gateway.log"))
        draining: asyncio.Task[None] | None = None
        try:
            ready = await self._ready(process, child.ended, log)
            draining = asyncio.create_task(drain(process))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the operator's door is plain HTTP on loopback; reading every authority costs 50 ms
            async with httpx2.AsyncClient(verify=context, trust_env=False, timeout=httpx2.Timeout(15.0)) as http:
                yield self.driver(ready, token, http, process, options)
        finally:
            await end(process, child.ended, self.end_within_s)
            for task in (log, draining):
                if task is not None:
                    await settle(task)
            pipes.close()  # a child that the gateway left behind may hold their other ends

    def driver(
        self, ready: Mapping[str, Any], token: str, http: httpx2.AsyncClient, process: asyncio.subprocess.Process, options: LaunchOptions
    ) -> ReferenceGateway:
        """Who operates the gateway that was started."""
        return ReferenceGateway(ready, token, http, process, options)

    async def _start(self, options: LaunchOptions, token: str) -> tuple[asyncio.subprocess.Process, PipedChild, asyncio.SubprocessTransport]:
        """As create_subprocess_exec does, which however keeps the transport to itself, so that nobody could close it."""
        loop, pipe = asyncio.get_running_loop(), asyncio.subprocess.PIPE
        try:
            transport, child = await loop.subprocess_exec(
                lambda: PipedChild(loop),
                *self.command,
                *arguments_for(options),
                *self.more,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=child_environment(token),
            )
        except OSError as error:
            raise UsageError(f"the gateway cannot be started: {error.strerror}", where=" ".join(self.command), fix="check its command") from error
        return asyncio.subprocess.Process(transport, child, loop), child, transport

    async def _ready(self, process: asyncio.subprocess.Process, ended: asyncio.Event, log: asyncio.Task[bytes]) -> Mapping[str, Any]:
        """The ready line. One that came to its end without it is explained by what it wrote last."""
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self.ready_within_s):
                line = await process.stdout.readline()
                if not line:
                    await ended.wait()
                    raise died(process.returncode or 0, last_lines(await log))
        except TimeoutError:
            raise Unreachable(f"the gateway was not ready within {self.ready_within_s:g} s", where=NAME, fix=SEE_LOG) from None
        except ValueError:  # StreamReader's word for a line beyond its bound
            raise not_ready_line(b"(a line of more than 65536 bytes)") from None
        return read_ready_line(line)


TARGET = ReferenceTarget()


def arguments_for(options: LaunchOptions) -> list[str]:
    arguments = ["--port", "0", "--experimental", "memory_connectors"]
    if options.allow_loopback:
        arguments.append("--allow-loopback")
    if options.store is not None:
        if SHARED_STORE not in os.environ:  # else the gateway finds it there
            arguments += ["--store", str(options.store / STORE_FILE)]
        arguments += ["--vault-key-file", str(key_file(options.store))]
        if SHARED_KEY in os.environ:
            arguments += ["--vault-previous-key-file", str(previous_key(key_file(options.store)))]
    if options.store is not None:
        arguments += ["--audit-key-file", str(options.store / AUDIT_KEY_FILE), "--checkpoints", str(options.store / CHECKPOINTS_FILE)]
    for host, address in options.mapped.items():
        arguments += ["--map", f"{host}={address}"]
    if options.ca_file is not None:
        arguments += ["--map-ca", str(options.ca_file)]
    if options.lab:
        arguments.append("--lab")
    arguments += ["--templates", str(templates_file(options.work_dir))]
    if options.test_clock:
        arguments.append("--test-clock")
    for defect in options.defects:
        arguments += ["--defect", defect]
    return arguments


def child_environment(token: str) -> dict[str, str]:
    """Only what a child process needs to run at all, and its operator token: no credential of ours leaks into it."""
    kept = {k: v for k, v in os.environ.items() if k in {"PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "TMPDIR", "SYSTEMROOT", "VIRTUAL_ENV"}}
    shared = {SHARED_STORE: os.environ[SHARED_STORE]} if SHARED_STORE in os.environ else {}
    return {**kept, **shared, "GATEWAY_OPERATOR_TOKEN": token}


def last_lines(log: bytes) -> str:
    lines = [line.strip() for line in log.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1][:500] if lines else "(it wrote nothing)"


def not_ready_line(line: bytes) -> Unreachable:
    shown = line[:200].decode(errors="backslashreplace").rstrip()
    fix = "nothing but the ready line may go to standard output; see docs/operator-api.md"
    return Unreachable(f"the gateway's first line is not a ready line: {shown!r}", where=NAME, fix=fix)


def read_ready_line(line: bytes) -> Mapping[str, Any]:
    try:
        ready = json.loads(line)
        usable = all(str(ready[key]).startswith("http://") for key in ("operator", "mcp")) and isinstance(ready["pid"], int)
    except (ValueError, TypeError, KeyError, RecursionError):
        usable = False
    if not usable:
        raise not_ready_line(line)
    return dict(ready)


def died(code: int, last: str) -> HarnessError:
    """What a gateway's early end means: wrong usage and a port in use are ours to mend (2), anything else is unreachable (4)."""
    if code == 2 and "port" in last:
        return PortInUse(f"the gateway could not start: {last}", where=NAME, fix="choose another port, or end what holds it")
    if code == 2:
        return UsageError(f"the gateway refused its command line: {last}", where=NAME, fix="see python -m reference_gateway --help")
    return Unreachable(f"the gateway ended with code {code} before it was ready: {last}", where=NAME, fix=SEE_LOG)


class ReferenceGateway:
    """Client of the operator API. Times in seconds; bodies and answers as documented there."""

    label = NAME
    executes_on_approval = True

    def __init__(
        self, ready: Mapping[str, Any], token: str, http: httpx2.AsyncClient, process: asyncio.subprocess.Process, options: LaunchOptions
    ) -> None:
        self._base = str(ready["operator"])
        self.mcp_url = str(ready["mcp"])
        self.process_id: int | None = int(ready["pid"])
        self._headers = {"Authorization": f"Bearer {token}"}
        self._http = http
        self._process = process
        self._options = options
        self._operator_token = token

    def relay(self, grant: RunGrant, *, task: str, channel: str, fd: int) -> AbstractAsyncContextManager[RelayHandle]:
        secrets_here = {"operator-token": self._operator_token, "run-token": grant.token}
        return reference_relay(grant, task=task, channel=channel, fd=fd, secrets=secrets_here, defects=tuple(self._options.defects))

    def setting(self) -> ReferenceSetting:
        return ReferenceSetting(self._base, self._headers, self._http)

    def outer(self) -> ReferenceOuter:
        return ReferenceOuter(self._ask, self._options, self.process_id or 0)

    def kept_log(self) -> ReferenceLog:
        assert self._options.store is not None
        return ReferenceLog(self._ask, self._base, self._headers, self._http, self._options.store)

    async def ask(self, method: str, path: str, body: Any = None, *, timeout: float = 15.0) -> Any:
        """For what is done outside of scenarios, such as signing in."""
        return await self._ask(method, path, body, timeout=timeout)

    async def _ask(self, method: str, path: str, body: Any = None, *, timeout: float = 15.0, params: Mapping[str, str] | None = None) -> Any:
        try:
            response = await self._http.request(method, self._base + path, json=body, headers=self._headers, timeout=timeout, params=params)
        except httpx2.HTTPError as error:
            with suppress(TimeoutError):  # one that has just died is known to have a moment later
                async with asyncio.timeout(NOTICED_WITHIN_S):
                    await self._process.wait()
            state = f"it ended with code {self._process.returncode}" if self._process.returncode is not None else "it is still running"
            raise Unreachable(
                f"the gateway did not answer {method} {path}: {str(error) or type(error).__name__}; {state}",
                where=self._base + path,
                fix=SEE_LOG,
            ) from None
        return _unwrap(method, path, response)

    async def open_tenant(self, name: str) -> str:
        return str((await self._ask("POST", "/tenants", {"tenant": name}))["tenant"])

    async def close_tenant(self, tenant: str) -> None:
        """Nothing to do: a tenant costs nothing and ends with the gateway."""

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
        if request.template is not None:
            body["template"] = request.template
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

    async def review(self, tenant: str, connection: str, tool: str, *, decision: str, by: str) -> Mapping[str, Any]:
        path = f"/tenants/{tenant}/connections/{connection}/reviews"
        waiting = (await self._ask("GET", path, params={"state": "pending_review"}))["reviews"]
        entry = next((each for each in waiting if each["tool"] == tool), None)
        if entry is None:
            raise HarnessError(f"nothing of {connection}.{tool} waits for review", where=path, fix="change the tool, and refresh, before the review")
        return _mapping((await self._ask("POST", f"{path}/{entry['id']}", {"decision": decision, "by": by}))["review"])

    async def set_agents(self, tenant: str, connection: str, agents: Sequence[str] | None) -> Mapping[str, Any]:
        body = {"agents": list(agents) if agents is not None else None}
        return _mapping(await self._ask("PUT", f"/tenants/{tenant}/connections/{connection}/agents", body))

    async def set_mode(self, tenant: str, run: str, mode: str) -> Mapping[str, Any]:
        return _mapping(await self._ask("POST", f"/tenants/{tenant}/runs/{run}/mode", {"mode": mode}))

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

    def tool_of(self, exposed: str, connection: str = "") -> tuple[str, str]:
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
