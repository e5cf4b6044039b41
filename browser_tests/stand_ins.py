"""All six providers' stand-ins for a browser's tests, in a thread of their own.

Two stand behind an authorization server that asks a person, two under their real names.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace

from anyio.from_thread import start_blocking_portal

from harness.clock import SystemClock
from harness.fake.authorization import AuthorizationServer, Behaviour
from harness.fake.authorization_front import consenting
from harness.fake.kit import Account, serve
from harness.model.exchange import Sequencer
from harness.tap.server import Tap

WITH_A_KEY = ("mem0", "honcho")
WITH_CONSENT = {"zep": ("graph:read", "graph:write"), "supermemory": ("openid", "profile", "email", "offline_access")}
UNDER_ITS_NAME = {"cognee": "tenant-browser.aws.cognee.ai", "papr": "memory.papr.ai"}


@dataclass(frozen=True)
class Provider:
    """`endpoint`: where the gateway is to find it; "" for those that it knows by name. `server`: what asks the person."""

    endpoint: str
    server: AuthorizationServer | None = None

    def behave(self, **changes: object) -> None:
        """From the next request on; the thread that serves only ever reads it."""
        assert self.server is not None
        self.server.behaviour = replace(self.server.behaviour, **changes)  # type: ignore[arg-type]


@dataclass(frozen=True)
class StandIns:
    providers: dict[str, Provider]
    arguments: tuple[str, ...]
    """What the gateway must be started with to find those that it knows by name."""


@asynccontextmanager
async def _served(key: str) -> AsyncIterator[StandIns]:
    clock, found = SystemClock(), dict[str, Provider]()
    async with AsyncExitStack() as stack:
        tap = await stack.enter_async_context(Tap(clock, Sequencer()))
        arguments = ["--map-ca", str(tap.ca_file)]
        for name in (*WITH_A_KEY, *WITH_CONSENT, *UNDER_ITS_NAME):
            fake = await stack.enter_async_context(serve(name, clock))
            fake.admit(Account(key, name))
            if name in WITH_CONSENT:
                behaviour = Behaviour(scopes=WITH_CONSENT[name], person="asked")
                front = await stack.enter_async_context(consenting(fake.built.app, key, clock, behaviour, lambda _: None))
                front.server.resource_url = f"{front.base_url}{fake.path}"
                found[name] = Provider(front.server.resource_url, front.server)
            elif name in UNDER_ITS_NAME:
                host = UNDER_ITS_NAME[name]
                tap.mount(name, fake.base_url, host=host)
                arguments += ["--map", f"{host}={tap.tls_address}"]
                found[name] = Provider("")
            else:
                found[name] = Provider(fake.mcp_url)
        yield StandIns(found, tuple(arguments))


@contextmanager
def stand_ins(key: str) -> Iterator[StandIns]:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_served(key)) as found:
        yield found
