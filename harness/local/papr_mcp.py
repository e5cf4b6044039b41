"""Papr's own MCP server (PyPI papr-memory-mcp) in front of our stand-in of Papr's REST API, which it reaches by Papr's own SDK.

What it lists and how it answers is the vendor's; what it remembers is ours. It asks callers for no credential: whoever reaches it acts with
the key from its environment. It sends no X-Client-Type by itself, which Papr's document requires; the SDK takes one from its environment.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.clock import Clock
from harness.errors import Untestable
from harness.fake.kit import Account, serve
from harness.local.base import RunningLocal
from harness.local.child import Command, running
from harness.local.installation import HERE, Installation, installation
from harness.model.scenario import Level

READY = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")


@dataclass(frozen=True, slots=True)
class PaprMcpServer:
    """papr-memory-mcp 0.1.8 over fastmcp 2.14 and mcp 1.30: the handshake era only. With fastmcp 3 it would serve two tools that do nothing."""

    installed: Installation = field(default_factory=lambda: installation("papr"))
    id: str = "papr-mcp"
    schema_level: Level = "local"
    memory_level: Level = "fake"
    protocols: tuple[str, ...] = ("2025-06-18", "2025-11-25")

    def missing(self) -> str:
        return self.installed.missing()

    @asynccontextmanager
    async def start(self, clock: Clock, work_dir: Path) -> AsyncIterator[RunningLocal]:
        """REST stand-in first, then the server; both on ports the system chose."""
        reason = self.missing()
        if reason:
            raise Untestable(f"papr-mcp: {reason}", where=str(self.installed.home), fix="run make real")
        key = f"papr-{secrets.token_hex(16)}"
        async with serve("papr", clock) as backend:
            backend.admit(Account(key, "papr-mcp"))
            async with running(self._command(backend.base_url, key, work_dir)) as child:
                yield RunningLocal(child.base_url, "/mcp", key, child.process_id)

    def _command(self, backend: str, key: str, work_dir: Path) -> Command:
        folder = (work_dir / "papr-server").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        env = {
            "PAPR_API_KEY": key,
            "PAPR_BASE_URL": backend,
            "PAPR_CUSTOM_HEADERS": "X-Client-Type: papr-memory-mcp",
            "PAPR_ONDEVICE_PROCESSING": "false",
            "HOME": str(folder),
            "PYTHON_DOTENV_DISABLED": "1",  # it would read a .env of any folder above its venv: ours
        }
        words = (str(self.installed.python), "-u", str(HERE / "launch" / "papr_server.py"))
        return Command(words, env, folder / "server.log", READY, hidden=(key,))


LOCAL = PaprMcpServer()
