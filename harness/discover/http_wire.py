"""Streamable HTTP, as little of it as discovery needs: POST, JSON or an event stream back, a session id."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx2

from harness.discover.wire import MODERN, Limits, RpcFailure, WireProblem, answer_in, asks, decode, message, reply_to
from harness.errors import CredentialsMissing, Unreachable, UsageError

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")


class EventStream:
    """Incremental server-sent events. `feed` returns the data of each event that the bytes complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        # A \r at the very end may be half of \r\n: it waits for the next chunk.
        *lines, self._rest = _LINE_END.split(self._rest + chunk)
        events: list[bytes] = []
        for line in lines:
            if not line:
                if any(self._data):  # an empty one carries only its id, for a client that would come back to it
                    events.append(b"\n".join(self._data))
                self._data = []
            elif line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
        return events


class HttpWire:
    """One MCP conversation over HTTP. Not for concurrent use."""

    def __init__(self, url: str, client: httpx2.AsyncClient, headers: Mapping[str, str], limits: Limits) -> None:
        self._url, self._client, self._extra, self._limits = url, client, dict(headers), limits
        self._version: str | None = None
        self._session: str | None = None
        self._next_id = 0
        self._read = 0
        self._shown = public_url(url)

    def agree(self, version: str) -> None:
        self._version = version

    async def request(self, method: str, params: Mapping[str, Any] | None) -> Mapping[str, Any]:
        self._next_id += 1
        try:
            async with asyncio.timeout(self._limits.request_s):
                return await self._exchange(message(method, params, self._next_id), method, self._next_id)
        except TimeoutError as error:
            raise WireProblem("timeout", f"no answer to {method} within {self._limits.request_s:g} s") from error
        except httpx2.ConnectError as error:
            raise Unreachable(f"no connection: {error}", where=self._shown, fix="check that the server runs and the address is right") from error
        except httpx2.InvalidURL as error:
            raise UsageError(f"not a usable URL: {error}", where=self._shown, fix="give an http:// or https:// URL") from error
        except httpx2.HTTPError as error:
            raise WireProblem("disconnected", f"{type(error).__name__}: {error}") from error

    async def notify(self, method: str) -> None:
        await self._send(message(method, None, None))

    async def close(self) -> None:
        """End the session if there is one. A server that refuses or is gone is no concern of a finished capture."""
        if self._session is None:
            return
        try:
            async with asyncio.timeout(min(5.0, self._limits.request_s)):
                await self._client.delete(self._url, headers=self._headers(None))
        except (httpx2.HTTPError, TimeoutError):
            return

    async def _exchange(self, body: dict[str, Any], method: str, request_id: int) -> Mapping[str, Any]:
        async with self._client.stream("POST", self._url, content=json.dumps(body), headers=self._headers(method)) as response:
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if not response.is_success:
                return await self._refused(response, kind, request_id)
            self._session = response.headers.get("mcp-session-id", self._session)
            if kind == "text/event-stream":
                return await self._from_events(response, request_id)
            if kind != "application/json":
                raise WireProblem("not-mcp", f"answered {kind or 'no content type'} to {method}")
            value = decode(b"".join([chunk async for chunk in self._chunks(response)]), self._limits.response_bytes)
            result = answer_in(value, request_id)
            if result is None:
                raise WireProblem("wrong-id", f"the answer to {method} carries another id, or none")
            return result

    async def _from_events(self, response: httpx2.Response, request_id: int) -> Mapping[str, Any]:
        stream = EventStream()
        async for chunk in self._chunks(response):
            for event in stream.feed(chunk):
                value = decode(event, self._limits.response_bytes)
                result = answer_in(value, request_id)
                if result is not None:
                    return result
                for asked in asks(value):
                    await self._send(reply_to(asked))
        raise WireProblem("no-answer", "the event stream ended without an answer")

    async def _refused(self, response: httpx2.Response, kind: str, request_id: int) -> Mapping[str, Any]:
        """A non-2xx status: credentials, a JSON-RPC error in its body, or something that is no MCP server."""
        status = response.status_code
        if status in (401, 403):
            what = f"refused with HTTP {status}"
            raise CredentialsMissing(what, where=self._shown, fix="give a credential, for example --header-env Authorization=VARIABLE")
        if kind == "application/json":
            value = decode(b"".join([chunk async for chunk in self._chunks(response)]), self._limits.response_bytes)
            if isinstance(value, Mapping) and isinstance(error := value.get("error"), Mapping) and value.get("id") in (request_id, None):
                code = error.get("code")
                raise RpcFailure(code if isinstance(code, int) else 0, str(error.get("message")))
        raise WireProblem("http-status", f"answered HTTP {status}")

    async def _chunks(self, response: httpx2.Response) -> AsyncIterator[bytes]:
        """Body bytes after decoding, bounded per response and in all: a compressed bomb must not get through."""
        here = 0
        async for chunk in response.aiter_bytes(65536):
            here += len(chunk)
            self._read += len(chunk)
            if here > self._limits.response_bytes or self._read > self._limits.total_bytes:
                raise WireProblem("too-many-bytes", f"more than {min(self._limits.response_bytes, self._limits.total_bytes)} bytes")
            yield chunk

    async def _send(self, body: dict[str, Any]) -> None:
        """A message that gets no answer. The SDK's servers say 202; what they say else does not matter for discovery."""
        try:
            async with (
                asyncio.timeout(self._limits.request_s),
                self._client.stream("POST", self._url, content=json.dumps(body), headers=self._headers(body.get("method"))),
            ):
                return
        except (httpx2.HTTPError, TimeoutError) as error:
            raise WireProblem("disconnected", f"{body.get('method', 'an answer')} was not taken: {type(error).__name__}") from error

    def _headers(self, method: str | None) -> dict[str, str]:
        own = {"accept": "application/json, text/event-stream", "content-type": "application/json", "accept-encoding": "identity"}
        if self._version is not None:
            own["mcp-protocol-version"] = self._version
        if self._version in MODERN and method is not None:
            own["mcp-method"] = method
        if self._session is not None:
            own["mcp-session-id"] = self._session
        return {**own, **self._extra}


@asynccontextmanager
async def http_wire(url: str, client: httpx2.AsyncClient, headers: Mapping[str, str], limits: Limits) -> AsyncIterator[HttpWire]:
    """A wire to `url`; its session is ended on the way out."""
    wire = HttpWire(url, client, headers, limits)
    try:
        yield wire
    finally:
        await wire.close()


def public_url(url: str) -> str:
    """`url` without user, password, query and fragment: any of them can hold a secret."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "", ""))
