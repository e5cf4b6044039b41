"""One process of a server that speaks MCP on its standard input and output, and who waits for what it says."""

from __future__ import annotations

import asyncio
import json
import os
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from harness.cassette.redact import Redactor
from harness.local.child import KEPT, TAIL_LINES, with_us
from harness.tap.replay import Ids
from harness.tap.respell import replaced, spans, spelt

LINE_BOUND = 16 * 1024 * 1024
END_WITHIN_S = 5.0
BACKLOG = 256
"""Lines that wait for a caller; a server that says more is not read from until he has taken some."""
KEPT_LINES = 1000
"""What it says while nobody holds its standing stream; the oldest are lost beyond that."""
LISTEN = "subscriptions/listen"
_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


@dataclass(frozen=True, slots=True)
class StdioCommand:
    """`env` is all that the process gets besides PATH and the like; what it writes to its error output goes to `log`.

    `secrets`: environment variables that are no less than credentials; they are given to it too, and never reach the log.
    `modern`: it speaks 2026-07-28, in which there is no session.
    """

    words: tuple[str, ...]
    env: Mapping[str, str]
    log: Path
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    modern: bool = False


@dataclass(eq=False)
class Call:
    """A request that is not answered yet. `lines` gets what belongs to it, and None once the process has ended.

    `ids`: how its ids were changed on the way in, because another caller's request had the same; told the other way round.
    """

    method: str
    wire_id: str
    token: str = ""
    lines: asyncio.Queue[bytes | None] = field(default_factory=lambda: asyncio.Queue(BACKLOG))
    ids: Ids | None = None


