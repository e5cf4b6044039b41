"""The suite as it is installed, and one run of a requirement set of it."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
WITHIN_S = 600.0


class NotInstalled(Exception):
    """`make conformance` installs it; there is nothing to fall back on."""


@dataclass(frozen=True, slots=True)
class Suite:
    """`folder` holds node_modules; `results`: where a run's checks are written."""

    folder: Path
    results: Path

    @staticmethod
    def find(folder: Path, results: Path) -> Suite:
        """Raises NotInstalled."""
        for need in ("@modelcontextprotocol/conformance/dist/index.js", ".bin/node"):
            if not (folder / "node_modules" / need).exists():
                raise NotInstalled(f"{need} is not in {folder}/node_modules; run `make conformance`")
        return Suite(folder, results)

    async def run(self, side: str, revision: str, baseline: str, *arguments: str) -> bool:
        """`side`: client or server. The suite prints its own account; true when it says that nothing unexpected happened."""
        modules = self.folder / "node_modules"
        sys.stdout.write(f"\n=== {side} requirements of {revision}\n")
        sys.stdout.flush()
        process = await asyncio.create_subprocess_exec(
            modules / ".bin" / "node",
            modules / "@modelcontextprotocol" / "conformance" / "dist" / "index.js",
            side,
            "--requirements",
            revision,
            "--expected-failures",
            HERE / baseline,
            "--output-dir",
            self.results / side / revision,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            env={"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "")},
        )
        try:
            async with asyncio.timeout(WITHIN_S):
                return await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
