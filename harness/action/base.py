"""The seam of a step verb: one file beside this one, self-declaring. A verb acts and records; it never judges."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from pydantic import BaseModel

from harness.clock import Clock
from harness.errors import UsageError
from harness.fake.authorization import AuthorizationServer
from harness.model.evidence import ClientExchange, ControlRecord, EvidenceRecord, Phase
from harness.model.exchange import Sequencer
from harness.model.scenario import ConnectionSpec, Step
from harness.registry import suggest
from harness.tap.mount import Mount
from harness.target.base import ConnectionRequest, RunGrant, RunningTarget
from harness.target.session import AgentSession

P = TypeVar("P", bound=BaseModel)
P_contra = TypeVar("P_contra", bound=BaseModel, contravariant=True)


async def admit_all(connection: str, tool: str, arguments: Mapping[str, Any], phase: Phase) -> None:
    """Nothing keeps a call from being made; live runs have rules."""


class TimeMover(Protocol):
    """Moves every clock of this item's bench: gateway, stand-ins and tap."""

    async def advance(self, seconds: float) -> None: ...
    async def until_sleeping(self) -> None: ...


@dataclass
class Leg:
    """One connection as it stands in this run: its mount at the tap, and how its provider's own time is moved (fakes only)."""

    name: str
    provider: str
    spec: ConnectionSpec
    mount: Mount
    settle: Callable[[float], Any] | None = None
    request: ConnectionRequest | None = None
    """What the gateway was told of it, credentials included: for verbs that tell it again, or otherwise."""
    consents: AuthorizationServer | None = None
    """The stand-in of the authorization server that guards this provider (fakes with `oauth` only)."""
    reissue: Callable[[], str] | None = None
    """The provider gives out another credential and takes the old one no more; the new one (fakes only)."""


@dataclass
class Stage:
    """One plan item while it runs: what a verb may reach."""

    item: str
    target: RunningTarget
    tenant: str
    grant: RunGrant
    agent: AgentSession
    legs: Mapping[str, Leg]
    clock: Clock
    sequencer: Sequencer
    emit: Callable[[EvidenceRecord], None]
    new_trace: Callable[[], str]
    time: TimeMover
    protocol: str
    admit: Callable[[str, str, Mapping[str, Any], Phase], Awaitable[None]] = admit_all
    """Asked before a tool is called or an approval carried out: connection, tool, arguments. Raises what keeps it from being done."""
    secrets: Callable[[], Mapping[str, str]] = dict
    """Name → credential of this bench, for a verb that searches for them."""
    step_timeout_s: float = 30.0
    calls: dict[str, ClientExchange] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    """Tags of what an operator has a copy of, by operation."""
    changed_permissions: set[str] = field(default_factory=set)

    def leg(self, name: str) -> Leg:
        if name not in self.legs:
            raise UsageError(f"unknown connection {name!r}", fix=suggest(name, list(self.legs)))
        return self.legs[name]

    def resolve(self, reference: str) -> tuple[str, str]:
        """`connection.tool`, or the bare tool when there is one connection."""
        connection, dot, tool = reference.partition(".")
        if dot and connection in self.legs:
            return connection, tool
        if len(self.legs) == 1:
            return next(iter(self.legs)), reference
        raise UsageError(f"{reference!r} does not say which connection", fix=f"write CONNECTION.TOOL with one of: {', '.join(self.legs)}")

    def control(self, action: str, data: Any, *, phase: Phase, step: str = "", connection: str = "") -> None:
        self.emit(ControlRecord(item=self.item, phase=phase, step=step, action=action, connection=connection, seq=self.sequencer.next(), data=data))


@dataclass
class Done:
    """What a verb did: the answer that captures read, and what the agent stated (only `say`)."""

    answer: Any = None
    said: str = ""


class Action(Protocol[P_contra]):
    """`id` is the YAML word. `mutates`: moves time or breaks things for others, so the scenario gets its own bench.

    `destructive_target`: the value names a tool that the verb will run. `needs`: abilities of the target without which it cannot be done.
    """

    id: str
    summary: str
    params: type[BaseModel]
    mutates: bool
    needs: frozenset[str]
    example: str

    async def run(self, stage: Stage, step: Step, params: P_contra, phase: Phase, attempt: int) -> Done: ...


class Verb(Generic[P]):
    id: ClassVar[str]
    summary: ClassVar[str]
    mutates: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset()
    example: ClassVar[str] = ""
