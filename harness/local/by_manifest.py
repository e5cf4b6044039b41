"""A provider's own server on this machine: the one that a file of this folder starts, else the command that its manifest tells."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.cassette.redact import SHORTEST
from harness.clock import Clock
from harness.errors import Untestable
from harness.local.base import LocalServer, RunningLocal, servers
from harness.local.stdio import behind_http
from harness.local.stdio_process import StdioCommand
from harness.model.manifest import LocalSpec, Manifest
from harness.model.scenario import Level

MODERN = "2026-07-28"


@dataclass(frozen=True, slots=True)
class StdioServer:
    """`environment`: where the manifest's `secrets` are looked for. Everything about it is `local`, but for a simulated memory."""

    id: str
    spec: LocalSpec
    environment: Mapping[str, str] = field(repr=False)
    schema_level: Level = "local"

    @property
    def memory_level(self) -> Level:
        return self.spec.memory

    @property
    def protocols(self) -> tuple[str, ...]:
        return self.spec.protocols

    def missing(self) -> str:
        """Secrets first: "credentials: …" is a reason of its own."""
        absent = [name for name in self.spec.secrets if len(self.environment.get(name, "").strip()) < SHORTEST]
        if absent:
            return f"credentials: {self.id} needs {' and '.join(absent)}, set in the environment (at least {SHORTEST} characters)"
        if shutil.which(self.spec.stdio[0], path=self.environment.get("PATH")) is None:
            return f"its command {self.spec.stdio[0]!r} is not found; install it, or give its path in providers/{self.id}.yaml (local.stdio)"
        return ""

    @asynccontextmanager
    async def start(self, clock: Clock, work_dir: Path) -> AsyncIterator[RunningLocal]:
        """Greeted once before anything else, so that a command that is no MCP server is said as such. Raises Unreachable (4) or Untestable (5)."""
        if reason := self.missing():
            raise Untestable(f"{self.id}: {reason}", where=f"providers/{self.id}.yaml", fix="mend `local` in the manifest")
        folder = (work_dir / f"{self.id}-server").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        secrets = {name: self.environment[name].strip() for name in self.spec.secrets}
        env = {"HOME": str(folder), **self.spec.env}
        command = StdioCommand(self.spec.stdio, env, folder / "server.log", secrets, modern=MODERN in self.spec.protocols)
        async with behind_http(command, greet=True) as base_url:
            yield RunningLocal(base_url, "/mcp", "", 0, secrets)


def server_of(manifest: Manifest) -> LocalServer | None:
    """None: the provider has no server that runs on this machine."""
    if manifest.id in servers():
        return servers()[manifest.id]
    return StdioServer(manifest.id, manifest.local, os.environ) if manifest.local is not None else None
