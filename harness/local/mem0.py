"""Mem0's own MCP server (PyPI mem0-mcp-server) in front of our stand-in of Mem0's REST API.

What it lists and how it answers is the vendor's; what it remembers is ours. It asks callers for no credential: whoever
reaches it acts with the key from its environment.
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
from harness.fake.kit import serve_app
from harness.local.base import RunningLocal
from harness.local.child import Command, running
from harness.local.installation import HERE, Installation, installation
from harness.local.mem0_rest import Mem0Rest
from harness.model.scenario import Level

READY = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")


@dataclass(frozen=True, slots=True)
class Mem0Server:
    """mem0-mcp-server 0.2.1 over mcp 1.30: the handshake era only."""

    installed: Installation = field(default_factory=lambda: installation("mem0"))
    id: str = "mem0"
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
            raise Untestable(f"mem0: {reason}", where=str(self.installed.home), fix="run make real")
        key = f"m0-{secrets.token_hex(16)}"
        async with serve_app(Mem0Rest(key, clock).app) as backend, running(self._command(backend, key, work_dir)) as child:
            yield RunningLocal(child.base_url, "/mcp", key, child.process_id)

    def _command(self, backend: str, key: str, work_dir: Path) -> Command:
        folder = (work_dir / "mem0-server").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        env = {
            "MEM0_API_KEY": key,
            "MEM0_API_HOST": backend,
            "MEM0_TELEMETRY": "False",
            "MEM0_DIR": str(folder / "state"),  # else it writes into the home folder
            "HOME": str(folder),
            "PYTHON_DOTENV_DISABLED": "1",  # it would read a .env of any folder above its venv: ours
            "MEM0_DEFAULT_USER_ID": "mem0-mcp",
            "MEM0_ENABLE_GRAPH_DEFAULT": "false",
            "HOST": "127.0.0.1",
            "PORT": "0",
        }
        words = (str(self.installed.python), "-u", str(HERE / "launch" / "mem0_server.py"))
        return Command(words, env, folder / "server.log", READY, hidden=(key,))


LOCAL = Mem0Server()
