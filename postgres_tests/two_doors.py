"""Two gateways on one store that look like one: agents come in at the first, operators at the second. Arguments are the gateway's own.

What one of them decides and the other does not know of shows in every scenario that is run against it. A clock that is moved is moved for both.
"""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from typing import Any

import httpx2
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bench.processes import end

AGENTS_ONLY = ("--checkpoints", "--audit-key-file")
"""Options that the gateway of the agents does without: the log is kept once."""
METHODS = ["GET", "POST", "PUT", "DELETE"]


def started(arguments: list[str]) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
    """A gateway that is ready, or the end of this process, with the gateway's own code."""
    process = subprocess.Popen([sys.executable, "-m", "reference_gateway", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        sys.exit(process.wait())
    return process, json.loads(line)


def without(arguments: list[str], options: tuple[str, ...]) -> list[str]:
    """Each of these options has a value."""
    return [each for number, each in enumerate(arguments) if each not in options and arguments[max(number - 1, 0)] not in options]


class Front:
    """The operator's door of the second gateway."""

    def __init__(self, agents: str, operators: str) -> None:
        self._agents = agents
        self._operators = operators
        self._http = httpx2.AsyncClient(trust_env=False, timeout=120)

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/{path:path}", self.passed_on, methods=METHODS)])

    async def passed_on(self, request: Request) -> Response:
        body = await request.body()
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        if path.endswith("/clock/advance"):
            await self._send(self._agents, request, path, body)
        answer = await self._send(self._operators, request, path, body)
        kept = {name: answer.headers[name] for name in ("content-type", "www-authenticate", "etag") if name in answer.headers}
        return Response(answer.content, answer.status_code, kept)

    async def _send(self, door: str, request: Request, path: str, body: bytes) -> httpx2.Response:
        headers = {name: value for name, value in request.headers.items() if name not in ("host", "content-length", "connection", "accept-encoding")}
        return await self._http.request(request.method, door + path, content=body or None, headers=headers)


async def serve(agents: dict[str, Any], operators: dict[str, Any]) -> None:
    """Until standard input closes."""
    front = Front(*(str(ready["operator"]).removesuffix("/operator/v1") for ready in (agents, operators)))
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(front.app(), log_level="error", lifespan="off", ws="none"))
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started:
        await asyncio.sleep(0)
    door = f"http://127.0.0.1:{listening.getsockname()[1]}/operator/v1"
    sys.stdout.write(json.dumps({**agents, "operator": door}) + "\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.buffer.read)
    server.should_exit = True
    await serving


def main(arguments: list[str]) -> None:
    first, agents = started(without(arguments, AGENTS_ONLY))
    try:
        second, operators = started(arguments)
        try:
            asyncio.run(serve(agents, operators))
        finally:
            end(second)
    finally:
        end(first)


if __name__ == "__main__":
    main(sys.argv[1:])