class StdioProcess:
    """`async with` nothing: `begin` starts it and `end` ends it, since its life is that of a session of somebody else's."""

    def __init__(self, process: asyncio.subprocess.Process, command: StdioCommand) -> None:
        self._process = process
        self._command = command
        self._redactor = Redactor()
        self._redactor.know({f"env:{name}": value for name, value in command.secrets.items()})
        self._standing: asyncio.Queue[bytes | None] | None = None
        self._kept: deque[bytes] = deque(maxlen=KEPT_LINES)
        self._calls: dict[str, Call] = {}
        self._reading: tuple[asyncio.Task[None], ...] = ()
        self._collisions = 0
        self.tail: list[str] = []
        self.ended = False

    @classmethod
    async def begin(cls, command: StdioCommand) -> Self:
        """Raises OSError when it cannot be started."""
        environment = {key: os.environ[key] for key in KEPT if key in os.environ}
        process = await asyncio.create_subprocess_exec(
            *with_us(command.words),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**environment, **command.env, **command.secrets},
            limit=LINE_BOUND,
        )
        found = cls(process, command)
        found._reading = (asyncio.create_task(found._listen()), asyncio.create_task(found._log_errors()))
        return found

    @property
    def stands(self) -> bool:
        """Whether somebody holds its standing stream."""
        return self._standing is not None

    def call(self, body: bytes, message: Mapping[str, Any]) -> Call:
        """Ask it. Raises OSError when the process is gone."""
        call = Call(str(message["method"]), spelt(message["id"]), _token(message))
        if call.wire_id in self._calls:
            body, call = self._apart(body, message, call)
        self.say(body)
        self._calls[call.wire_id] = call
        return call

    def say(self, line: bytes) -> None:
        """Raises OSError when the process is gone."""
        assert self._process.stdin is not None
        if self.ended:
            raise BrokenPipeError
        self._process.stdin.write(line.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")

    def hang_up(self, call: Call, *, cancel: bool) -> None:
        """Nobody waits for this answer any more. `cancel`: tell it, since nobody else does."""
        known = self._calls.pop(call.wire_id, None)
        while not call.lines.empty():
            call.lines.get_nowait()  # so that the server is read from again
        if known is None or not cancel or self.ended:
            return
        told = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": json.loads(call.wire_id)}}
        with suppress(OSError):
            self.say(json.dumps(told).encode())

    def answered(self, call: Call) -> None:
        self._calls.pop(call.wire_id, None)

    def stand(self) -> asyncio.Queue[bytes | None]:
        """Its standing stream; what it said while nobody held it comes first."""
        self._standing = asyncio.Queue()
        for line in self._kept:
            self._standing.put_nowait(line)
        self._kept.clear()
        if self.ended:
            self._standing.put_nowait(None)
        return self._standing

    def sit(self) -> None:
        self._standing = None

    def why(self) -> str:
        """How it ended, in its own last words."""
        code = self._process.returncode
        said = " | ".join(self.tail)
        return "the server has ended" + ("" if code is None else f" with code {code}") + (f": {said}" if said else "")

    async def end(self) -> None:
        process = self._process
        if process.stdin is not None:
            process.stdin.close()  # how MCP says good-bye on standard input
        try:
            await asyncio.wait_for(process.wait(), END_WITHIN_S)
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        _, reading = await asyncio.wait(self._reading, timeout=END_WITHIN_S)
        for task in reading:  # somebody holds a stream and takes nothing from it
            task.cancel()
        if reading:
            await asyncio.wait(reading)

    def _apart(self, body: bytes, message: Mapping[str, Any], call: Call) -> tuple[bytes, Call]:
        """Another caller's open request has the same id: this one gets an id of its own on the way in, and its own back on the way out."""
        self._collisions += 1
        fresh = f"bridge-{self._collisions}"
        text = body.decode("utf-8", "surrogatepass")
        for path, own in ((("id",), call.wire_id), (("params", "_meta", "progressToken"), call.token)):
            text = replaced(text, spans(text) or {}, path, {own: fresh} if own else {})
        back = {spelt(fresh): message["id"]}
        ids = Ids(back, {spelt(fresh): json.loads(call.token)} if call.token else {})
        return text.encode("utf-8", "surrogatepass"), Call(call.method, spelt(fresh), spelt(fresh) if call.token else "", ids=ids)

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        try:
            async for raw in self._process.stdout:
                if raw.strip():
                    await self._deliver(raw.strip())
        except ValueError:
            self._note("(a line on standard output is longer than can be read)")  # nobody can read on from its middle
        self.ended = True
        if self._process.stdin is not None:
            self._process.stdin.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), END_WITHIN_S)  # so that it can be said how it ended
        if self._standing is not None:
            self._standing.put_nowait(None)
        for call in list(self._calls.values()):
            await call.lines.put(None)

    async def _log_errors(self) -> None:
        assert self._process.stderr is not None
        try:
            async for raw in self._process.stderr:
                self._note(raw.decode("utf-8", "replace").rstrip())
        except ValueError:
            self._note("(a line on standard error is longer than can be read)")
            while await self._process.stderr.read(65536):
                pass  # read on, so that it is never blocked

    def _note(self, line: str) -> None:
        clean = self._redactor.clean(line)
        self.tail = [*self.tail, clean][-TAIL_LINES:]
        with suppress(OSError), self._command.log.open("a", encoding="utf-8", errors="replace") as log:
            log.write(clean + "\n")

    async def _deliver(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            self._note(f"(on standard output, and no message) {line[:400].decode('utf-8', 'replace')}")
            return
        call = self._whose(message)
        if call is not None:
            await call.lines.put(_restored(line, call.ids))
        elif "method" not in message:
            return  # an answer that nobody waits for any more
        elif self._standing is not None:
            self._standing.put_nowait(line)
        else:
            self._kept.append(line)

    def _whose(self, message: Mapping[str, Any]) -> Call | None:
        """The call that a message belongs to: by its id, its progress token, its subscription; else the newest that is no subscription."""
        params = message.get("params") if isinstance(message.get("params"), dict) else {}
        assert isinstance(params, dict)
        meta = params.get("_meta") if isinstance(params.get("_meta"), dict) else {}
        if "method" not in message:
            return self._calls.get(spelt(message.get("id")))
        if isinstance(meta, dict) and _SUBSCRIPTION in meta:
            return self._calls.get(spelt(meta[_SUBSCRIPTION]))
        if message["method"] == "notifications/progress":
            token = spelt(params.get("progressToken"))
            return next((call for call in self._calls.values() if call.token == token), None)
        return next((call for call in reversed(self._calls.values()) if call.method != LISTEN), None)


def _token(message: Mapping[str, Any]) -> str:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return spelt(meta["progressToken"]) if isinstance(meta, dict) and "progressToken" in meta else ""


def _restored(line: bytes, ids: Ids | None) -> bytes:
    if ids is None:
        return line
    try:
        return ids.rewritten(line.decode("utf-8")).encode("utf-8")
    except UnicodeDecodeError:
        return line
