"""The seam of a locally run vendor server: one file beside this one that declares LOCAL."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import harness.local
from harness.clock import Clock
from harness.model.scenario import Level
from harness.registry import Registry, discover_plugins


@dataclass(frozen=True, slots=True)
class RunningLocal:
    """A vendor's server that answers: MCP at `base_url` + `path`. `credential` is what its backend accepts.

    `process_id`: 0 where each session has a process of its own. `secrets`: what else it was given that nobody may see, by name.
    """

    base_url: str
    path: str
    credential: str
    process_id: int
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


class LocalServer(Protocol):
    """`id` is the provider's. The levels say of what each leg is evidence: a backend of ours makes the memory leg `fake`.

    `protocols`: the versions that the software speaks; for an agent at another one the gateway has to convert.
    """

    @property
    def id(self) -> str: ...
    @property
    def schema_level(self) -> Level: ...
    @property
    def memory_level(self) -> Level: ...
    @property
    def protocols(self) -> tuple[str, ...]: ...

    def missing(self) -> str:
        """Why the server cannot be started on this machine now, and what to do; "" when it can."""
        ...

    def start(self, clock: Clock, work_dir: Path) -> AbstractAsyncContextManager[RunningLocal]:
        """Up for as long as the block lasts; its log goes to `work_dir`. Raises Unreachable (4) or Untestable (5)."""
        ...


def servers() -> Registry[LocalServer]:
    """Every local server of this folder, by provider id; what is listed here need not be installed."""
    return discover_plugins(harness.local, "LOCAL", "local server")
