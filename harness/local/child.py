"""A vendor's server as a child process: started, waited for until it says where it listens, logged, ended."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import Unreachable
from harness.local.installation import command_line

READY_WITHIN_S = 60.0
"""Real seconds; a cold start with hundreds of megabytes of imports takes ten to twenty on a busy machine."""
END_WITHIN_S = 5.0
KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR")
"""All that a vendor's software gets to know of our environment; no proxy setting, no home folder, no credential."""
TAIL_LINES = 8
WITH_US = ("setpriv", "--pdeathsig", "TERM")
"""In front of a command: it is told to end when we are gone, also when we were killed and could tell nobody."""


@dataclass(frozen=True, slots=True)
class Command:
    """`ready` matches the line that tells where it listens; its first group is the base URL. `hidden` never reaches the log."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    ready: re.Pattern[str]
    hidden: tuple[str, ...] = ()
    ready_within_s: float = READY_WITHIN_S
    end_within_s: float = END_WITHIN_S


@dataclass(frozen=True, slots=True)
class Child:
    base_url: str
    process_id: int


@dataclass
class _Reader:
    """Drains the output for as long as there is some, so that a talkative child never blocks."""

    command: Command
    address: asyncio.Future[str]
    tail: list[str] = field(default_factory=list)

    async def run(self, stream: asyncio.StreamReader) -> None:
        with self.command.log.open("a", encoding="utf-8", errors="replace") as sink:
            async for raw in stream:
                line = raw.decode("utf-8", "replace").rstrip()
                for secret in self.command.hidden:
                    line = line.replace(secret, "[hidden]")
                sink.write(line + "\n")
                sink.flush()
                self.tail = [*self.tail, line][-TAIL_LINES:]
                found = self.command.ready.search(line)
                if found and not self.address.done():
                    self.address.set_result(found.group(1))


@asynccontextmanager
async def running(command: Command) -> AsyncIterator[Child]:
    """Raises Unreachable when it cannot be started, ends early, or is not ready in time; each says so and names the log."""
    process = await _spawn(command)
    assert process.stdout is not None
    reader = _Reader(command, asyncio.get_running_loop().create_future())
    draining = asyncio.create_task(reader.run(process.stdout))
    try:
        yield Child(await _address(command, process, reader, draining), process.pid)
    finally:
        await _end(process, command.end_within_s)
        await draining


def with_us(words: tuple[str, ...]) -> tuple[str, ...]:
    """The command so that it does not outlive us, where the system has the means; a command that cannot be started is left to fail by itself."""
    guard = shutil.which(WITH_US[0])
    return (guard, *WITH_US[1:], *words) if guard is not None and shutil.which(words[0]) is not None else words


async def _spawn(command: Command) -> asyncio.subprocess.Process:
    environment = {key: os.environ[key] for key in KEPT if key in os.environ}
    try:
        return await asyncio.create_subprocess_exec(
            *with_us(command.words),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**environment, **command.env},
            cwd=command.log.parent,
            limit=1024 * 1024,
        )
    except OSError as error:
        raise Unreachable(f"it could not be started: {error.strerror}", where=command_line(command.words), fix="run make real") from error


async def _address(command: Command, process: asyncio.subprocess.Process, reader: _Reader, draining: asyncio.Task[None]) -> str:
    waiting: Sequence[asyncio.Future[object]] = [reader.address, draining]  # type: ignore[list-item]  # only waited for
    await asyncio.wait(waiting, timeout=command.ready_within_s, return_when=asyncio.FIRST_COMPLETED)
    if reader.address.done():
        return reader.address.result()
    where, fix = command_line(command.words), f"see {command.log.name} in the run's folder"
    if draining.done():
        code = await process.wait()
        last = " | ".join(reader.tail) or "(it wrote nothing)"
        raise Unreachable(f"the server ended with code {code} before it was ready: {last}", where=where, fix=fix)
    raise Unreachable(f"the server was not ready within {command.ready_within_s:g} s", where=where, fix=fix)


async def _end(process: asyncio.subprocess.Process, within_s: float) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), within_s)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
