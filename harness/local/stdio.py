"""A vendor's server that speaks MCP on its standard input and output, put behind HTTP: so the tap stands in front of it too, and records it.

Each session is a process of its own, from its `initialize` to its DELETE; lines are passed on as they are. Where there is no session
(2026-07-28), each caller has a process of its own, and is known by the credential that it shows. What the server says while a call is
open goes to that call's event stream, and otherwise to the standing GET stream.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from harness.errors import Unreachable
from harness.fake.kit import serve_app
from harness.local.installation import command_line
from harness.local.stdio_process import Call, StdioCommand, StdioProcess
from harness.model.scenario import PROTOCOLS
from harness.tap.respell import spelt

__all__ = ["StdioBridge", "StdioCommand", "behind_http"]

HEADER = "mcp-session-id"
MODERN = "io.modelcontextprotocol/protocolVersion"
READY_WITHIN_S = 60.0
"""Real seconds for its first answer; a cold start with hundreds of megabytes of imports takes ten to twenty on a busy machine."""
_HELLO = {"capabilities": {}, "clientInfo": {"name": "harness", "version": "1"}}


class StdioBridge:
    """`app` is ASGI, with the endpoint /mcp."""

    def __init__(self, command: StdioCommand) -> None:
        self._command = command
        self._sessions: dict[str, StdioProcess] = {}
        self._callers: dict[str, StdioProcess] = {}
        self._beginning = asyncio.Lock()
        self._numbers = itertools.count(1)
        doors = (("POST", self._post), ("GET", self._get), ("DELETE", self._delete))
        self.app = Starlette(routes=[Route("/mcp", door, methods=[method]) for method, door in doors])

    async def greet(self) -> None:
        """Start it once and shake hands, so that what is wrong with it is said at once. Raises Unreachable (4)."""
        where, fix = command_line(self._command.words), f"see {self._command.log.name} in the run's folder, and try the command by hand"
        params = {"protocolVersion": max(set(PROTOCOLS) - {"2026-07-28"}), **_HELLO}
        hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        try:
            process = await StdioProcess.begin(self._command)
        except OSError as error:
            raise Unreachable(f"it could not be started: {error.strerror}", where=where, fix="install it, or mend the command") from error
        try:
            call = process.call(json.dumps(hello).encode(), hello)
            answer = await asyncio.wait_for(call.lines.get(), READY_WITHIN_S)  # an error is an answer too: it speaks the protocol
        except OSError:
            answer = None
        except TimeoutError:
            raise Unreachable(f"the server did not answer within {READY_WITHIN_S:g} s", where=where, fix=fix) from None
        finally:
            await process.end()
        if answer is None:
            raise Unreachable(f"{process.why()}; it never answered", where=where, fix=fix)

    async def close(self) -> None:
        processes = [*self._sessions.values(), *self._callers.values()]
        self._sessions.clear()
        self._callers.clear()
        await asyncio.gather(*(process.end() for process in processes))

    async def _post(self, request: Request) -> Response:
        body = await request.body()
        try:
            message: Any = json.loads(body)
        except (ValueError, RecursionError):
            return _refusal(400, -32700, "not JSON")
        if not isinstance(message, dict):
            return _refusal(400, -32600, "one message at a time")
        name = request.headers.get(HEADER, "")
        modern = not name and self._command.modern and _enveloped(message)
        try:
            if message.get("method") == "initialize":
                name = await self._begin()
            process = await self._of_caller(request.headers.get("authorization", "")) if modern else self._sessions.get(name)
            if process is None:
                return _refusal(404, -32001, "no such session")
            if "method" not in message or "id" not in message:
                process.say(body)
                return Response(status_code=202)
            call = process.call(body, message)
        except OSError as error:
            why = "could not be started" if error.filename else "has ended"
            return _refusal(502, -32000, f"the server {why}; see {self._command.log.name}")
        headers = {} if modern else {HEADER: name}
        return StreamingResponse(self._answers(process, call, cancel=modern), media_type="text/event-stream", headers=headers)

    async def _answers(self, process: StdioProcess, call: Call, *, cancel: bool) -> AsyncIterator[bytes]:
        try:
            asked = call.wire_id if call.ids is None else spelt(call.ids.ids[call.wire_id])
            while (line := await call.lines.get()) is not None:
                message = json.loads(line)
                answer = "method" not in message and spelt(message.get("id")) == asked
                if answer:
                    process.answered(call)
                yield b"event: message\r\ndata: " + line + b"\r\n\r\n"
                if answer:
                    return
                await asyncio.sleep(0)  # a server that says much must not hold up everybody else
        finally:
            process.hang_up(call, cancel=cancel)

    async def _get(self, request: Request) -> Response:
        process = self._sessions.get(request.headers.get(HEADER, ""))
        if process is None:
            return _refusal(404, -32001, "no such session")
        if process.stands:
            return _refusal(409, -32000, "one standing stream a session")
        return StreamingResponse(self._news(process, process.stand()), media_type="text/event-stream")

    async def _news(self, process: StdioProcess, news: asyncio.Queue[bytes | None]) -> AsyncIterator[bytes]:
        try:
            while (line := await news.get()) is not None:
                yield b"event: message\r\ndata: " + line + b"\r\n\r\n"
        finally:
            process.sit()

    async def _delete(self, request: Request) -> Response:
        process = self._sessions.pop(request.headers.get(HEADER, ""), None)
        if process is None:
            return Response(status_code=404)
        await process.end()
        return Response(status_code=200)

    async def _begin(self) -> str:
        name = f"stdio-{next(self._numbers)}"
        self._sessions[name] = await StdioProcess.begin(self._command)
        return name

    async def _of_caller(self, credential: str) -> StdioProcess:
        """A caller without sessions: his process, a new one where there is none or it has ended."""
        async with self._beginning:
            known = self._callers.get(credential)
            if known is not None and not known.ended:
                return known
            if known is not None:
                await known.end()
            found = self._callers[credential] = await StdioProcess.begin(self._command)
            return found


def _enveloped(message: dict[str, Any]) -> bool:
    """Whether it says by itself which version it speaks: of 2026-07-28 on, where nobody is greeted first."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and MODERN in meta


def _refusal(status: int, code: int, message: str) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, status)


@asynccontextmanager
async def behind_http(command: StdioCommand, *, greet: bool = False) -> AsyncIterator[str]:
    """The base URL (MCP at /mcp) under which the server answers for as long as the block lasts; its processes end with it.

    With `greet` it is started once before, and Unreachable raised when it does not answer.
    """
    bridge = StdioBridge(command)
    if greet:
        await bridge.greet()
    async with serve_app(bridge.app) as base_url:
        try:
            yield base_url
        finally:
            await bridge.close()
