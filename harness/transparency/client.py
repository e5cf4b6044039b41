"""The agent of the transparency report: raw JSON-RPC over HTTP, every notification kept, nothing re-modelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx2

from harness.discover.http_wire import EventStream
from harness.discover.wire import CLIENT_INFO, modern_params
from harness.errors import Unreachable
from harness.model.digest import loads_exact
from harness.model.scenario import NEWEST_PROTOCOL

ACCEPT = "application/json, text/event-stream"
WITHIN_S = 20.0
MAX_PAGES = 50
CANCELLED = "notifications/cancelled"

Message = dict[str, Any]


@dataclass(slots=True)
class Reply:
    """What came back to one request: the answer (its `result` or `error`), the notifications before it, or `trouble` in words."""

    status: int = 0
    message: Message | None = None
    notes: list[Message] = field(default_factory=list)
    trouble: str = ""

    @property
    def result(self) -> Message | None:
        found = (self.message or {}).get("result")
        return found if isinstance(found, dict) else None

    @property
    def error(self) -> Message | None:
        found = (self.message or {}).get("error")
        return found if isinstance(found, dict) else None


@dataclass(slots=True)
class Pages:
    """A whole list, or what there was of it: `trouble` says why it is `incomplete`."""

    tools: list[Message]
    count: int
    trouble: str = ""
    cursors: list[Any] = field(default_factory=list)


class Agent:
    """One session at one protocol version. Requests may overlap."""

    def __init__(self, url: str, http: httpx2.AsyncClient, token: str, protocol: str) -> None:
        self._url, self._http, self._token, self.protocol = url, http, token, protocol
        self._session = ""
        self._next = 100
        self.server: Message = {}
        self.heard: list[Message] = []
        """Notifications on the standing stream."""
        self.throttled = 0
        """Answers that were HTTP 429."""
        self.foreign = 0
        """Answers to requests that this session did not make, where one of its own was due."""

    @property
    def modern(self) -> bool:
        return self.protocol == NEWEST_PROTOCOL

    async def open(self) -> str:
        """"" when the session stands at the version that was asked for, else why not."""
        if self.modern:
            reply = await self.ask("server/discover", {})
            self.server = reply.result or {}
            versions = self.server.get("supportedVersions")
            return "" if isinstance(versions, list) and self.protocol in versions else _why(reply)
        hello = {"protocolVersion": self.protocol, "capabilities": {}, "clientInfo": CLIENT_INFO}
        reply = await self.ask("initialize", hello)
        self.server = reply.result or {}
        offered = self.server.get("protocolVersion")
        if offered != self.protocol:
            return f"offered {offered}" if offered else _why(reply)
        await self.tell("notifications/initialized", {})
        return ""

    async def ask(self, method: str, params: Mapping[str, Any], *, within_s: float = WITHIN_S, headers: Mapping[str, str] | None = None) -> Reply:
        self._next += 1
        return await self.send(self._next, method, params, within_s=within_s, headers=headers)

    def number(self) -> int:
        """An id for a request that is to be cancelled later."""
        self._next += 1
        return self._next

    async def send(
        self, number: int, method: str, params: Mapping[str, Any], *, within_s: float = WITHIN_S, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Never raises for what the other side did."""
        sent = self._enveloped(params)
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": sent})
        reply = Reply()
        try:
            async with asyncio.timeout(within_s):
                await self._exchange(body, number, {**self._headers(method, params), **(headers or {})}, reply)
        except TimeoutError:
            reply.trouble = f"no answer within {within_s:g} s"
        except httpx2.HTTPError as error:
            reply.trouble = f"the connection broke: {type(error).__name__}"
        return reply

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": dict(params)})
        with suppress(httpx2.HTTPError):
            await self._http.post(self._url, content=body, headers=self._headers(method, params), timeout=WITHIN_S)

    async def call(self, tool: str, arguments: Mapping[str, Any], *, meta: Mapping[str, Any] | None = None, within_s: float = WITHIN_S) -> Reply:
        return await self.ask("tools/call", _call(tool, arguments, meta), within_s=within_s)

    async def list_tools(self) -> Pages:
        tools: list[Message] = []
        cursor: str | None = None
        known: list[str] = []
        for count in range(1, MAX_PAGES + 1):
            reply = await self.ask("tools/list", {} if cursor is None else {"cursor": cursor})
            if reply.result is None:
                return Pages(tools, count - 1, _why(reply), known)
            tools += [tool for tool in reply.result.get("tools") or () if isinstance(tool, dict)]
            cursor = reply.result.get("nextCursor")
            if cursor is None:
                return Pages(tools, count, cursors=known)
            if cursor in known:
                return Pages(tools, count, "a cursor came twice", known)
            known.append(cursor)
        return Pages(tools, MAX_PAGES, "too many pages", known)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Keeps what is told on the standing stream, if there is one; a gateway without one tells nothing."""
        task = asyncio.create_task(self._listen())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def close(self) -> None:
        if self._session:
            with suppress(httpx2.HTTPError):
                await self._http.delete(self._url, headers=self._headers("", {}), timeout=3.0)

    async def _listen(self) -> None:
        headers = {**self._headers("", {}), "accept": "text/event-stream"}
        with suppress(httpx2.HTTPError):
            async with self._http.stream("GET", self._url, headers=headers, timeout=None) as response:
                if response.headers.get("content-type", "").startswith("text/event-stream"):
                    events = EventStream()
                    async for chunk in response.aiter_raw():
                        self.heard += _read(events.feed(chunk))

    async def _exchange(self, body: str, number: int, headers: Mapping[str, str], reply: Reply) -> None:
        async with self._http.stream("POST", self._url, content=body, headers=dict(headers), timeout=None) as response:
            reply.status = response.status_code
            self.throttled += reply.status == 429
            self._session = response.headers.get("mcp-session-id", self._session)
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                raw = await response.aread()
                found = _read([raw])
                reply.message = found[0] if found and _answers(found[0], number) else None
                if reply.message is None:
                    foreign = bool(found) and "id" in found[0]
                    self.foreign += foreign
                    reply.trouble = "an answer to another request came" if foreign else f"HTTP {response.status_code} without an answer"
                return
            events = EventStream()
            async for chunk in response.aiter_raw():
                for message in _read(events.feed(chunk)):
                    if "method" in message:
                        reply.notes.append(message)
                    elif message.get("id") == number:
                        reply.message = message
                        return
            reply.trouble = "the stream ended without an answer"

    def _enveloped(self, params: Mapping[str, Any]) -> Message:
        if not self.modern:
            return dict(params)
        made = modern_params(params, self.protocol)
        return {**made, "_meta": {**(params.get("_meta") or {}), **made["_meta"]}}

    def _headers(self, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        headers = {"accept": ACCEPT, "content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token}"
        if method != "initialize":
            headers["mcp-protocol-version"] = self.protocol
        if self._session:
            headers["mcp-session-id"] = self._session
        if self.modern and method:
            headers["mcp-method"] = method
            if method == "tools/call":
                headers["mcp-name"] = str(params.get("name", ""))
        return headers


def _call(tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any] | None = None) -> Message:
    return {"name": tool, "arguments": dict(arguments), **({"_meta": dict(meta)} if meta else {})}


def _read(parts: list[bytes]) -> list[Message]:
    found = []
    for part in parts:
        with suppress(ValueError):
            message = loads_exact(part)
            if isinstance(message, dict):
                found.append(message)
    return found


def _answers(message: Message, number: int) -> bool:
    """The request's own answer; an error may come without an id, when the other side could not read it."""
    if "error" in message and message.get("id") is None:
        return True
    return ("result" in message or "error" in message) and message.get("id") == number


def _why(reply: Reply) -> str:
    if reply.error is not None:
        return f"JSON-RPC error {reply.error.get('code')}: {str(reply.error.get('message'))[:200]}"
    return reply.trouble or f"HTTP {reply.status}"


@asynccontextmanager
async def agent(url: str, http: httpx2.AsyncClient, token: str, protocol: str) -> AsyncIterator[Agent]:
    """An open session. Raises Unreachable when the other side does not let it in at this version."""
    made = Agent(url, http, token, protocol)
    refused = await made.open()
    if refused:
        raise Unreachable(f"no MCP session at {protocol}: {refused}", where=url, fix="choose a version that it speaks with --protocol")
    try:
        yield made
    finally:
        await made.close()
