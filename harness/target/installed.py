"""A gateway of somebody else: installed into a venv of its own from a list with hashes, on first use, and never patched."""

from __future__ import annotations

import asyncio
import fcntl
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.errors import Unreachable, UsageError
from harness.scenario.files import data_root

FOLDER = ".targets"
INSTALL_WITHIN_S = 900.0
QUIET = ("--disable-pip-version-check", "--quiet", "--no-input")


@dataclass(frozen=True, slots=True)
class Installation:
    """`home` is the venv, `lock` the requirement list it is made from, `package` the one whose version is the gateway's."""

    name: str
    package: str
    home: Path
    lock: Path

    @property
    def python(self) -> Path:
        return self.home / "bin" / "python"

    @property
    def version(self) -> str:
        """As pinned in the list. Raises UsageError when the list does not pin it."""
        try:
            found = re.search(rf"^{re.escape(self.package)}(?:\[[\w,-]*\])?==(\S+)", self.lock.read_text(encoding="utf-8"), re.MULTILINE)
        except OSError as error:
            raise UsageError(f"target {self.name} has no requirement list: {error.strerror}", where=str(self.lock), fix="restore it") from error
        if found is None:
            raise UsageError(f"{self.package} is not pinned", where=str(self.lock), fix=f"write {self.package}==VERSION with its hashes")
        return found.group(1)

    @property
    def label(self) -> str:
        return f"{self.name} {self.version}"

    def is_current(self) -> bool:
        """Made from this very list; the copy of it in the venv is written last, so that a torn installation has none."""
        made_from = self.home / ".locked"
        return self.python.exists() and made_from.exists() and made_from.read_bytes() == self.lock.read_bytes()

    async def ensure(self, tell: Callable[[str], None]) -> None:
        """Install unless it is there. One process at a time: others wait for it. Raises Unreachable (4) when it cannot be had."""
        label = self.label
        if self.is_current():
            return
        self.home.parent.mkdir(parents=True, exist_ok=True)
        with self._alone(tell):
            if self.is_current():
                return
            tell(f"installing {label} into {self.home.parent.name}/{self.home.name} (once; takes a minute or two) ...")
            if self.home.exists():
                shutil.rmtree(self.home)
            await self._run(sys.executable, "-m", "venv", str(self.home))
            await self._run(str(self.python), "-m", "pip", "install", *QUIET, "--no-deps", "--require-hashes", "-r", str(self.lock))
            shutil.copyfile(self.lock, self.home / ".locked")
            tell(f"{label} is installed")

    @contextmanager
    def _alone(self, tell: Callable[[str], None]) -> Iterator[None]:
        with (self.home.parent / f"{self.home.name}.lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                tell(f"waiting for another run to install {self.label} ...")
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    async def _run(self, *words: str) -> None:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        try:
            async with asyncio.timeout(INSTALL_WITHIN_S):
                output, _ = await process.communicate()
        except BaseException as error:
            process.kill()
            await process.wait()
            if isinstance(error, TimeoutError):
                raise self._failed(f"not done within {INSTALL_WITHIN_S:g} s") from None
            raise
        if process.returncode != 0:
            lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
            raise self._failed(" | ".join(lines[-4:]) or f"exit code {process.returncode}")

    def _failed(self, why: str) -> Unreachable:
        return Unreachable(
            f"{self.label} could not be installed: {why}",
            where=str(self.lock),
            fix="check the package index and the Python version; what was begun is removed at the next attempt",
        )


def installation(name: str, package: str) -> Installation:
    """Beside the scenarios: the list under targets/<name>, the venv under .targets/<name>."""
    root = data_root()
    return Installation(name=name, package=package, home=root / FOLDER / name, lock=root / "targets" / name / "requirements.txt")
