"""The relay: tools for an agent in a place that cannot reach the gateway, over one inherited socket (docs/operator-api.md, "The relay").

A process of its own beside the gateway. It holds the run's token; the place holds one end of a socket pair and nothing else. It has
no authority of its own: every call is a fresh request to the gateway under that token, so that permissions, approvals, modes, the end
of a run and a revoked grant are judged anew each time, exactly as for an agent that stands beside the gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import ssl
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from reference_gateway.defects import Defects, UnknownDefect
from reference_gateway.ids import RandomIds
from reference_gateway.lines import Lines
from reference_gateway.relay_channel import READABLE, Channel, Refused, Ticket, declaration, paired
from reference_gateway.wire import Json, UpstreamFailure, exchange

PROTOCOL = "2026-07-28"
ANSWER_LIMIT = 1_100_000
CALL_WITHIN_S = 90.0
MAX_PAGES = 100
AT_ONCE = 8
SPEC_KEYS = ("url", "token", "run", "task", "channel")


@dataclass(frozen=True, slots=True)
class Spec:
    """What the runner is told on standard input. `url` and `token` never go down the channel."""

    url: str
    token: str
    ticket: Ticket


class Gateway:
    """The agents' door, as the relay uses it: one request per call, no session, nothing remembered."""

    def __init__(self, http: Lines, spec: Spec) -> None:
        self._http = http
        self._spec = spec
        self._number = 0

    async def ask(self, method: str, params: Json, name: str = "") -> Json:
        """{"result"}, {"error"} (JSON-RPC) or {"transport_error"}; never raises for what the gateway did."""
        self._number += 1
        meta = {
            **params.get("_meta", {}),
            "io.modelcontextprotocol/protocolVersion": PROTOCOL,
            "io.modelcontextprotocol/clientInfo": {"name": "relay", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": {**params, "_meta": meta}}
        headers = {
            "authorization": f"Bearer {self._spec.token}",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": PROTOCOL,
            "mcp-method": method,
            **({"mcp-name": name} if name else {}),
        }
        try:
            async with asyncio.timeout(CALL_WITHIN_S):
                reply = await exchange(self._http, self._spec.url, message, headers, limit=ANSWER_LIMIT, on_message=_ignore)
        except UpstreamFailure as failure:
            if failure.rpc is not None:
                return {"error": failure.rpc}
            status = f" (HTTP {failure.status})" if failure.status else ""
            return {"transport_error": f"the gateway gave no answer: {failure.reason}{status}"}
        except TimeoutError:
            return {"transport_error": f"the gateway gave no answer within {CALL_WITHIN_S:g} s"}
        except ValueError:  # a number or a text that JSON or a header does not carry
            return {"transport_error": "the call cannot be sent"}
        return {"result": reply.result}

    async def tools(self) -> list[Json]:
        """Every tool that this run sees now. Raises Refused when the gateway does not list them."""
        found: list[Json] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            answer = await self.ask("tools/list", {} if cursor is None else {"cursor": cursor})
            if "result" not in answer:
                raise Refused("gateway_refused", str(answer.get("transport_error") or answer["error"]["message"]))
            found += [tool for tool in answer["result"].get("tools", []) if isinstance(tool, dict)]
            cursor = answer["result"].get("nextCursor")
            if cursor is None:
                return found
        raise Refused("gateway_refused", "the gateway's tool list does not end")


async def _ignore(_message: Json) -> None:
    return None


class Relay:
    """Serves one channel until either side is gone."""

    def __init__(self, channel: Channel, gateway: Gateway, spec: Spec, defects: Defects) -> None:
        self._channel = channel
        self._gateway = gateway
        self._spec = spec
        self._defects = defects
        self._open = "relay-open-to-other-run" in defects
        self._calls: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        try:
            await self._greet()
            while (frame := await self._channel.receive()) is not None:
                if not self._open:
                    self._spec.ticket.check_run(frame)
                self._start(frame)
        except Refused as refused:
            with contextlib.suppress(ConnectionError):
                await self._channel.send({"type": "refused", "code": refused.code, "message": refused.message})
        finally:
            for call in self._calls:
                call.cancel()  # the agent is gone, or has no right to an answer: the gateway sees a caller that left
            await asyncio.gather(*self._calls, return_exceptions=True)
            self._channel.close()

    async def _greet(self) -> None:
        """The whole list is declared on every channel, so that a resumed session never keeps an older one."""
        hello = await self._channel.receive()
        if hello is None:
            raise Refused("closed", "the place said nothing")
        if not self._open:
            self._spec.ticket.check_hello(hello)
        welcome = declaration(self._spec.ticket, await self._gateway.tools(), RandomIds().new("session"), str(hello.get("session") or ""))
        if "relay-leaks-token" in self._defects:
            welcome["environment"] = {"GATEWAY_TOKEN": self._spec.token}
        await self._channel.send(welcome)

    def _start(self, frame: Json) -> None:
        if len(self._calls) >= AT_ONCE:
            raise Refused("too_many_calls", f"more than {AT_ONCE} calls at once")
        task = asyncio.ensure_future(self._answer(frame))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _answer(self, frame: Json) -> None:
        answer = await self._do(frame)
        with contextlib.suppress(ConnectionError):
            try:
                await self._channel.send({"type": "answer", "id": frame.get("id"), **answer})
            except Refused:
                await self._channel.send({"type": "answer", "id": frame.get("id"), "transport_error": "the answer is larger than a frame"})

    async def _do(self, frame: Json) -> Json:
        if frame.get("type") == "list":
            try:
                return {"result": {"tools": await self._gateway.tools()}}
            except Refused as refused:
                return {"transport_error": refused.message}
        name, arguments, meta = frame.get("name"), frame.get("arguments"), frame.get("meta")
        if frame.get("type") != "call" or not isinstance(name, str) or not isinstance(arguments, dict) or not isinstance(meta, dict):
            return {"error": {"code": -32600, "message": "not a frame of relay/v1"}}
        if not READABLE.fullmatch(name):
            return {"error": {"code": -32602, "message": "not a name of a tool"}}
        return await self._gateway.ask("tools/call", {"name": name, "arguments": arguments, "_meta": meta}, name)


def _end_of_input() -> asyncio.Future[None]:
    """Done when whoever started us closes our standard input."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def readable() -> None:
        try:
            alive = bool(os.read(0, 65536))
        except OSError:
            alive = False
        if not alive:
            loop.remove_reader(0)
            if not ended.done():
                ended.set_result(None)

    loop.add_reader(0, readable)
    return ended


async def run(sock: socket.socket, spec: Spec, defects: Defects) -> None:
    """Until the channel ends, or standard input does: a relay never outlives its runner."""
    channel = await Channel.over(sock)
    http = Lines(_dial, agent="reference-gateway-relay")
    try:
        serving = asyncio.ensure_future(Relay(channel, Gateway(http, spec), spec, defects).serve())
        gone = _end_of_input()
        sys.stdout.write('{"ready":true}\n')
        sys.stdout.flush()
        await asyncio.wait({serving, gone}, return_when=asyncio.FIRST_COMPLETED)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
    finally:
        http.close()


async def _dial(scheme: str, host: str, port: int, factory: Callable[[], asyncio.Protocol]) -> object:
    """To the agents' door, whose address the runner gave."""
    return await asyncio.get_running_loop().create_connection(factory, host, port, ssl=ssl.create_default_context() if scheme == "https" else None)


def read_spec(line: str) -> Spec:
    """Raises ValueError for anything but one JSON object with exactly the keys of SPEC_KEYS, all texts."""
    found: Any = json.loads(line)
    if not isinstance(found, dict) or set(found) != set(SPEC_KEYS) or not all(isinstance(v, str) and v for v in found.values()):
        raise ValueError("not one object of url, token, run, task and channel")
    return Spec(found["url"], found["token"], Ticket(found["run"], found["task"], found["channel"]))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reference_gateway.relay", description="The runner's end of a relay channel.")
    parser.add_argument("--fd", type=int, required=True, help="an inherited, connected stream socket: the channel")
    parser.add_argument("--defect", metavar="NAME", action="append", default=[], help="turn on one deliberate defect")
    found = parser.parse_args(argv)
    try:
        defects = Defects(found.defect)
        spec = read_spec(sys.stdin.readline())
        sock = paired(socket.socket(fileno=found.fd))
    except (UnknownDefect, ValueError, OSError) as error:
        what = getattr(error, "strerror", None) or str(error)
        sys.stderr.write(f"error: {what} (standard input, --fd or --defect). See docs/operator-api.md\n")
        return 2
    asyncio.run(run(sock, spec, defects))
    return 0


if __name__ == "__main__":
    sys.exit(main())
