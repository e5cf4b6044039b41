"""A synchronous bench for the stand-ins: one event loop in a thread, real loopback servers, real MCP clients.

`bench_of("mem0")` serves a provider once; `bench.open()` admits a fresh credential and returns a Wire to its empty store.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
import mcp_types as t
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from harness.clock import TestClock
from harness.fake.kit import Account, Consent, RunningFake, serve

NEWEST = "2026-07-28"
VERSIONS = ("2025-06-18", "2025-11-25", NEWEST)


class _Pinned(ClientSession):
    """Offers exactly one of the handshake versions."""

    pin = ""

    async def initialize(self) -> t.InitializeResult:
        offer = t.InitializeRequestParams(
            protocol_version=self.pin, capabilities=t.ClientCapabilities(), client_info=t.Implementation(name="test", version="1")
        )
        answer = await self.send_request(t.InitializeRequest(params=offer), t.InitializeResult)
        assert answer.protocol_version == self.pin
        self.adopt(answer)
        await self.send_notification(t.InitializedNotification())
        return answer


@asynccontextmanager
async def connected(url: str, http: httpx2.AsyncClient, version: str = NEWEST) -> AsyncIterator[ClientSession]:
    """An MCP client session at exactly this protocol version."""
    async with streamable_http_client(url, http_client=http) as (read, write), _Pinned(read, write) as session:
        session.pin = version
        if version in MODERN_PROTOCOL_VERSIONS:
            capabilities = t.ServerCapabilities()
            session.adopt(t.DiscoverResult(supported_versions=[version], capabilities=capabilities, ttl_ms=0, cache_scope="public"))
        else:
            await session.initialize()
        yield session


class WatchedClock(TestClock):
    """A test clock that tells how many are asleep on it."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__()
        self.asleep = 0

    async def sleep(self, seconds: float) -> None:
        self.asleep += 1
        try:
            await super().sleep(seconds)
        finally:
            self.asleep -= 1


@dataclass(frozen=True)
class Answer:
    """A tool result, read the way a caller does: `json` is the text parsed, which must equal the structured content if there is any."""

    result: t.CallToolResult

    @property
    def is_error(self) -> bool:
        return self.result.is_error

    @property
    def text(self) -> str:
        (block,) = self.result.content
        assert isinstance(block, t.TextContent)
        return block.text

    @property
    def json(self) -> Any:
        parsed = json.loads(self.text)
        assert self.result.structured_content in (None, parsed)
        return parsed


class Wire:
    """One credential's connection."""

    def __init__(self, bench: Bench, session: ClientSession, credential: str) -> None:
        self._bench = bench
        self._session = session
        self.credential = credential

    def ask(self, tool: str, **arguments: Any) -> Answer:
        return Answer(self._bench.portal.call(self._session.call_tool, tool, arguments))

    def get(self, tool: str, **arguments: Any) -> Any:
        """The JSON of a call that must succeed, with structured content equal to the text."""
        answer = self.ask(tool, **arguments)
        assert not answer.is_error, answer.text
        assert answer.result.structured_content == answer.json
        return answer.json

    def pages(self) -> list[t.ListToolsResult]:
        """Every page of tools/list."""

        def page(cursor: str | None) -> t.ListToolsResult:
            return self._bench.portal.call(lambda: self._session.list_tools(params=t.PaginatedRequestParams(cursor=cursor)))

        found = [page(None)]
        while found[-1].next_cursor is not None:
            found.append(page(found[-1].next_cursor))
        return found

    def tools(self) -> list[t.Tool]:
        return [tool for page in self.pages() for tool in page.tools]

    def list_at(self, cursor: str) -> t.ListToolsResult:
        return self._bench.portal.call(lambda: self._session.list_tools(params=t.PaginatedRequestParams(cursor=cursor)))

    def start(self, tool: str, **arguments: Any) -> Any:
        """A call in the background: a concurrent Future of CallToolResult."""
        return self._bench.portal.start_task_soon(self._session.call_tool, tool, arguments)

    def configure(self, **settings: Any) -> None:
        self._bench.fake.configure(self.credential, **settings)


class Bench:
    """A served provider with its own test clock."""

    def __init__(self, portal: BlockingPortal, fake: RunningFake, clock: WatchedClock, tls: ssl.SSLContext) -> None:
        self.portal = portal
        self.fake = fake
        self.clock = clock
        self._tls = tls
        self._numbers = itertools.count(1)

    @contextmanager
    def open(self, *, version: str = NEWEST, consent: Consent | None = None, credential: str = "", **settings: Any) -> Iterator[Wire]:
        """Admit a fresh credential (or use `credential` as it is) and connect."""
        if not credential:
            credential = f"key-{next(self._numbers)}"
            self.fake.admit(Account(credential, f"name of {credential}", consent or Consent()))
            self.fake.configure(credential, **settings)
        with self.portal.wrap_async_context_manager(self._connect(credential, version)) as session:
            yield Wire(self, session, credential)

    def _connect(self, credential: str, version: str) -> AbstractAsyncContextManager[ClientSession]:
        @asynccontextmanager
        async def opened() -> AsyncIterator[ClientSession]:
            headers = {"Authorization": f"Bearer {credential}"}
            async with (
                httpx2.AsyncClient(headers=headers, verify=self._tls, trust_env=False) as http,
                connected(self.fake.mcp_url, http, version) as session,
            ):
                yield session

        return opened()

    def http(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """One plain HTTP exchange with the stand-in."""

        async def exchange() -> httpx2.Response:
            async with httpx2.AsyncClient(verify=self._tls, trust_env=False) as http:
                return await http.request(method, self.fake.base_url + path, **options)

        return self.portal.call(exchange)

    def advance(self, seconds: float) -> None:
        self.portal.call(self.clock.advance, seconds)

    @contextmanager
    def another(self, provider_id: str) -> Iterator[tuple[Bench, Callable[[], None]]]:
        """A provider once more, with a clock and a server of its own, and how to stop it early."""
        clock = WatchedClock()
        with ExitStack() as stack:
            fake = stack.enter_context(self.portal.wrap_async_context_manager(serve(provider_id, clock)))
            yield Bench(self.portal, fake, clock, self._tls), stack.close

    def wait_for(self, holds: Callable[[], bool]) -> None:
        """Let the loop run until `holds()`; the test's own timeout bounds it."""

        async def spin() -> None:
            while not holds():
                await asyncio.sleep(0.005)

        self.portal.call(spin)


@pytest.fixture(scope="session")
def tls() -> ssl.SSLContext:
    return ssl.create_default_context()


@pytest.fixture(scope="session")
def portal() -> Iterator[BlockingPortal]:
    with start_blocking_portal("asyncio") as opened:
        yield opened


BenchOf = Callable[[str], Bench]


@pytest.fixture(scope="session")
def bench_of(portal: BlockingPortal, tls: ssl.SSLContext) -> Iterator[BenchOf]:
    """Provider id → its bench, served once per test session."""
    with ExitStack() as stack:
        served: dict[str, Bench] = {}

        def of(provider_id: str) -> Bench:
            if provider_id not in served:
                clock = WatchedClock()
                running: AbstractContextManager[RunningFake] = portal.wrap_async_context_manager(serve(provider_id, clock))
                served[provider_id] = Bench(portal, stack.enter_context(running), clock, tls)
            return served[provider_id]

        yield of
