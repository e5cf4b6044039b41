"""MCP over a child's standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from harness.discover.wire import Limits, WireProblem, answer_in, asks, decode, message, reply_to
from harness.errors import Unreachable, UsageError

_INHERITED = ("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER")
_TAIL = 2000
_GRACE_S = 2.0
_LAST_WORDS_S = 0.5


class StdioWire:
    """One conversation with a child process. Lines that are no JSON (stray prints) are passed over, within the byte limit."""

    def __init__(self, process: asyncio.subprocess.Process, shown: str, limits: Limits) -> None:
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018  # both are pipes, see stdio_wire
        self._process, self._input, self._output = process, process.stdin, process.stdout
        self._shown, self._limits = shown, limits
        self._next_id = 0
        self._read = 0
        self.stderr_tail = ""

    def agree(self, version: str) -> None:
        """Nothing on this transport carries the version apart from the messages themselves."""

    async def request(self, method: str, params: Mapping[str, Any] | None) -> Mapping[str, Any]:
        self._next_id += 1
        try:
            async with asyncio.timeout(self._limits.request_s):
                await self._write(message(method, params, self._next_id))
                return await self._answer(self._next_id)
        except TimeoutError as error:
            raise WireProblem("timeout", f"no answer to {method} within {self._limits.request_s:g} s") from error

    async def notify(self, method: str) -> None:
        await self._write(message(method, None, None))

    async def _write(self, body: dict[str, Any]) -> None:
        try:
            self._input.write(json.dumps(body).encode() + b"\n")
            await self._input.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            raise await self._gone() from error

    async def _answer(self, request_id: int) -> Mapping[str, Any]:
        while True:
            try:
                line = await self._output.readline()
            except ValueError as error:  # the reader's own limit: one line larger than a response may be
                raise WireProblem("too-many-bytes", f"a line of more than {self._limits.response_bytes} bytes") from error
            if not line:
                raise await self._gone()
            self._read += len(line)
            if self._read > self._limits.total_bytes:
                raise WireProblem("too-many-bytes", f"more than {self._limits.total_bytes} bytes")
            if not line.lstrip().startswith((b"{", b"[")):
                continue
            value = decode(line, self._limits.response_bytes)
            result = answer_in(value, request_id)
            if result is not None:
                return result
            for asked in asks(value):
                await self._write(reply_to(asked))

    async def _gone(self) -> Unreachable:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await self._process.wait()
        await asyncio.sleep(0)  # lets the reader of standard error take the last words
        code = self._process.returncode
        what = f"the command ended with code {code}" if code is not None else "the command closed its output"
        last = self.stderr_tail.strip().splitlines()
        return Unreachable(what + (f": {last[-1][:200]}" if last else ""), where=self._shown, fix="run the command by hand and mend its start")


@asynccontextmanager
async def stdio_wire(command: Sequence[str], env: Mapping[str, str], cwd: str | None, limits: Limits) -> AsyncIterator[StdioWire]:
    """Start `command` in a session of its own; on the way out it and its children are ended."""
    if not command:
        raise UsageError("an empty command", where="stdio", fix="name the program to start")
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**inherited, **env},
            cwd=cwd,
            limit=limits.response_bytes,
            start_new_session=True,
        )
    except OSError as error:
        raise Unreachable(f"cannot be started: {error.strerror}", where=command[0], fix="check the command") from error
    wire = StdioWire(process, command[0], limits)
    drain = asyncio.create_task(_drain(process, wire))
    try:
        yield wire
    finally:
        await _end(process)
        await _read_out(process, drain)


async def _read_out(process: asyncio.subprocess.Process, drain: asyncio.Task[None]) -> None:
    """Take what is left in the pipes: a transport whose end was never read stays open until the loop is gone."""
    assert process.stdout is not None
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_GRACE_S):
            while await process.stdout.read(65536):
                pass
            await drain
    drain.cancel()
    await asyncio.gather(drain, return_exceptions=True)


async def _drain(process: asyncio.subprocess.Process, wire: StdioWire) -> None:
    """Keep standard error from filling its pipe, and its last words for the error message."""
    assert process.stderr is not None
    while chunk := await process.stderr.read(4096):
        wire.stderr_tail = (wire.stderr_tail + chunk.decode("utf-8", "replace"))[-_TAIL:]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input and wait; then SIGTERM, then SIGKILL, to the whole group, since launchers leave children behind."""
    if process.stdin is not None:
        process.stdin.close()
    for number in (None, signal.SIGTERM, signal.SIGKILL):
        if number is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_S):
                await process.wait()
                break
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
