"""A broker over real loopback servers: our own stand-in of an authorization server, or another program's, and a provider behind it."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from harness.clock import TestClock as AuthorizationClock
from harness.fake.authorization import AuthorizationServer, Behaviour
from harness.fake.authorization_front import consenting
from reference_gateway.clock import TestClock
from reference_gateway.defects import Defects
from reference_gateway.egress import Egress
from reference_gateway.errors import GatewayError
from reference_gateway.ids import RandomIds
from reference_gateway.oauth.authorized import Access, Authorized
from reference_gateway.oauth.broker import Answer, Broker, Started, Wish
from reference_gateway.oauth.consents import Consents, Held, Place
from reference_gateway.oauth.pending import Asker
from reference_gateway.oauth.tokens import Consent
from reference_gateway.store.sqlite import SqliteStore
from reference_gateway.vault import KEY_BYTES, Vault

PLACE = Place("t1", "zep", '["organization",null]', "credentials.oauth")
ASKER = Asker("ada", "browser-1")
REDIRECT = "http://127.0.0.1:8977/oauth/callback"
PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For clients of servers without TLS: reading every authority costs 50 ms."""


async def provider(scope: Scope, receive: Receive, send: Send) -> None:
    await JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {}})(scope, receive, send)


@dataclass
class Bench:
    """What a test works with. `url`: of the provider. `server`: our own stand-in; None where another stands there."""

    broker: Broker
    egress: Egress
    clock: TestClock
    url: str
    server: AuthorizationServer | None = None
    told: list[tuple[str, str]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    place: Place = PLACE
    asker: Asker = ASKER
    redirect: str = REDIRECT

    @property
    def stand_in(self) -> AuthorizationServer:
        assert self.server is not None
        return self.server

    @property
    def held(self) -> Held | None:
        return self.broker.consents.read(PLACE)

    def now(self) -> float:
        return self.clock.now().timestamp()

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        if self.server is not None:
            await self.server_clock.advance(seconds)

    server_clock: AuthorizationClock = field(default_factory=AuthorizationClock)

    async def begin(self, **more: Any) -> Started:
        async def settle(consent: Consent) -> None:
            self.broker.store(PLACE, consent)

        known = self.held.consent if self.held is not None else None
        wish = {
            "place": PLACE,
            "url": self.url,
            "asker": ASKER,
            "redirect_uri": REDIRECT,
            "settle": settle,
            "scopes": ("graph:read",),
            "known": known,
        }
        return await self.broker.begin(Wish(**{**wish, "failed": lambda error: self.failures.append(error.code), **self.more, **more}))

    async def answer(self, started: Started) -> Answer:
        async with httpx2.AsyncClient(verify=PLAIN, trust_env=False) as browser:
            response = await browser.get(started.url)
        assert response.status_code == 302, response.text
        query = dict(parse_qsl(urlsplit(response.headers["location"]).query))
        return Answer(query["state"], REDIRECT, query.get("code"), query.get("iss"), query.get("error"), query.get("error_description"))

    async def consent(self, **more: Any) -> Held:
        answer = await self.answer(await self.begin(**more))
        await self.broker.complete(PLACE.tenant, ASKER, answer)
        assert self.held is not None
        return self.held

    def access(self) -> Access:
        return Access(PLACE, self.broker.consents, self.broker.refresher, self.clock)

    async def request(self) -> int:
        response = await Authorized(self.egress.lines, self.access()).request("POST", self.url, {"content-type": "application/json"}, b"{}")
        response.close()
        return response.status

    async def code_of(self, work: Awaitable[Any]) -> str:
        """The code with which it was refused, "" when it was not; and everything that it said then is kept in `said`."""
        try:
            await work
        except GatewayError as error:
            self.said = str(error)
            return error.code
        return ""

    said: str = ""

    def renewals(self) -> int:
        return sum(each.get("grant") == "refresh_token" for each in self.stand_in.seen)


@asynccontextmanager
async def brokered(
    folder: Path, defects: Sequence[str] = (), document_url: str | None = None, key: bytes | None = None
) -> AsyncIterator[tuple[Broker, Egress, TestClock, list[tuple[str, str]]]]:
    store = SqliteStore(folder / "oauth.sqlite3")
    store.open()
    egress, clock, told = Egress(allow_loopback=True), TestClock(), []
    broker = Broker(
        egress=egress,
        consents=Consents(Vault(key or os.urandom(KEY_BYTES), store), store),
        clock=clock,
        ids=RandomIds(),
        defects=Defects(defects),
        document_url=document_url,
        told=lambda place, event, code: told.append((event, code)),
    )
    try:
        yield broker, egress, clock, told
    finally:
        await broker.refresher.close()
        await egress.aclose()
        store.close()


def on_bench(
    work: Callable[[Bench], Awaitable[None]], folder: Path, *, defects: Sequence[str] = (), document_url: str | None = None, app: ASGIApp = provider,
    **behaviour: Any,
) -> None:  # fmt: skip
    """Runs `work` with everything up: the broker's and the authorization server's clocks stand still and at the same instant."""

    async def run() -> None:
        async with brokered(folder, defects, document_url) as (broker, egress, clock, told):
            theirs = AuthorizationClock(clock.now())
            settings = Behaviour(scopes=("graph:read", "graph:write")).changed(behaviour)
            async with consenting(app, "inner", theirs, settings, lambda token: None) as standing:
                standing.server.resource_url = f"{standing.base_url}/mcp"
                bench = Bench(broker, egress, clock, f"{standing.base_url}/mcp", standing.server, told)
                bench.server_clock = theirs
                await work(bench)

    asyncio.run(run())


@pytest.fixture
def work_on(tmp_path: Path) -> Callable[..., None]:
    """`work_on(work, **settings)`, see `on_bench`."""

    def run(work: Callable[[Bench], Awaitable[None]], **settings: Any) -> None:
        on_bench(work, tmp_path, **settings)

    return run


@pytest.fixture
def brokered_bench(tmp_path: Path) -> Callable[[str], Any]:
    """`async with brokered_bench(url) as bench`: for a provider and an authorization server that somebody else serves."""

    @asynccontextmanager
    async def opened(url: str) -> AsyncIterator[Bench]:
        async with brokered(tmp_path) as (broker, egress, clock, told):
            yield Bench(broker, egress, clock, url, None, told)

    return opened
