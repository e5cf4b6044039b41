"""One connection at run time: its settings, its catalog, its words of permission, and the provider behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from reference_gateway.catalog import Catalog, Tool
from reference_gateway.connectors import default_instructions
from reference_gateway.grant import Grant
from reference_gateway.grant import stored as stored_grant
from reference_gateway.permission import DEFAULT, Word
from reference_gateway.provider import Answer, Provider
from reference_gateway.review import Review

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Status = Literal["draft", "active", "paused", "disabled", "archived"]

MAX_IN_FLIGHT = 64
MAX_WAITING = 256


KEPT = ("id", "status", "was_active", "setup", "instructions", "instructions_on", "generation")
"""What of a connection's own state is stored beside its settings, permissions and catalog."""


class Busy(Exception):
    """As many calls as the connection bears are already waiting."""


class Slots:
    """Bounds what one provider, dead or slow, can take from the others: calls under way, and calls that wait for their turn."""

    def __init__(self, limit: int = MAX_IN_FLIGHT) -> None:
        self._free = asyncio.Semaphore(limit)
        self._waiting = 0

    @property
    def taken(self) -> bool:
        """Whether a call that comes now has to wait."""
        return self._free.locked()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        if self._free.locked():
            if self._waiting >= MAX_WAITING:
                raise Busy
            self._waiting += 1
            try:
                await self._free.acquire()
            finally:
                self._waiting -= 1
        else:
            await self._free.acquire()
        try:
            yield
        finally:
            self._free.release()


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator declared, less the secrets."""

    name: str
    provider: str
    transport: str
    url: str | None
    protocol_version: str
    grant: Grant
    auth: Mapping[str, str | None]
    credential_paths: tuple[str, ...]
    quarantine: bool
    tool_timeout_s: float | None
    host: str
    """Of the provider, for health and readings."""
    agents: tuple[str, ...] | None = None
    """Who may use it; None: every agent, empty: none."""
    template: str | None = None
    """Of a local server."""
    managed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that an operator fixed."""
    managed_version: int = 0
    offers: tuple[str, ...] = ()
    """What crosses besides tools."""

    def doc(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in Settings.__dataclass_fields__}
        agents = list(self.agents) if self.agents is not None else None
        paths = list(self.credential_paths)
        plain |= {"grant": self.grant.document(), "credential_paths": paths, "auth": dict(self.auth)}
        return {**plain, "agents": agents, "managed": dict(self.managed)}

    @staticmethod
    def load(doc: Mapping[str, Any]) -> Settings:
        known = {name: doc[name] for name in Settings.__dataclass_fields__ if name in doc}
        agents = tuple(doc["agents"]) if doc.get("agents") is not None else None
        paths, offers = tuple(doc["credential_paths"]), tuple(doc.get("offers", ()))
        return Settings(**{**known, "grant": stored_grant(doc["grant"]), "credential_paths": paths, "agents": agents, "offers": offers})


@dataclass(slots=True)
class Connection:
    tenant: str
    settings: Settings
    client: Provider
    catalog: Catalog
    words: dict[str, Word]
    id: str = ""
    """Its own for ever: another connection that gets its name later is another one. "" of one that was stored before there were ids."""
    revoked: bool = False
    reviews: tuple[Review, ...] = ()
    status: Status = "active"
    was_active: bool = True
    """Whether a provider ever let it in; a draft never was."""
    setup: Mapping[str, Any] = field(default_factory=dict)
    """How its setup stands, if it began as a draft; no secret."""
    instructions: str | None = None
    """As an operator edited them; None: the connector's own."""
    instructions_on: bool = True
    generation: int = 0
    """Goes up with every new credential."""
    revision: int = 0
    """Under which the store has it; 0 where it has not."""
    health: Literal["ok", "error"] = "ok"
    health_reason: str | None = None
    slots: Slots = field(default_factory=Slots)
    refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)
    in_flight: set[str] = field(default_factory=set)
    """Invocations whose request may have left and whose end is not recorded yet."""
    last_answers: list[tuple[str, Answer]] = field(default_factory=list)
    """Only for the defect that confuses answers: the latest two of different calls."""

    @property
    def name(self) -> str:
        return self.settings.name

    def exposed(self, tool: str) -> str:
        return f"{self.name}__{tool}"

    @property
    def text(self) -> str:
        """What agents are told about it: as edited, else the connector's own; "" where nothing is."""
        return self.instructions if self.instructions is not None else default_instructions(self.settings.provider)

    def doc(self) -> dict[str, Any]:
        own = {"permissions": dict(self.words), "revoked": self.revoked, "reviews": [each.doc() for each in self.reviews]}
        more = {name: getattr(self, name) for name in KEPT}
        return {**self.settings.doc(), **own, **more, "catalog": self.catalog.doc()}

    @staticmethod
    def load(doc: Mapping[str, Any], settings: Settings, client: Provider) -> Connection:
        reviews = tuple(Review.load(each) for each in doc.get("reviews", ()))
        kept = {name: doc[name] for name in (*KEPT, "revision") if name in doc}
        catalog, words = Catalog.load(doc["catalog"]), doc["permissions"]
        return Connection(doc["tenant"], settings, client, catalog, words, revoked=doc["revoked"], reviews=reviews, **kept)

    def public(self, *, mapped: bool) -> dict[str, Any]:
        """As the operator API shows it; no secret is within reach of this object."""
        own = self.settings
        return {
            "name": own.name,
            "provider": own.provider,
            "transport": own.transport,
            "url": own.url,
            "status": self.status,
            "health": self.health,
            "health_reason": self.health_reason,
            "grant": own.grant.document(),
            "protocol_version": own.protocol_version,
            "agents": list(own.agents) if own.agents is not None else None,
            "quarantine": own.quarantine,
            "offers": list(own.offers),
            "managed": dict(own.managed),
            "transport_details": {"spawned_local_process": own.transport == "stdio", "mapped": mapped, **self.client.details()},
            "tools": len(self.catalog.active()),
        }

    def public_tool(self, tool: Tool) -> dict[str, Any]:
        wire = tool.wire
        return {
            "name": tool.name,
            "exposed_as": self.exposed(tool.name),
            "risk": tool.risk,
            "risk_reason": tool.risk_reason,
            "status": tool.status,
            "review": self.review_of(tool),
            "permission": self.words.get(tool.name, DEFAULT),
            "schema_hash": tool.schema_hash,
            "input_schema": wire.get("inputSchema"),
            "output_schema": wire.get("outputSchema"),
            "annotations": wire.get("annotations"),
            "title": wire.get("title"),
            "description": wire.get("description"),
        }

    def review_of(self, tool: Tool) -> str | None:
        """`pending_review` or `kept_blocked` for a tool that is quarantined, else None."""
        if tool.status != "quarantined":
            return None
        return next((each.state for each in reversed(self.reviews) if each.tool == tool.name), None)

    def permissions(self) -> dict[str, Word]:
        return {name: self.words.get(name, DEFAULT) for name in self.catalog.tools}
