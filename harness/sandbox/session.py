"""An agent in a sandbox, as verbs see it: `call` and `list_tools` travel script → agent → channel → relay → gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from harness.clock import SystemClock
from harness.errors import ContractBroken, Untestable
from harness.model.evidence import RpcError
from harness.sandbox.channel import Witnessed
from harness.sandbox.controls import Controls, planted, probe_outside
from harness.sandbox.fresh import mark
from harness.sandbox.outside import Needles, search
from harness.sandbox.place import Place
from harness.target.base import RunGrant
from harness.target.relay import Relays
from harness.target.wire import Answer, Listing

Report = Callable[[str, Any], None]
What = Literal["resume", "detach", "borrow", "claim"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sandboxed session needs. `another` starts a second run, for showing that its channel is of no use to the first."""

    gateway: Relays
    grant: RunGrant
    task: str
    another: Callable[[], Awaitable[RunGrant]]
    credentials: Mapping[str, str]
    share: Sequence[str] = ()


class SandboxSession:
    """Calls carried by the scripted agent. One order at a time, as a model makes them."""

    def __init__(self, place: Place, wanted: Wanted) -> None:
        self.place = place
        self._wanted = wanted
        self._channels: list[Witnessed] = []
        self._relays = AsyncExitStack()
        self.secrets: dict[str, str] = {**wanted.credentials, "run-token": wanted.grant.token}
        self.canary = mark()
        self.tools: list[dict[str, Any]] = []

    # ---- what verbs use

    async def call(self, name: str, arguments: Mapping[str, Any], *, meta: Mapping[str, Any], timeout: float) -> Answer:
        order = {"do": "call", "name": name, "arguments": dict(arguments), "meta": dict(meta)}
        try:
            answer = await self.place.ask(order, within=timeout)
        except TimeoutError:
            return Answer(transport_error=f"no answer within {timeout:g} s")
        if isinstance(answer.get("result"), dict):
            return Answer(result=answer["result"])
        error = answer.get("error")
        if isinstance(error, dict):
            return Answer(error=RpcError(code=int(error.get("code", 0)), message=str(error.get("message", "")), data=error.get("data")))
        return Answer(transport_error=str(answer.get("transport_error") or "the relay gave no answer"))

    async def list_tools(self, *, timeout: float) -> Listing:
        """What was declared to the agent: it knows no other list."""
        answer = await self.place.ask({"do": "list"}, within=timeout)
        if not answer.get("session"):
            raise ContractBroken("no tools were declared in the sandbox", where="tools/list", fix="a channel declares its tools when it opens")
        return Listing(tuple(t for t in answer["tools"] if isinstance(t, dict)), 1, True)

    async def relay(self, what: What) -> dict[str, Any]:
        """`resume`: a new channel for the session that goes on. `detach`: none. `borrow`: another run's. `claim`: speak for another run."""
        before = sorted(str(tool.get("name")) for tool in self.tools)
        if what == "claim":
            answer = await self.place.ask({"do": "claim", "run": f"run_{mark(10)}"})
            return {"what": what, "refused": answer.get("refused"), "answered": "result" in answer}
        if what == "detach":
            await self._hang_up()
            return {"what": what}
        grant = self._wanted.grant
        served = await self._wanted.another() if what == "borrow" else grant
        if served is not grant:
            self.secrets[f"run-token-{len(self.secrets)}"] = served.token
        answer = await self.attach(served, speaks_for=grant)
        return {
            "what": what,
            "refused": answer.get("refused") or answer.get("transport_error"),
            "welcome": answer.get("welcome"),
            "before": before,
            "tools": sorted(str(tool.get("name")) for tool in answer.get("tools") or []),
        }

    # ---- channels

    async def attach(self, served: RunGrant, *, speaks_for: RunGrant) -> dict[str, Any]:
        """A relay for the run `served`, and its channel for the agent, who says that it is `speaks_for`'s."""
        await self._hang_up()
        wire, ticket = Witnessed(), mark()
        self._channels.append(wire)
        handle = await self._relays.enter_async_context(
            self._wanted.gateway.relay(served, task=self._wanted.task, channel=ticket, fd=wire.far.fileno())
        )
        self.secrets |= dict(handle.secrets)
        order = {"do": "attach", "run": speaks_for.run, "channel": ticket, "canary": self.canary}
        near = wire.near.fileno()
        wire.pump()
        answer = await self.place.ask(order, near)
        wire.given()
        if "welcome" in answer:
            self.tools = [tool for tool in answer.get("tools") or [] if isinstance(tool, dict)]
        return answer

    async def _hang_up(self) -> None:
        if self._channels:
            await self._channels[-1].close()
        await self._relays.aclose()

    async def close(self) -> None:
        await self._hang_up()

    # ---- evidence

    async def look(self, controls: Controls, outside: Mapping[str, Any]) -> dict[str, Any]:
        """Everything that is known of the place, from inside and from outside."""
        needles = Needles(self.secrets)
        traffic = b"".join(bytes(wire.traffic) for wire in self._channels)
        seen = self.place.seen([wire.inode for wire in self._channels[-1:]])
        found = search(self.place.pid, needles, self.canary.encode())
        inside = await self.place.ask({"do": "about"})
        seconds = round(SystemClock().monotonic() - self.place.began, 3)
        return {
            "inside": inside,
            "expected": self.place.expected(),
            "outside": seen,
            "seconds": seconds,
            "search": found,
            "probe": {"inside": await self.place.ask({"do": "probe", "look": controls.inside()}), "outside": dict(outside)},
            "traffic": {
                "bytes": len(traffic),
                "whole": all(wire.whole for wire in self._channels),
                "found": needles.within(traffic),
                "control_seen": self._wanted.grant.run.encode() in traffic,
            },
            "standard_error": {"bytes": len(self.place.errors), "found": needles.within(bytes(self.place.errors))},
        }


@asynccontextmanager
async def sandboxed(wanted: Wanted, report: Report) -> AsyncIterator[SandboxSession]:
    """An agent in a place of its own, attached. Reports `sandbox` before its end and `sandbox_removed` after it. Raises Untestable."""
    address = urlsplit(wanted.grant.url)
    async with planted((address.hostname or "127.0.0.1", address.port or 80)) as controls:
        outside = await probe_outside(controls)
        place = Place(controls.environment, wanted.share)
        session = SandboxSession(place, wanted)
        try:
            await place.start()
            answer = await session.attach(wanted.grant, speaks_for=wanted.grant)
            if "welcome" not in answer:
                raise Untestable(f"the relay did not take the agent in: {answer}", where="relay", fix="see docs/operator-api.md")
            report("relay", {"what": "attach", "welcome": answer["welcome"], "tools": sorted(str(t.get("name")) for t in session.tools)})
            try:
                yield session
            finally:
                report("sandbox", await session.look(controls, outside))
        finally:
            await session.close()
            report("sandbox_removed", await place.remove())
