"""A vendor's server that speaks MCP on its standard input and output, put behind HTTP: so the tap stands in front of it too, and records it.

Each session is a process of its own, from its `initialize` to its DELETE; lines are passed on as they are. What the server says while a call is
open goes to that call's event stream, and otherwise to the standing GET stream.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from harness.fake.kit import serve_app
from harness.local.child import KEPT

LINE_BOUND = 16 * 1024 * 1024
END_WITHIN_S = 5.0
HEADER = "mcp-session-id"


@dataclass(frozen=True, slots=True)
class StdioCommand:
    """`env` is all that the process gets besides PATH and the like; what it writes to its error output goes to `log`."""

    words: tuple[str, ...]
    env: Mapping[str, str]
    log: Path


@dataclass(eq=False)
class _Session:
    """One process, and who waits for what it says. A queue gets lines, and None once the process has ended."""

    process: asyncio.subprocess.Process
    calls: dict[str, asyncio.Queue[bytes | None]] = field(default_factory=dict)
    standing: asyncio.Queue[bytes | None] | None = None
    kept: list[bytes] = field(default_factory=list)
    ended: bool = False

    def say(self, line: bytes) -> None:
        """Raises OSError when the process is gone."""
        assert self.process.stdin is not None
        self.process.stdin.write(line.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")

    async def listen(self) -> None:
        assert self.process.stdout is not None
        try:
            async for raw in self.process.stdout:
                if raw.strip():
                    self._deliver(raw.strip())
        except ValueError:
            pass  # a line beyond the bound: nobody can read on from its middle
        self.ended = True
        for queue in [*self.calls.values(), *filter(None, [self.standing])]:
            queue.put_nowait(None)

    def _deliver(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except ValueError:
            return  # servers print to standard output by mistake; that is no message
        asked = json.dumps(message.get("id")) if isinstance(message, dict) and "method" not in message else ""
        if asked in self.calls:
            self.calls[asked].put_nowait(line)
        elif self.calls:
            self.calls[next(reversed(self.calls))].put_nowait(line)
        elif self.standing is not None:
            self.standing.put_nowait(line)
        else:
            self.kept.append(line)


class StdioBridge:
    """`app` is ASGI, with the endpoint /mcp."""

    def __init__(self, command: StdioCommand) -> None:
        self._command = command
        self._sessions: dict[str, _Session] = {}
        self._numbers = itertools.count(1)
        self._listening: set[asyncio.Task[None]] = set()
        doors = (("POST", self._post), ("GET", self._get), ("DELETE", self._delete))
        self.app = Starlette(routes=[Route("/mcp", door, methods=[method]) for method, door in doors])

    async def close(self) -> None:
        for name in list(self._sessions):
            await self._end(name)
        if self._listening:
            await asyncio.wait(self._listening)

    async def _post(self, request: Request) -> Response:
        body = await request.body()
        try:
            message: Any = json.loads(body)
        except ValueError:
            return _refusal(400, -32700, "not JSON")
        if not isinstance(message, dict):
            return _refusal(400, -32600, "one message at a time")
        name = request.headers.get(HEADER, "")
        if message.get("method") == "initialize":
            name = await self._begin()
        session = self._sessions.get(name)
        if session is None:
            return _refusal(404, -32001, "no such session")
        if "method" not in message or "id" not in message:
            return self._told(session, body)
        asked, answers = json.dumps(message["id"]), asyncio.Queue[bytes | None]()
        session.calls[asked] = answers
        if self._told(session, body).status_code != 202:
            session.calls.pop(asked, None)
            return _refusal(502, -32000, "the server has ended")
        return StreamingResponse(self._answers(session, asked, answers), media_type="text/event-stream", headers={HEADER: name})

    def _told(self, session: _Session, body: bytes) -> Response:
        if session.ended:
            return _refusal(502, -32000, "the server has ended")
        try:
            session.say(body)
        except OSError:
            return _refusal(502, -32000, "the server has ended")
        return Response(status_code=202)

    async def _answers(self, session: _Session, asked: str, answers: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        try:
            while (line := await answers.get()) is not None:
                yield b"event: message\r\ndata: " + line + b"\r\n\r\n"
                message = json.loads(line)
                if "method" not in message and json.dumps(message.get("id")) == asked:
                    return
        finally:
            session.calls.pop(asked, None)

    async def _get(self, request: Request) -> Response:
        session = self._sessions.get(request.headers.get(HEADER, ""))
        if session is None:
            return _refusal(404, -32001, "no such session")
        if session.standing is not None:
            return _refusal(409, -32000, "one standing stream a session")
        session.standing = asyncio.Queue()
        for line in session.kept:
            session.standing.put_nowait(line)
        session.kept.clear()
        return StreamingResponse(self._news(session, session.standing), media_type="text/event-stream")

    async def _news(self, session: _Session, news: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        try:
            while (line := await news.get()) is not None:
                yield b"event: message\r\ndata: " + line + b"\r\n\r\n"
        finally:
            session.standing = None

    async def _delete(self, request: Request) -> Response:
        return Response(status_code=200 if await self._end(request.headers.get(HEADER, "")) else 404)

    async def _begin(self) -> str:
        environment = {key: os.environ[key] for key in KEPT if key in os.environ}
        with self._command.log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self._command.words,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**environment, **self._command.env},
                limit=LINE_BOUND,
            )
        name = f"stdio-{next(self._numbers)}"
        session = self._sessions[name] = _Session(process)
        task = asyncio.create_task(session.listen())
        self._listening.add(task)
        task.add_done_callback(self._listening.discard)
        return name

    async def _end(self, name: str) -> bool:
        session = self._sessions.pop(name, None)
        if session is None:
            return False
        process = session.process
        if process.stdin is not None:
            process.stdin.close()  # how MCP says good-bye on standard input
        try:
            await asyncio.wait_for(process.wait(), END_WITHIN_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        return True


def _refusal(status: int, code: int, message: str) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, status)


@asynccontextmanager
async def behind_http(command: StdioCommand) -> AsyncIterator[str]:
    """The base URL (MCP at /mcp) under which the server answers for as long as the block lasts; its processes end with it."""
    bridge = StdioBridge(command)
    async with serve_app(bridge.app) as base_url:
        try:
            yield base_url
        finally:
            await bridge.close()
