"""Both legs of one gateway: the laboratory's provider asked directly, and through the gateway with the tap in between."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from harness.clock import Clock
from harness.errors import HarnessError, Unreachable, WitnessBlind
from harness.model.exchange import Sequencer
from harness.model.scenario import PROTOCOLS, ConnectionSpec
from harness.tap.mount import Mount
from harness.tap.server import Tap
from harness.target.base import ConnectionRequest, LaunchOptions, RunGrant, RunningTarget, Target, tell_on_stderr
from harness.target.light import LightGateway
from harness.transparency.client import Agent, agent
from harness.transparency.cost import cpu_of
from harness.transparency.facts import Measure, Observations
from harness.transparency.lab import PATH, Lab, served
from harness.transparency.lab_tools import Wire, lab_tools
from harness.transparency.probes import PROBES, LegUnderGlass

CONNECTION = "lab"
TENANT = "transparency"
SECRET = "synthetic-lab-provider-credential"
ROUNDS = 12


@dataclass(frozen=True, slots=True)
class Seat:
    """How a gateway is set up for a measurement. `work_dir` gets its log. `tools`: what the provider lists at first."""

    target: Target
    work_dir: Path
    clock: Clock
    protocol: str = PROTOCOLS[-2]
    connection: str = CONNECTION
    tell: Callable[[str], None] = tell_on_stderr
    still: bool = False
    """The gateway's clock stands, and moves when it is told (where it can be told)."""
    tools: tuple[Wire, ...] = field(default_factory=lambda: tuple(lab_tools()))


@dataclass(frozen=True, slots=True)
class Glass:
    """One gateway that is up, with its connection to the laboratory made."""

    seat: Seat
    lab: Lab
    tap: Tap
    mount: Mount
    gateway: RunningTarget
    http: httpx2.AsyncClient
    grant: RunGrant
    version: str

    @asynccontextmanager
    async def direct(self, protocol: str = "") -> AsyncIterator[Agent]:
        async with agent(self.lab.url + PATH, self.http, self.lab.credential, protocol or self.seat.protocol) as made:
            yield made

    @asynccontextmanager
    async def through(self, protocol: str = "") -> AsyncIterator[Agent]:
        """Raises Unreachable naming the gateway and its version."""
        try:
            async with agent(self.grant.url, self.http, self.grant.token, protocol or self.seat.protocol) as made:
                yield made
        except Unreachable as error:
            raise Unreachable(f"{self.gateway.label}: {error.what}", where=error.where, fix=error.fix) from error
        self._believe(made)

    def _believe(self, made: Agent) -> None:
        """Raises when what a session showed is a limiter's, or another agent's: nothing of it is the gateway's own behaviour."""
        if made.throttled:
            what = f"{self.gateway.label} answered HTTP 429 to {made.throttled} requests of a session"
            raise Unreachable(what, where=self.seat.target.id, fix="lift its limits by its own settings: a measurement asks some hundred times")
        if made.foreign:
            what = f"{self.gateway.label} answered {made.foreign} requests with an answer to another"
            raise WitnessBlind(what, where=self.seat.target.id, fix="nothing that it answers can be believed; tell its maker")

    def leg(self, made: Agent, *, direct: bool) -> LegUnderGlass:
        if direct:
            return LegUnderGlass(made, self.lab, lambda name: name, lambda name: name)
        return LegUnderGlass(made, self.lab, self.shown, self.own)

    def shown(self, tool: str) -> str:
        return self.gateway.exposed_name(self.seat.connection, tool)

    def own(self, shown: str) -> str:
        """By the list's own table first, where a declared change of letters cannot be turned back."""
        table = {self.shown(tool["name"]): str(tool["name"]) for tool in self.lab.tools}
        return table.get(shown) or self.gateway.tool_of(shown, self.seat.connection)[1]


@asynccontextmanager
async def under_glass(seat: Seat) -> AsyncIterator[Glass]:
    """A gateway with the laboratory behind it. Raises Unreachable or Incomplete, naming it, and leaves nothing running."""
    sequencer = Sequencer()
    async with served(SECRET, seat.tools) as lab, Tap(seat.clock, sequencer, seat.target.tap_port) as tap:
        mount = tap.mount(seat.connection, lab.url)
        seat.work_dir.mkdir(parents=True, exist_ok=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # everything here is plain HTTP on loopback: no authority needs to be read
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=16)
        transport = httpx2.AsyncHTTPTransport(verify=context, limits=limits, trust_env=False)
        async with (
            httpx2.AsyncClient(transport=transport, trust_env=False, timeout=httpx2.Timeout(60.0)) as http,
            seat.target.launch(_options(seat)) as gateway,
        ):
            tenant = await gateway.open_tenant(TENANT)
            await gateway.connect(tenant, request_for(seat, mount.url(PATH)))
            grant = await gateway.start_run(tenant, [seat.connection], task=TENANT, agent="transparency", subject="user-lab")
            version = gateway.label.rpartition(" ")[2]
            yield Glass(seat, lab, tap, mount, gateway, http, grant, version)
            await gateway.close_tenant(tenant)


