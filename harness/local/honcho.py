"""Honcho's whole stack from a checkout of plastic-labs/honcho: API server on PostgreSQL with pgvector, and its MCP server on Node.

Everything behind the tap is Honcho's own, so claims about memory are `local` too. It runs without a model: raw messages are stored and
returned; nothing is derived from them. Honcho is AGPL: it is an external process, and nothing of it is in this repository.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.clock import Clock
from harness.errors import Unreachable, Untestable
from harness.local.base import RunningLocal
from harness.local.child import Command, running
from harness.local.installation import FOLDER, HERE, Installation
from harness.model.scenario import Level
from harness.scenario.files import data_root

API_READY = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")
MCP_READY = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")
API_WITHIN_S = 300.0
"""Real seconds: it starts a database first."""
FIX = "run make honcho SRC=CHECKOUT with a checkout of plastic-labs/honcho"
SETTINGS = {
    "AUTH_USE_AUTH": "false",
    "LLM_OPENAI_API_KEY": "none",  # it wants one to be set, and has no model to use it with
    "EMBED_MESSAGES": "false",
    "CACHE_ENABLED": "false",
    "SENTRY_ENABLED": "false",
    "TELEMETRY_ENABLED": "false",
    "PYTHON_DOTENV_DISABLED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",  # the checkout is somebody's
}


@dataclass(frozen=True, slots=True)
class HonchoHome:
    """`.real/honcho`: venv, tokenizer tables, an empty database to copy, the MCP server's part of the checkout; `.source` names the checkout."""

    root: Path

    @property
    def installed(self) -> Installation:
        return Installation(home=self.root, lock=HERE / "honcho-requirements.txt")

    @property
    def source(self) -> Path:
        return Path((self.root / ".source").read_text(encoding="utf-8").strip())

    def missing(self) -> str:
        reason = self.installed.missing()
        if reason:
            return f"{reason.partition('; run')[0]}; {FIX}"
        lacking = [part for part in ("tokenizers", "database", "mcp/node_modules", ".source") if not (self.root / part).exists()]
        if lacking:
            return f"its installation is unfinished ({lacking[0]} is missing); {FIX}"
        return "" if (self.source / "src" / "main.py").is_file() else f"the checkout it was made from is gone; {FIX}"


@dataclass(frozen=True, slots=True)
class HonchoServer:
    """Whatever Honcho's MCP SDK speaks: the handshake era only. It takes any bearer token, since its API server runs without accounts."""

    home: HonchoHome
    id: str = "honcho"
    schema_level: Level = "local"
    memory_level: Level = "local"
    protocols: tuple[str, ...] = ("2025-06-18", "2025-11-25")

    def missing(self) -> str:
        return self.home.missing()

    @asynccontextmanager
    async def start(self, clock: Clock, work_dir: Path) -> AsyncIterator[RunningLocal]:
        """A database of its own for this run, then the API server, then the MCP server; gone with the block."""
        if reason := self.missing():
            raise Untestable(f"honcho: {reason}", where=str(self.home.root), fix=FIX)
        folder = (work_dir / "honcho-server").resolve()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="honcho-", ignore_cleanup_errors=True) as place:
            await _copy(self.home.root / "database", Path(place) / "database")
            async with running(self._api(Path(place) / "database", folder)) as api, running(self._mcp(api.base_url, folder)) as mcp:
                yield RunningLocal(mcp.base_url, "/mcp", "", mcp.process_id)

    def _api(self, database: Path, folder: Path) -> Command:
        env = {**SETTINGS, "HOME": str(folder), "XDG_RUNTIME_DIR": str(database.parent), "TIKTOKEN_CACHE_DIR": str(self.home.root / "tokenizers")}
        script = str(HERE / "launch" / "honcho_api.py")
        words = (str(self.home.installed.python), "-u", script, "serve", str(self.home.source), str(database))
        return Command(words, env, folder / "api.log", API_READY, ready_within_s=API_WITHIN_S, end_within_s=20.0)

    def _mcp(self, api: str, folder: Path) -> Command:
        mcp = self.home.root / "mcp"
        words = ("node", "--import", str(mcp / "node_modules/tsx/dist/esm/index.mjs"), "--import", str(mcp / "honcho_hooks.mjs"))
        env = {"HOME": str(folder), "HONCHO_API_URL": api}
        return Command((*words, str(mcp / "honcho_mcp.mts")), env, folder / "mcp.log", MCP_READY)


async def _copy(source: Path, target: Path) -> None:
    """With owner and modes: PostgreSQL looks at both."""
    process = await asyncio.create_subprocess_exec("cp", "-a", str(source), str(target))
    if await process.wait() != 0:
        raise Unreachable("the empty database could not be copied", where=str(source), fix="make room, or run make honcho again")


LOCAL = HonchoServer(HonchoHome(data_root() / FOLDER / "honcho"))
