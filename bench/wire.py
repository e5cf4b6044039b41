"""A load generator that costs little: HTTP/1.1 over a plain stream, one connection an agent, every answer read whole."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from bench.processes import Broken

Json = dict[str, Any]
LEGACY, MODERN = "2025-11-25", "2026-07-28"
REOPEN_S = 3.0
"""A connection that was idle for so long is opened anew: servers close it after 5 s, and a slow neighbour is not an error of theirs."""

CLIENT = {"name": "bench", "version": "1"}


class Connection:
    """One kept-alive connection."""

    def __init__(self, url: str) -> None:
        self.url = urlsplit(url)
        self.path = self.url.path
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def open(self) -> None:
        self._used = time.monotonic()
        self._reader, self._writer = await asyncio.open_connection(self.url.hostname, self.url.port, limit=1 << 24)

    def close(self) -> None:
        self._writer.close()

    async def request(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Status, headers in lower case, body."""
        if time.monotonic() - self._used > REOPEN_S:
            self.close()
            await self.open()
        self._used = time.monotonic()
        lines = [f"{method} {path} HTTP/1.1", f"host: {self.url.netloc}", f"content-length: {len(body)}", "content-type: application/json"]
        head = "\r\n".join([*lines, *(f"{k}: {v}" for k, v in headers.items())]) + "\r\n\r\n"
        self._writer.write(head.encode() + body)
        first, *rest = (await self._reader.readuntil(b"\r\n\r\n"))[:-4].decode().split("\r\n")
        answered = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in rest)}
        return int(first.split(" ", 2)[1]), answered, await self._body(answered)

    async def _body(self, headers: Mapping[str, str]) -> bytes:
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", "0")))
        body = b""
        while size := int((await self._reader.readline()).split(b";")[0], 16):
            body += (await self._reader.readexactly(size + 2))[:-2]
        await self._reader.readline()
        return body


async def ask(base: str, token: str, method: str, path: str, body: Json | None = None) -> Any:
    """One request to an operator API. Raises Broken for anything but success."""
    connection = Connection(base)
    await connection.open()
    try:
        content = b"" if body is None else json.dumps(body).encode()
        status, _, answer = await connection.request(method, connection.path + path, {"authorization": f"Bearer {token}"}, content)
    finally:
        connection.close()
    if status >= 300:
        raise Broken(f"{method} {path}: {status} {answer[:300]!r}")
    return json.loads(answer) if answer else None


class Agent:
    """An MCP session at one pinned version, on a connection of its own."""

    def __init__(self, url: str, token: str, protocol: str) -> None:
        self.protocol = protocol
        self._connection = Connection(url)
        self._headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}
        self._id = 0

    async def __aenter__(self) -> Agent:
        await self._connection.open()
        if self.protocol == LEGACY:
            await self._ask("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": CLIENT})
            self._headers["mcp-protocol-version"] = LEGACY
            await self._post({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})
        return self

    async def __aexit__(self, *_: object) -> None:
        self._connection.close()

    async def call(self, tool: str, arguments: Json) -> Json:
        """The result of one tools/call."""
        return await self._ask("tools/call", {"name": tool, "arguments": arguments})

    async def _ask(self, method: str, params: Json) -> Json:
        self._id += 1
        extra: dict[str, str] = {}
        if self.protocol == MODERN:
            extra = {"mcp-protocol-version": MODERN, "mcp-method": method, "mcp-name": str(params.get("name", ""))}
            words = {"protocolVersion": MODERN, "clientInfo": CLIENT, "clientCapabilities": {}}
            params = {**params, "_meta": {f"io.modelcontextprotocol/{k}": v for k, v in words.items()}}
        status, headers, body = await self._post({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}, extra)
        if status != 200:
            raise Broken(f"{method}: HTTP {status} {body[:300]!r}")
        if "mcp-session-id" in headers:
            self._headers["mcp-session-id"] = headers["mcp-session-id"]
        for message in _messages(headers.get("content-type", ""), body):
            if message.get("id") == self._id and "result" in message:
                result: Json = message["result"]
                return result
        raise Broken(f"{method}: no result to request {self._id} in {body[:300]!r}")

    async def _post(self, message: Json, extra: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
        content = json.dumps(message, separators=(",", ":")).encode()
        return await self._connection.request("POST", self._connection.path, {**self._headers, **extra}, content)


def _messages(kind: str, body: bytes) -> list[Json]:
    if not kind.startswith("text/event-stream"):
        return [json.loads(body)]
    lines = body.decode().replace("\r\n", "\n").split("\n")
    return [json.loads(line[5:]) for line in lines if line.startswith("data:") and line[5:].strip()]