def _options(seat: Seat) -> LaunchOptions:
    return LaunchOptions(work_dir=seat.work_dir, tell=seat.tell, test_clock=seat.still and "test_clock" in seat.target.abilities)


def request_for(seat: Seat, url: str, name: str = "") -> ConnectionRequest:
    return ConnectionRequest(
        name=name or seat.connection,
        provider="generic",
        transport="mcp_http",
        url=url,
        protocol=seat.protocol,
        auth={"scheme": "bearer", "path": "token"},
        credentials={"token": SECRET},
        spec=ConnectionSpec(grant="personal"),
        subject="user-lab",
    )


async def observe(glass: Glass, *, direct: bool) -> Observations:
    """Everything that the probes tell of one leg. Raises what opening its session raises."""
    found: dict[str, Any] = {}
    mark = len(glass.lab.seen)
    async with glass.direct() if direct else glass.through() as made:
        leg = glass.leg(made, direct=direct)
        for probe in PROBES:
            found |= await probe(leg)
            if not direct:
                must_live(glass)
    if not direct:
        _must_be_its_own(glass, found, mark)
    return {**found, **await _protocols(glass, direct=direct)}


def _must_be_its_own(glass: Glass, found: Observations, mark: int) -> None:
    """Raises when no call reached the provider, or one got the answer of another."""
    if not glass.lab.calls(mark):
        shown = found["content.text"]
        if not isinstance(shown, list):
            raise Unreachable(f"{glass.gateway.label} lets no call through: {shown}", where=glass.seat.target.id, fix="see its log")
        what = f"{glass.gateway.label} gave answers to calls that never reached the provider: they are somebody else's"
        raise WitnessBlind(what, where=glass.seat.target.id, fix="check that its upstream is the tap")
    if "another's" in found["answers.owners"]:
        what = f"{glass.gateway.label} gave a call the answer of another call"
        raise WitnessBlind(what, where=glass.seat.target.id, fix="nothing that it answers can be believed; tell its maker")


def must_live(glass: Glass) -> None:
    """Raises Unreachable, naming it, when a gateway that we started has ended by itself."""
    if isinstance(glass.gateway, LightGateway) and (TENANT, glass.seat.connection) in glass.gateway.served:
        glass.gateway.need(TENANT, glass.seat.connection)


async def _protocols(glass: Glass, *, direct: bool) -> dict[str, Any]:
    """Whether an agent of each version gets a session and a list."""
    found: dict[str, Any] = {}
    for version in PROTOCOLS:
        try:
            async with glass.direct(version) if direct else glass.through(version) as made:
                pages = await made.list_tools()
                found[f"protocol.{version}"] = "spoken" if not pages.trouble else f"opened, but no list: {pages.trouble}"
        except HarnessError as error:
            found[f"protocol.{version}"] = error.what.partition(f"{version}: ")[2] or error.what
    return found


async def costs(glass: Glass) -> tuple[Measure, ...]:
    """Calls in turn on both legs: the median of each, and the CPU time of the gateway's processes for each of its calls."""
    clock = glass.seat.clock
    seconds: Mapping[bool, list[float]] = {True: [], False: []}
    async with glass.direct() as plain, glass.through() as other:
        legs = ((glass.leg(plain, direct=True), True), (glass.leg(other, direct=False), False))
        before = await cpu_of(glass.gateway)
        for _ in range(ROUNDS):
            for leg, direct in legs:
                began = clock.monotonic()
                await leg.call("tagged", {})
                seconds[direct].append(clock.monotonic() - began)
        after = await cpu_of(glass.gateway)
    spent = round((after - before) * 1000 / ROUNDS, 1) if before is not None and after is not None else None
    direct_ms, through_ms = (round(median(seconds[leg]) * 1000, 1) for leg in (True, False))
    return (
        Measure(id="latency.p50", direct=direct_ms, through=through_ms, unit="ms"),
        Measure(id="latency.added", direct=0.0, through=round(through_ms - direct_ms, 1), unit="ms"),
        Measure(id="cpu.per_call", direct=None, through=spent, unit="CPU-ms"),
    )
