"""The provider of the transparency report: one MCP server that shows, on purpose, everything a gateway can change on the way.

It speaks all three protocol versions without a session, pages its list, checks nothing that it is given, and keeps what reached it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send

from harness.fake.kit import serve_app
from harness.model.digest import loads_exact
from harness.model.scenario import NEWEST_PROTOCOL, PROTOCOLS
from harness.transparency.lab_tools import FAILS_HARD, STEPS, UNKNOWN, WAITS, Wire, answer_of

PAGE = 4
PATH = "/mcp"
SERVER = {"name": "lab-provider", "version": "1.0.0", "title": "The provider under the glass"}
INSTRUCTIONS = "Ask before you wipe."
CAPABILITIES = {"tools": {"listChanged": True}}


@dataclass(slots=True)
class Seen:
    """One message that reached the provider. `raw` is the request body as sent; `ended` says how a call that waits came to its end."""

    method: str
    params: Mapping[str, Any]
    rpc_id: Any
    headers: Mapping[str, str]
    raw: bytes
    ended: str = ""


@dataclass(slots=True)
class Lab:
    """`tools` may be replaced while it runs. `url` is set once it is served. A wrong credential is answered 401."""

    credential: str
    tools: list[Wire]
    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    waiting: dict[str, asyncio.Event] = field(default_factory=dict)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def since(self, mark: int, *methods: str) -> list[Seen]:
        return [one for one in self.seen[mark:] if not methods or one.method in methods]

    def calls(self, mark: int) -> list[Seen]:
        return self.since(mark, "tools/call")

    async def until(self, met: Any, within_s: float) -> bool:
        """True as soon as `met()` holds, False when the time is over. `met` is asked whenever something reached the provider."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while not met():
                    await self.arrived.wait()
        return bool(met())

    async def quiet(self, for_s: float, within_s: float) -> bool:
        """True once nothing has reached the provider for `for_s` seconds, False when that did not come about in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while True:
                    count = len(self.seen)
                    if not await self.until(lambda known=count: len(self.seen) > known, for_s):
                        return True
        return False

    def touch(self) -> None:
        self.arrived.set()
        self.arrived = asyncio.Event()

    def release(self) -> None:
        """Every call that still waits comes to its end."""
        for event in self.waiting.values():
            event.set()

    # ---- the ASGI application

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("authorization") != f"Bearer {self.credential}":
            await _whole(send, 401, b'{"error":"invalid_token"}', (b"www-authenticate", b'Bearer realm="lab"'))
        elif scope["method"] != "POST" or not scope["path"].rstrip("/").endswith(PATH):
            await _whole(send, 405 if scope["method"] != "POST" else 404, b"{}")
        else:
            await self._post(await _body(receive), headers, receive, send)

    async def _post(self, body: bytes, headers: Mapping[str, str], receive: Receive, send: Send) -> None:
        try:
            message = loads_exact(body)
        except ValueError:
            message = None
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            await _whole(send, 202 if isinstance(message, dict) else 400, b"")
            return
        params = message.get("params")
        seen = Seen(message["method"], params if isinstance(params, dict) else {}, message.get("id"), headers, body)
        self.seen.append(seen)
        if seen.method == "notifications/cancelled":
            waits = self.waiting.get(str(seen.params.get("requestId")))
            if waits is not None:
                waits.set()
        self.touch()
        if seen.rpc_id is None:
            await _whole(send, 202, b"")
            return
        await self._answer(seen, receive, send)

    async def _answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        tool = str(seen.params.get("name", "")) if seen.method == "tools/call" else ""
        if tool == WAITS:
            await self._wait(seen, receive, send)
            return
        token = (seen.params.get("_meta") or {}).get("progressToken")
        progress = [{"progressToken": token, **step} for step in STEPS] if tool == "count_up" and token is not None else []
        message = {"jsonrpc": "2.0", "id": seen.rpc_id, **self._reply(seen, tool)}
        if progress and "text/event-stream" in seen.headers.get("accept", ""):
            told = [{"jsonrpc": "2.0", "method": "notifications/progress", "params": step} for step in progress]
            await _events(send, [*told, message])
        else:
            await _whole(send, 200, json.dumps(message).encode())

    async def _wait(self, seen: Seen, receive: Receive, send: Send) -> None:
        """Until it is cancelled, the other side hangs up, or the laboratory lets it go."""
        event = self.waiting[str(seen.rpc_id)] = asyncio.Event()
        gone, told = asyncio.create_task(_hung_up(receive)), asyncio.create_task(event.wait())
        try:
            await asyncio.wait({gone, told}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            told.cancel()
        seen.ended = "hung up" if not event.is_set() else "told"
        self.touch()
        if event.is_set():
            result = {"content": [{"type": "text", "text": "waited"}], "isError": False}
            with suppress(OSError):
                await _whole(send, 200, json.dumps({"jsonrpc": "2.0", "id": seen.rpc_id, "result": result}).encode())

    def _reply(self, seen: Seen, tool: str) -> dict[str, Any]:
        modern = seen.headers.get("mcp-protocol-version") == NEWEST_PROTOCOL
        extra: dict[str, Any] = {"resultType": "complete"} if modern else {}
        cached = {"ttlMs": 0, "cacheScope": "private"} if modern else {}
        if seen.method == "initialize":
            asked = seen.params.get("protocolVersion")
            version = asked if asked in PROTOCOLS[:-1] else PROTOCOLS[-2]
            return {"result": {"protocolVersion": version, "capabilities": CAPABILITIES, "serverInfo": SERVER, "instructions": INSTRUCTIONS}}
        if seen.method == "server/discover":
            meta = {"io.modelcontextprotocol/serverInfo": SERVER}
            found = {"supportedVersions": list(PROTOCOLS), "capabilities": CAPABILITIES, "instructions": INSTRUCTIONS, "_meta": meta}
            return {"result": {**found, **extra, **cached}}
        if seen.method == "tools/list":
            page = self._page(seen.params.get("cursor"))
            return {"result": {**page, **extra, **cached}} if page is not None else {"error": {"code": -32602, "message": "Invalid cursor"}}
        if seen.method == "tools/call":
            if tool not in {each["name"] for each in self.tools}:
                return {"error": UNKNOWN}
            if tool == "fail_hard":
                return {"error": FAILS_HARD}
            return {"result": {**answer_of(tool, seen.params.get("arguments") or {}), **extra}}
        if seen.method == "ping":
            return {"result": {}}
        return {"error": {"code": -32601, "message": f"Method not found: {seen.method}"}}

    def _page(self, cursor: Any) -> dict[str, Any] | None:
        start = 0
        if cursor is not None:
            number = str(cursor).removeprefix("after-")
            if not number.isdigit() or int(number) >= len(self.tools):
                return None
            start = int(number)
        end = start + PAGE
        return {"tools": self.tools[start:end], **({"nextCursor": f"after-{end}"} if end < len(self.tools) else {})}


@asynccontextmanager
async def served(credential: str, tools: Sequence[Wire]) -> AsyncIterator[Lab]:
    """A laboratory on loopback, for as long as the block lasts. Raises PortInUse or Unreachable."""
    lab = Lab(credential, list(tools))
    async with serve_app(lab.app) as base_url:
        lab.url = base_url
        try:
            yield lab
        finally:
            lab.release()


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _body(receive: Receive) -> bytes:
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def _hung_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _whole(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    kind = [(b"content-type", b"application/json")] if body else []
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*kind, length, *headers]})
    await send({"type": "http.response.body", "body": body})


async def _events(send: Send, messages: Sequence[Mapping[str, Any]]) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for message in messages:
        await send({"type": "http.response.body", "body": b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n", "more_body": True})
    await send({"type": "http.response.body", "body": b""})
