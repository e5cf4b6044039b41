"""A provider's stand-in behind an authorization server of its own, for one connection of one item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

from harness.clock import Clock
from harness.engine.legs import LegSource
from harness.errors import UsageError
from harness.fake.authorization import Behaviour
from harness.fake.authorization_front import Consenting, consenting
from harness.model.manifest import Manifest
from harness.model.scenario import ConnectionSpec


async def behind_consent(
    stack: AsyncExitStack,
    source: LegSource,
    secret: str,
    manifest: Manifest,
    spec: ConnectionSpec,
    settings: Mapping[str, Any],
    clock: Clock,
    know: Callable[[str], None],
) -> Consenting:
    """`know` is told each token as it is made. Raises UsageError where there is no stand-in, or where the scenario does not set it up itself."""
    if source.fake is None or spec.setup != "draft":
        raise UsageError("oauth needs the level fake, and setup: draft", where=f"connections.{manifest.id}", fix="write setup: draft beside oauth:")
    behaviour = Behaviour(scopes=manifest.auth.scopes).changed(settings)
    return await stack.enter_async_context(consenting(source.fake.built.app, secret, clock, behaviour, know))
