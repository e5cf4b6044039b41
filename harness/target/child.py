"""A gateway as a child process: a process group of its own, logged without secrets, waited for, and ended with everything it started."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import Incomplete, Unreachable

READY_WITHIN_S = 60.0
END_WITHIN_S = 8.0
PAUSE_S = 0.05
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""All that somebody else's software gets to know of our environment: no proxy setting, no home folder, no credential."""
TAIL_LINES = 6


@dataclass(frozen=True, slots=True)
class Command:
    """`port`: where it will listen on loopback. `home`: its working and home folder. `hidden` never reaches the log."""

    words: Sequence[str]
    port: int
    home: Path
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    hidden: Sequence[str] = ()
    ready_within_s: float = READY_WITHIN_S
    end_within_s: float = END_WITHIN_S


def free_port() -> int:
    """A loopback port that is free now. Another process may take it before the gateway does: then the gateway says so and ends."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Child:
    """Started by `start`. `label` (name and version) is in every error."""

    def __init__(self, label: str, command: Command, process: asyncio.subprocess.Process) -> None:
        self.label = label
        self._command = command
        self._process = process
        self._tail: list[str] = []
        self._family: set[Member] = set()
        self._draining = asyncio.create_task(self._drain())

    @classmethod
    async def start(cls, label: str, command: Command) -> Child:
        """Returns once something listens on its port. Raises Unreachable when it cannot start, ends early, or is never ready; nothing is left."""
        environment = {key: os.environ[key] for key in KEPT if key in os.environ}
        try:
            process = await asyncio.create_subprocess_exec(
                *command.words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**environment, "HOME": str(command.home), **command.env},
                cwd=command.home,
                start_new_session=True,
                limit=1024 * 1024,
            )
        except OSError as error:
            raise Unreachable(f"{label} could not be started: {error.strerror}", where=command.words[0], fix="install it again") from error
        child = cls(label, command, process)
        try:
            await child._listens()
        except BaseException:
            with suppress(Incomplete):
                await child.end()
            raise
        return child

    @property
    def process_id(self) -> int:
        return self._process.pid

    async def exited(self) -> int:
        """Waits for its end; its exit code."""
        return await self._process.wait()

    def must_live(self) -> None:
        """Raises Unreachable when it has ended by itself. While it lives, its children are noted: one that dies orphans them."""
        self._family |= family_of(self._process.pid)
        if self._process.returncode is not None:
            raise self._unreachable(f"ended by itself with code {self._process.returncode}: {self._said()}")

    async def settle(self) -> None:
        """Whoever has just lost its connection may be faster than the news of the process's end: wait for that news if it is on its way."""
        stat = _stat(Path("/proc") / str(self._process.pid))
        if stat is None or stat.state in "ZX":
            await self._process.wait()
        else:
            with suppress(TimeoutError):
                async with asyncio.timeout(PAUSE_S):
                    await self._process.wait()

    async def end(self) -> None:
        """End it with all it started. Raises Incomplete when the gateway, told to end, left processes behind; they are ended all the same."""
        family = self._family | family_of(self._process.pid)
        gone = self._process.returncode is not None
        if not gone:
            self._signal(signal.SIGTERM)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._command.end_within_s):
                    await self._process.wait()
        family |= family_of(self._process.pid)
        left = await self._left_of(family, 0.0 if gone else self._command.end_within_s / 4)
        self._signal(signal.SIGKILL)
        for member in left:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(member.pid, signal.SIGKILL)
        await self._process.wait()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._command.end_within_s):
                await self._draining
        self._draining.cancel()
        if left:
            raise Incomplete(
                f"{self.label} left {len(left)} of its processes behind when it ended; the harness ended them",
                where=Path(self._command.words[0]).name,
                fix=f"see {self._command.log.name}; a gateway must end what it starts",
            )

    async def _left_of(self, family: set[Member], grace_s: float) -> list[Member]:
        """Who is still there after a moment's grace: what a gateway tells to end may need it."""
        waited = 0.0
        while True:
            left = [member for member in family if member.pid != self._process.pid and is_alive(member)]
            if not left or waited >= grace_s:
                return left
            await asyncio.sleep(PAUSE_S)
            waited += PAUSE_S

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _listens(self) -> None:
        try:
            async with asyncio.timeout(self._command.ready_within_s):
                while True:
                    if self._process.returncode is not None:
                        await self._draining
                        raise self._unreachable(f"ended with code {self._process.returncode} before it was ready: {self._said()}")
                    if await answers(self._command.port):
                        return
                    await asyncio.sleep(PAUSE_S)
        except TimeoutError:
            raise self._unreachable(f"was not ready within {self._command.ready_within_s:g} s: {self._said()}") from None

    async def _drain(self) -> None:
        assert self._process.stdout is not None
        with self._command.log.open("a", encoding="utf-8", errors="replace") as sink:
            while True:
                try:
                    raw = await self._process.stdout.readline()
                except ValueError:  # a line beyond the stream's bound is dropped
                    continue
                if not raw:
                    return
                line = raw.decode("utf-8", "replace").rstrip()
                for secret in self._command.hidden:
                    line = line.replace(secret, "[hidden]")
                sink.write(line + "\n")
                self._tail = [*self._tail, line][-TAIL_LINES:]

    def _said(self) -> str:
        return " | ".join(line.strip() for line in self._tail if line.strip()) or "(it wrote nothing)"

    def _unreachable(self, what: str) -> Unreachable:
        return Unreachable(f"{self.label} {what}", where=Path(self._command.words[0]).name, fix=f"see {self._command.log.name} in the run's folder")


async def answers(port: int) -> bool:
    """True when something accepts a connection there."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True


@dataclass(frozen=True, slots=True)
class Member:
    """A process, told from a later one with the same number by when it began (clock ticks since boot)."""

    pid: int
    began: int


@dataclass(frozen=True, slots=True)
class _Stat:
    state: str
    parent: int
    group: int
    began: int


def family_of(leader: int) -> set[Member]:
    """Everything in the leader's group, and everything that descends from it (a child may have made itself a group of its own)."""
    everyone = {int(entry.name): stat for entry in Path("/proc").glob("[0-9]*") if (stat := _stat(entry)) is not None}
    found = {pid for pid, stat in everyone.items() if stat.group == leader} | {leader}
    while grown := {pid for pid, stat in everyone.items() if stat.parent in found} - found:
        found |= grown
    return {Member(pid, everyone[pid].began) for pid in found if pid in everyone}


def is_alive(member: Member) -> bool:
    stat = _stat(Path("/proc") / str(member.pid))
    return stat is not None and stat.began == member.began and stat.state not in "ZX"


def _stat(entry: Path) -> _Stat | None:
    try:
        fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return _Stat(state=fields[0], parent=int(fields[1]), group=int(fields[2]), began=int(fields[19]))
    except (OSError, ValueError, IndexError):  # it ended meanwhile
        return None
