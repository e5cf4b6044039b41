"""Gateways as processes of their own on one store, and a small provider that counts what reaches it. On loopback, ended with the block."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2

VERSION = "2026-07-28"
TOKEN = "torture-operator-token"
TOOL = {
    "name": "add_note",
    "description": "Adds a note.",
    "inputSchema": {"type": "object", "properties": {"id": {"type": "string"}, "delay_ms": {"type": "integer"}}, "required": ["id"]},
}
Json = dict[str, Any]


@dataclass(frozen=True)
class Parked:
    """A call that is not answered until it is released."""

    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    released: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class Provider:
    """Speaks just enough MCP. `seen`: id argument → how often a tools/call with it arrived."""

    port: int = 0
    seen: Counter[str] = field(default_factory=Counter)
    open: dict[asyncio.StreamWriter, asyncio.Event] = field(default_factory=dict)
    """Connections, each with what says that it is done with."""
    parked: dict[str, Parked] = field(default_factory=dict)

    def park(self, name: str) -> Parked:
        """The next calls with this id argument wait for their release."""
        return self.parked.setdefault(name, Parked())

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        done = self.open[writer] = asyncio.Event()
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if b": " in line)
                body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
                answer = await self._answer(json.loads(body)) if body else None
                text = json.dumps(answer).encode() if answer is not None else b""
                status = b"200 OK" if answer is not None else b"202 Accepted"
                writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(text) + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.open.pop(writer)
            done.set()

    async def _answer(self, request: Json) -> Json | None:
        if "id" not in request:
            return None
        result: Json
        match request["method"]:
            case "initialize":
                version = request["params"]["protocolVersion"]
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "counter", "version": "1"}}
            case "server/discover":
                own = {"name": "counter", "version": "1"}
                result = {
                    "resultType": "complete", "supportedVersions": [VERSION], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private",
                    "serverInfo": own, "_meta": {"io.modelcontextprotocol/serverInfo": own},
                }  # fmt: skip
            case "tools/list":
                result = {"tools": [TOOL], "resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
            case "tools/call":
                arguments = request["params"].get("arguments", {})
                self.seen[arguments["id"]] += 1
                if parked := self.parked.get(arguments["id"]):
                    parked.arrived.set()
                    await parked.released.wait()
                await asyncio.sleep(arguments.get("delay_ms", 0) / 1000)
                result = {"content": [{"type": "text", "text": arguments["id"]}], "isError": False, "resultType": "complete"}
            case _:
                return {"jsonrpc": "2.0", "id": request["id"], "error": {"code": -32601, "message": "no such method"}}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}


@contextlib.asynccontextmanager
async def provider() -> AsyncIterator[Provider]:
    made = Provider()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=1 << 20)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for writer, done in list(made.open.items()):
            writer.close()
            await done.wait()


@dataclass(frozen=True, slots=True)
class Started:
    """How long a process took until it was ready, in seconds: of CPU, by the clock, and by the clock less what it waited for a processor.

    The last is what a start would have taken alone on this machine, whatever else ran.
    """

    cpu_s: float
    wall_s: float
    alone_s: float


def _started(pid: int, wall_s: float) -> Started:
    """The kernel's own count; where it keeps none of waiting for a processor, only CPU time is known."""
    times = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    cpu_s = (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")
    queue = Path(f"/proc/{pid}/schedstat")
    if not queue.exists():
        return Started(cpu_s, wall_s, cpu_s)
    return Started(cpu_s, wall_s, wall_s - int(queue.read_text(encoding="ascii").split()[1]) / 1e9)


class Gateway:
    """One process. `kill()` is SIGKILL; `start()` may follow it on the same store."""

    program: tuple[str, ...] = (sys.executable, "-m", "reference_gateway")

    def __init__(self, folder: Path, *defects: str) -> None:
        self.folder = folder
        self.defects = defects
        self.operator = self.mcp = ""
        self._process: subprocess.Popen[str] | None = None
        key = folder / "vault.key"
        if not key.exists():
            key.write_bytes(secrets.token_bytes(32))
            key.chmod(0o600)

    def start(self) -> Started:
        began = time.monotonic()
        command = [*self.program, "--allow-loopback", "--store", str(self.folder / "gateway.db")]
        command += ["--vault-key-file", str(self.folder / "vault.key"), *(word for name in self.defects for word in ("--defect", name))]
        environment = {**os.environ, "GATEWAY_OPERATOR_TOKEN": TOKEN}
        with (self.folder / "gateway.log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environment)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the gateway did not start: {(self.folder / 'gateway.log').read_text()[-2000:]}")
        ready = json.loads(line)
        self.operator, self.mcp = ready["operator"], ready["mcp"]
        return _started(self._process.pid, time.monotonic() - began)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.communicate()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.communicate(timeout=20)


class Person:
    """The operator API of one gateway."""

    def __init__(self, http: httpx2.AsyncClient, gateway: Gateway) -> None:
        self._http = http
        self._gateway = gateway

    async def __call__(self, method: str, path: str, body: Json | None = None) -> tuple[int, Json]:
        answer = await self._http.request(method, self._gateway.operator + path, json=body, headers={"authorization": f"Bearer {TOKEN}"})
        return answer.status_code, answer.json() if answer.content else {}

    async def need(self, method: str, path: str, body: Json | None = None) -> Json:
        status, found = await self(method, path, body)
        if status >= 300:
            raise RuntimeError(f"{method} {path}: {status} {found}")
        return found

    async def connect(self, tenant: str, counter: Provider, permission: str) -> None:
        await self.need("POST", "/tenants", {"tenant": tenant})
        await self.need(
            "POST", f"/tenants/{tenant}/connections",
            {"name": "notes", "provider": "generic", "transport": "mcp_http", "url": counter.url, "auth": {"scheme": "none"}, "credentials": {},
             "quarantine": False, "protocol_version": VERSION, "permissions": {"add_note": permission}},
        )  # fmt: skip

    async def run(self, tenant: str) -> str:
        made = await self.need("POST", f"/tenants/{tenant}/runs", {"connections": ["notes"], "task": "t", "agent": "a", "ttl_s": 900})
        return str(made["token"])

    async def records(self, tenant: str) -> list[Json]:
        found: list[Json] = []
        while True:
            after = found[-1]["seq"] if found else 0
            page = (await self.need("GET", f"/tenants/{tenant}/audit?after={after}&limit=1000"))["records"]
            found += page
            if len(page) < 1000:
                return found


def client() -> httpx2.AsyncClient:
    limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
    return httpx2.AsyncClient(trust_env=False, timeout=60, limits=limits)


async def call(http: httpx2.AsyncClient, gateway: Gateway, token: str, arguments: Mapping[str, Any]) -> Json:
    """One tools/call of an agent. `{}` when no whole answer came."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "torture", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add_note", "arguments": dict(arguments), "_meta": meta}}
    headers = {
        "authorization": f"Bearer {token}", "accept": "application/json, text/event-stream", "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call", "mcp-name": "add_note",
    }  # fmt: skip
    try:
        answer = await http.post(gateway.mcp, json=request, headers=headers)
        text = answer.text
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            lines = [line[5:].strip() for line in text.splitlines() if line.startswith("data:")]
            text = lines[-1] if lines else ""
        found: Json = json.loads(text) if text else {}
    except (httpx2.HTTPError, ValueError):
        return {}
    return found


def outcome(answer: Json) -> str:
    """The gateway's own word on a call, "" when there is none."""
    result = answer.get("result")
    return str(result.get("_meta", {}).get("gateway/outcome", "")) if isinstance(result, dict) else ""


def held(answer: Json) -> str | None:
    """The approval that a call waits for, or that it had."""
    result = answer.get("result")
    found = result.get("_meta", {}).get("gateway/approval", {}).get("id") if isinstance(result, dict) else None
    return str(found) if found is not None else None
