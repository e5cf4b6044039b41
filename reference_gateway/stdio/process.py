"""One child process that speaks JSON-RPC in lines: its environment, its pipes, its end. It judges nothing and restarts nothing."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeGuard

from reference_gateway.wire import FETCH_FAILED, MALFORMED, REMOTE_ERROR, TOO_LARGE, Json, UpstreamFailure

MAX_LINE = 16 * 1024 * 1024
END_WITHIN_S = 2.0
KEPT = ("PATH", "LANG")

OnProgress = Callable[[float, float | None, str | None], Awaitable[None]]


def environment(own: Mapping[str, str], home: str, *, inherit: bool = False) -> dict[str, str]:
    """All that a child gets to know: its template's keys, where programs are, and an empty home. `inherit` is the defect."""
    kept = dict(os.environ) if inherit else {key: os.environ[key] for key in KEPT if key in os.environ}
    return {**kept, "HOME": home, **own}


class Child:
    """Started by `start`; `ended` is set once it is gone, whoever ended it."""

    def __init__(self, process: asyncio.subprocess.Process, home: str) -> None:
        self._process = process
        self._home = home
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Json]] = {}
        self._progress: dict[int, OnProgress] = {}
        self.ended = asyncio.Event()
        self.noise = 0
        """Lines on its standard output that were no JSON-RPC. Ignored, for some servers greet."""
        self._tasks = [asyncio.ensure_future(work) for work in (self._read(), self._drain())]

    @staticmethod
    async def start(command: Sequence[str], own: Mapping[str, str], *, inherit: bool = False) -> Child:
        """Raises UpstreamFailure when there is no such program any more, or no process to be had."""
        home = tempfile.mkdtemp(prefix="gateway-local-server-")
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(own, home, inherit=inherit), cwd=home,
                start_new_session=True, limit=MAX_LINE,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            shutil.rmtree(home, ignore_errors=True)
            raise UpstreamFailure(FETCH_FAILED, f"the local server could not be started ({type(error).__name__})") from error
        return Child(process, home)

    @property
    def pid(self) -> int:
        return self._process.pid

    async def request(self, method: str, params: Json, *, limit: int, progress: OnProgress | None = None) -> Json:
        """The result. Raises UpstreamFailure; cancelling it tells the server so."""
        number = next(self._ids)
        if progress is not None:
            params = {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": number}}
            self._progress[number] = progress
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            message = await answer
        except asyncio.CancelledError:
            if method != "initialize" and not self.ended.is_set():
                params = {"requestId": number, "reason": "no longer waited for"}
                self._write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            raise
        finally:
            self._waiting.pop(number, None)
            self._progress.pop(number, None)
        return _result(message, limit)

    async def notify(self, method: str) -> None:
        await self._send({"jsonrpc": "2.0", "method": method})

    async def close(self) -> None:
        """Ends it and all of its process group: first its input, then by asking, then by force."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_WITHIN_S):
                    await self._process.wait()
                    break
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)  # whoever of its group outlived it
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._over()

    def _write(self, message: Json) -> bool:
        stdin = self._process.stdin
        if stdin is None or stdin.is_closing():
            return False
        stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        return True

    async def _send(self, message: Json) -> None:
        try:
            if self.ended.is_set() or not self._write(message):
                raise UpstreamFailure(FETCH_FAILED, "the local server has ended")
            assert self._process.stdin is not None
            await self._process.stdin.drain()
        except (ConnectionError, OSError) as error:
            raise UpstreamFailure(FETCH_FAILED, "the local server takes no input any more") from error

    async def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                await self._incoming(line)
        except ValueError:  # the stream's word for a line beyond its bound
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        self._over()

    async def _incoming(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            self.noise += bool(line.strip())
            return
        number, params = message.get("id"), message.get("params")
        if "method" in message:
            if number is not None:
                self._answer(message["method"], number)
            elif message["method"] == "notifications/progress" and isinstance(params, dict):
                await self._told(params)
            return
        waiting = self._waiting.get(number) if isinstance(number, int) and not isinstance(number, bool) else None
        if waiting is not None and not waiting.done():
            waiting.set_result({**message, "size": len(line)})

    def _answer(self, method: object, number: object) -> None:
        """We offer no client abilities, so nothing but a ping may be asked of us."""
        body: Json = {"result": {}} if method == "ping" else {"error": {"code": -32601, "message": "Method not found"}}
        self._write({"jsonrpc": "2.0", "id": number, **body})

    async def _told(self, params: Json) -> None:
        token = params.get("progressToken")
        listener = self._progress.get(token) if isinstance(token, int) else None
        done, total, text = params.get("progress"), params.get("total"), params.get("message")
        if listener is not None and _number(done):
            await listener(float(done), float(total) if _number(total) else None, text if isinstance(text, str) else None)

    async def _drain(self) -> None:
        """What it writes to standard error may hold anything, so it goes nowhere; but a full pipe would stop it."""
        assert self._process.stderr is not None
        while await self._process.stderr.read(65536):
            pass

    def _over(self) -> None:
        if not self.ended.is_set():
            self.ended.set()
            shutil.rmtree(self._home, ignore_errors=True)
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(UpstreamFailure(FETCH_FAILED, "the local server ended before it answered"))


def _result(message: Json, limit: int) -> Json:
    if message["size"] > limit:
        raise UpstreamFailure(TOO_LARGE, f"the local server's answer is larger than {limit} bytes", answered=True)
    error, result = message.get("error"), message.get("result")
    if isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str):
        rpc = {key: error[key] for key in ("code", "message", "data") if key in error}
        raise UpstreamFailure(REMOTE_ERROR, "the local server answered with an error", rpc=rpc, answered=True)
    if not isinstance(result, dict) or "error" in message:
        raise UpstreamFailure(MALFORMED, "the local server's answer holds no result", answered=True)
    return result


def _number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
