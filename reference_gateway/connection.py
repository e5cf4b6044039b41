"""One connection at run time: its settings, its catalog, its words of permission, and the provider behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from reference_gateway.catalog import Catalog, Tool
from reference_gateway.grant import Grant
from reference_gateway.grant import parse as parse_grant
from reference_gateway.permission import DEFAULT, Word
from reference_gateway.provider import Answer, Provider
from reference_gateway.review import Review

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MAX_IN_FLIGHT = 64
MAX_WAITING = 256


class Busy(Exception):
    """As many calls as the connection bears are already waiting."""


class Slots:
    """Bounds what one provider, dead or slow, can take from the others: calls under way, and calls that wait for their turn."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_IN_FLIGHT)
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

    def doc(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in Settings.__dataclass_fields__}
        agents = list(self.agents) if self.agents is not None else None
        paths = list(self.credential_paths)
        return {**plain, "grant": self.grant.document(), "credential_paths": paths, "auth": dict(self.auth), "agents": agents}

    @staticmethod
    def load(doc: Mapping[str, Any]) -> Settings:
        known = {name: doc[name] for name in Settings.__dataclass_fields__ if name in doc}
        agents = tuple(doc["agents"]) if doc.get("agents") is not None else None
        return Settings(**{**known, "grant": parse_grant(doc["grant"]), "credential_paths": tuple(doc["credential_paths"]), "agents": agents})


@dataclass(slots=True)
class Connection:
    tenant: str
    settings: Settings
    client: Provider
    catalog: Catalog
    words: dict[str, Word]
    revoked: bool = False
    reviews: tuple[Review, ...] = ()
    health: Literal["ok", "error"] = "ok"
    slots: Slots = field(default_factory=Slots)
    refreshing: asyncio.Lock = field(default_factory=asyncio.Lock)
    last_answers: list[tuple[str, Answer]] = field(default_factory=list)
    """Only for the defect that confuses answers: the latest two of different calls."""

    @property
    def name(self) -> str:
        return self.settings.name

    def exposed(self, tool: str) -> str:
        return f"{self.name}__{tool}"

    def doc(self) -> dict[str, Any]:
        own = {"permissions": dict(self.words), "revoked": self.revoked, "reviews": [each.doc() for each in self.reviews]}
        return {**self.settings.doc(), **own, "catalog": self.catalog.doc()}

    def public(self, *, mapped: bool) -> dict[str, Any]:
        """As the operator API shows it; no secret is within reach of this object."""
        own = self.settings
        return {
            "name": own.name,
            "provider": own.provider,
            "transport": own.transport,
            "url": own.url,
            "status": "active",
            "health": self.health,
            "grant": own.grant.document(),
            "protocol_version": own.protocol_version,
            "agents": list(own.agents) if own.agents is not None else None,
            "quarantine": own.quarantine,
            "transport_details": {"spawned_local_process": False, "mapped": mapped},
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
