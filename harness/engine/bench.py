"""The bench: tap, stand-ins and one gateway, up for as long as the block lasts."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import httpx2

from harness.clock import Clock, SystemClock, TestClock
from harness.engine.development import phrases
from harness.engine.legs import LegSource, open_source
from harness.engine.tapes import Tapes
from harness.errors import HarnessError
from harness.live.home import prepare
from harness.live.session import LiveSession
from harness.model.exchange import Sequencer
from harness.model.manifest import Manifest
from harness.model.scenario import Level
from harness.tap.server import Tap
from harness.target.base import LaunchOptions, RunningTarget, Target
from harness.target.wire import AgentTransport


class Names:
    """Unique synthetic values: run-wide id, per-item nonces, trace ids. A port, so that a test can fix them."""

    def nonce(self) -> str:
        return secrets.token_hex(5)

    def secret(self, provider: str) -> str:
        return f"synthetic-{provider}-{secrets.token_hex(16)}"

    def trace(self) -> str:
        return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


@dataclass(frozen=True, slots=True)
class BenchOptions:
    """`still`: clocks stand and move only when a scenario moves them. `mapped`: host patterns of providers mounted under their real name."""

    level: Level
    providers: Sequence[str]
    manifests: Mapping[str, Manifest]
    still: bool = False
    defects: Sequence[str] = ()
    names: Names = field(default_factory=Names)
    tapes: Tapes = field(default_factory=Tapes)
    live: LiveSession | None = None
    """The rules of a live run; None for every other."""


class Bench:
    """`async with Bench(target, options, work_dir) as bench:`; then any number of items, concurrently."""

    def __init__(self, target: Target, options: BenchOptions, work_dir: Path) -> None:
        self.target_kind = target
        self.options = options
        self.work_dir = work_dir
        self.sequencer = Sequencer()
        self.still_clock = TestClock() if options.still else None
        self.clock: Clock = SystemClock()
        self.sources: dict[str, LegSource] = {}
        self.tap: Tap
        self.gateway: RunningTarget
        self._transport: httpx2.AsyncHTTPTransport
        self.development: tuple[str, ...] = ()
        """What the gateway has loosened for development, for the reports."""
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _start(self) -> None:
        options, serving = self.options, self.still_clock or self.clock
        self.work_dir.mkdir(parents=True, exist_ok=True)
        self.tap = await self._stack.enter_async_context(Tap(serving, self.sequencer, self.target_kind.tap_port))
        for provider in options.providers:
            manifest = options.manifests[provider]
            self.sources[provider] = await self._stack.enter_async_context(open_source(manifest, options.level, serving, self.work_dir, options.live))
        launch = LaunchOptions(
            work_dir=self.work_dir,
            mapped=dict.fromkeys(self._mapped(), self.tap.tls_address),
            ca_file=self.tap.ca_file if self._mapped() else None,
            test_clock=options.still and "test_clock" in self.target_kind.abilities,
            defects=tuple(self._defects()),
            allow_loopback=options.live is None,
            lab=options.live is None and options.still,
            store=prepare(options.live.options.home) if options.live and any(s.signed_in for s in self.sources.values()) else None,
        )
        self.gateway = await self._stack.enter_async_context(self.target_kind.launch(launch))
        self.development = await self._development()
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=64)
        transport = httpx2.AsyncHTTPTransport(verify=ssl.create_default_context(), limits=limits, trust_env=False)
        self._transport = await self._stack.enter_async_context(transport)

    async def _development(self) -> tuple[str, ...]:
        try:
            return phrases(await self.gateway.health())
        except HarnessError:
            return ()  # a gateway without health says nothing of itself; one that is down shows in every item

    def agent_client(self, headers: Mapping[str, str]) -> httpx2.AsyncClient:
        """A client with headers of its own over the bench's one transport: a TLS context per agent would cost more than its calls."""
        return httpx2.AsyncClient(transport=AgentTransport(self._transport), headers=headers, trust_env=False, timeout=httpx2.Timeout(60.0))

    def _mapped(self) -> list[str]:
        """Host patterns under which the tap stands in."""
        mapped = [(s, self.options.manifests[p]) for p, s in self.sources.items() if s.mapped]
        return [source.host or wildcard(manifest) for source, manifest in mapped]

    def _defects(self) -> list[str]:
        """bypass-tap takes the direct address of a provider: the one thing only the bench knows."""
        direct = next((s.base_url + s.path for s in self.sources.values() if not s.mapped), "")
        return [f"{d}={direct}" if d == "bypass-tap" and direct else d for d in self.options.defects]

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def advance(self, seconds: float) -> None:
        """Stand-ins and tap first, so that what falls due at the provider is under way before the gateway's own deadlines move."""
        if self.still_clock is None:
            raise HarnessError("this bench runs on real time", fix="scenarios that move time get a bench of their own")
        await self.still_clock.advance(seconds)
        await self.gateway.advance(seconds)

    async def until_sleeping(self) -> None:
        if self.still_clock is not None:
            await self.still_clock.until_sleeping()


def wildcard(manifest: Manifest) -> str:
    """`https://{tenant}.aws.cognee.ai` → `*.aws.cognee.ai`; `https://memory.papr.ai` → `*.memory.papr.ai`, see host_of."""
    host = manifest.endpoint.split("://", 1)[-1].split("/", 1)[0]
    return "*" + host[host.index("}") + 1 :] if "{" in host else f"*.{host}"
