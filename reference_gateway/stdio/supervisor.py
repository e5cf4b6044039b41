"""Keeps one local server running: started when first needed, started again after a crash, but not for ever.

Only the process's own end uses up its restarts. What its provider answers, an error included, never does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Literal

from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION

from reference_gateway import __version__
from reference_gateway.clock import Clock
from reference_gateway.defects import Defects
from reference_gateway.stdio.process import Child, OnProgress
from reference_gateway.stdio.templates import Template
from reference_gateway.wire import FETCH_FAILED, MALFORMED, Json, UpstreamFailure

CLIENT_INFO = {"name": "reference-gateway", "version": __version__}
OPEN_LIMIT = 1_000_000
BACKOFF = "runtime_restart_backoff"
SUPPRESSED = "runtime_restart_suppressed"

State = Literal["idle", "running", "backoff", "suppressed"]
Told = Callable[[str, Mapping[str, Any]], None]
"""Event (`process_started` or `process_ended`) and details, for the record."""


class Supervisor:
    """`values` gives the child's own keys afresh for each start; `told` hears of every start and end."""

    def __init__(
        self, template: Template, values: Callable[[], Mapping[str, str]], clock: Clock, defects: Defects, told: Told, *, pin: str | None = None
    ) -> None:
        self.template = template
        self._values = values
        self._clock = clock
        self._defects = defects
        self._told = told
        self._offer = pin or LATEST_HANDSHAKE_VERSION
        self._child: Child | None = None
        self._opened: Json = {}
        self._crashes: list[float] = []
        self._starting = asyncio.Lock()
        self._ending = False
        self._may_start = True
        self._watch: asyncio.Task[None] | None = None

    @property
    def state(self) -> State:
        if self._child is not None and not self._child.ended.is_set():
            return "running"
        reason = self.unready()
        return "idle" if reason is None else "backoff" if reason == BACKOFF else "suppressed"

    def public(self) -> Json:
        running = self._child is not None and not self._child.ended.is_set()
        return {"state": self.state, "pid": self._child.pid if running and self._child else None, "restarts_left": self._left()}

    def unready(self) -> str | None:
        """Why no call may be sent now: the time after a crash, or no restart left. None while it runs or may be started."""
        if self._child is not None and not self._child.ended.is_set():
            return None
        recent = self._recent()
        if recent and len(recent) >= self.template.restarts:
            return SUPPRESSED
        if recent and self._clock.monotonic() < recent[-1] + self.template.backoff_s * 2 ** (len(recent) - 1):
            return BACKOFF
        return None

    async def opened(self) -> Json:
        """The answer to initialize of the running process, which is started if need be, also after `close`. Raises UpstreamFailure."""
        self._may_start = True
        await self._running()
        return self._opened

    async def request(self, method: str, params: Json, *, limit: int, progress: OnProgress | None = None) -> Json:
        """One request to the running process. Raises UpstreamFailure; a process that crashes over it is not asked again."""
        child = await self._running()
        try:
            return await child.request(method, params, limit=limit, progress=progress)
        except UpstreamFailure as failure:
            if "provider-error-burns-budget" in self._defects and failure.rpc is not None:
                self._crashes.append(self._clock.monotonic())
            raise

    def forgive(self) -> None:
        """An operator looked after it: its restarts are as new."""
        self._crashes.clear()

    async def close(self) -> None:
        """Ends the process. A call that was on its way to it starts no other."""
        self._ending, self._may_start = True, False
        child, self._child = self._child, None
        if child is not None:
            await child.close()
        if self._watch is not None:
            await asyncio.wait({self._watch})
            self._watch = None
        self._ending = False

    async def _running(self) -> Child:
        async with self._starting:
            if self._child is not None and not self._child.ended.is_set():
                return self._child
            if not self._may_start:
                raise UpstreamFailure(FETCH_FAILED, "the local server was ended")
            if (reason := self.unready()) is not None:
                raise UpstreamFailure(FETCH_FAILED, f"the local server is not started now ({reason})")
            return await self._start()

    async def _start(self) -> Child:
        try:
            child = await Child.start(self.template.command, self._values(), inherit="child-inherits-environment" in self._defects)
        except UpstreamFailure:
            self._crashes.append(self._clock.monotonic())
            raise
        self._told("process_started", {"template": self.template.id, "pid": child.pid})
        self._child = child
        self._watch = asyncio.ensure_future(self._until_ended(child))
        try:
            self._opened = await self._initialize(child)
        except BaseException:
            self._child = None
            await child.close()  # the watch counts it: a server that cannot be opened is as good as one that crashed
            raise
        return child

    async def _initialize(self, child: Child) -> Json:
        params = {"protocolVersion": self._offer, "capabilities": {}, "clientInfo": CLIENT_INFO}
        opened = await child.request("initialize", params, limit=OPEN_LIMIT)
        if opened.get("protocolVersion") not in HANDSHAKE_PROTOCOL_VERSIONS:
            raise UpstreamFailure(MALFORMED, "the local server offers a protocol version that is not known", answered=True)
        await child.notify("notifications/initialized")
        return opened

    async def _until_ended(self, child: Child) -> None:
        await child.ended.wait()
        if self._ending:
            self._told("process_ended", {"template": self.template.id, "pid": child.pid, "cause": "ended"})
            return
        self._crashes.append(self._clock.monotonic())
        self._told("process_ended", {"template": self.template.id, "pid": child.pid, "cause": "crashed"})

    def _recent(self) -> list[float]:
        since = self._clock.monotonic() - self.template.restart_window_s
        self._crashes = [each for each in self._crashes if each > since]
        return self._crashes

    def _left(self) -> int:
        return max(0, self.template.restarts - len(self._recent()))
