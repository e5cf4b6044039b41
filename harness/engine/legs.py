"""Where a provider comes from at each level: our stand-in, or the vendor's own server software on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.clock import Clock, TestClock
from harness.errors import Untestable
from harness.fake.kit import Account, Consent, RunningFake, serve
from harness.live.session import LiveSession
from harness.local.by_manifest import server_of
from harness.model.manifest import Manifest
from harness.model.scenario import PROTOCOLS, ConsentSpec, Level

NOBODY = "http://127.0.0.1:9"
"""Behind the tap of a replay stands nobody; nothing is ever sent there."""


@dataclass
class LegSource:
    """One provider as it is reachable in this bench. The two levels say at which level each kind of claim speaks.

    `protocols`: what the provider speaks, where that is less than everything; see `pin`.
    `admit` opens an account for a credential (fakes only) and returns the clock that moves that account's own time.
    """

    provider: str
    base_url: str
    path: str
    mapped: bool
    schema_level: Level
    memory_level: Level
    fake: RunningFake | None = None
    fixed_credential: str | None = None
    credential_path: str | None = None
    host: str = ""
    """Live only: the provider's own name, under which the gateway knows it; `credential_path`: where its vault is to keep the credential."""
    signed_in: bool = False
    """Live only: the gateway has the connection and its token already."""
    protocols: tuple[str, ...] = PROTOCOLS
    pinned: str = ""
    """Replayed only: what the gateway was pinned to when it was recorded, so that it asks the same again."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What a local server was given besides, by name; nobody may see it."""

    def pin(self, protocol: str) -> str:
        """The version to pin the gateway's provider side to: the agent's own, or `auto` where the provider lacks it and must be converted."""
        return self.pinned or (protocol if protocol in self.protocols else "auto")

    def admit(self, credential: str, name: str, consent: ConsentSpec, settings: Mapping[str, Any], clock: TestClock | None) -> None:
        if self.fake is None:
            return
        self.fake.admit(Account(credential, name, Consent(consent.access, consent.tags), clock))
        if settings:
            self.fake.configure(credential, **settings)

    def revoke(self, credential: str) -> None:
        if self.fake is not None:
            self.fake.revoke(credential)


@asynccontextmanager
async def open_source(
    manifest: Manifest, level: Level, clock: Clock, work_dir: Path, live: LiveSession | None = None
) -> AsyncIterator[LegSource]:
    """The provider at exactly this level; a level that cannot be had is an error, never another level instead."""
    if live is not None:
        yield live_source(manifest, live)
        return
    if level == "fake":
        async with serve(manifest.id, clock) as running:
            yield LegSource(manifest.id, running.base_url, running.path, manifest.mount == "mapped", "fake", "fake", fake=running)
        return
    if level == "local" and (server := server_of(manifest)) is not None:
        async with server.start(clock, work_dir) as up:
            yield LegSource(
                provider=manifest.id,
                base_url=up.base_url,
                path=up.path,
                mapped=False,
                schema_level=server.schema_level,
                memory_level=server.memory_level,
                fixed_credential=up.credential,
                protocols=server.protocols,
                secrets=up.secrets,
            )
        return
    if level == "replayed":
        yield LegSource(manifest.id, NOBODY, manifest.path, manifest.mount == "mapped", "replayed", "replayed")
        return
    raise Untestable(f"{manifest.id} cannot be had at level {level}", where=str(work_dir), fix="see docs/levels.md")


def live_source(manifest: Manifest, live: LiveSession) -> LegSource:
    """The hosted endpoint, or (rehearsed) a stand-in that plays it: then both legs are of level fake, whatever was asked for."""
    found = live.hosted(manifest.id)
    return LegSource(
        provider=manifest.id,
        base_url=found.upstream,
        path=found.path,
        mapped=True,
        schema_level=found.level,
        memory_level=found.level,
        fixed_credential=found.secret[1] or None,
        credential_path=found.secret[0] or None,
        host=found.host,
        signed_in=found.signed_in,
    )
