"""What a provider offers: discovery of every page, and how a catalog changes when it is discovered again."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map

from reference_gateway.canonical import schema_hash
from reference_gateway.classify import Risk, classify
from reference_gateway.confusables import imitations
from reference_gateway.defects import Defects, normalised
from reference_gateway.errors import GatewayError
from reference_gateway.listing import presentable
from reference_gateway.texts import unprintable
from reference_gateway.wire import deeper_than

MAX_PAGES = 100
MAX_TOOLS = 20_000
MAX_NAME = 256
"""Characters of a tool's name. It is part of every record of a call, and of every list that an agent reads."""
MAX_DEPTH = 150
"""Levels of nesting in a listed tool or a result; beyond about 200 the SDK cannot write it, and then not its neighbours either."""

Json = dict[str, Any]
Status = Literal["active", "quarantined", "removed"]
FetchPage = Callable[[Json], Awaitable[Json]]
"""Parameters of one tools/list request to its result."""


class CatalogError(GatewayError):
    http_status = 502


@dataclass(frozen=True, slots=True)
class Discovery:
    """One complete walk over a provider's list: tools as they came over the wire, each name once."""

    tools: tuple[Json, ...]
    pages: int
    dropped: Mapping[str, int]
    server: Json
    protocol_version: str | None
    instructions: str | None


@dataclass(frozen=True, slots=True)
class Tool:
    """A catalog entry. `wire` is exactly what discovery returned."""

    name: str
    wire: Json
    risk: Risk
    risk_reason: str
    schema_hash: str
    shown: Json
    """As agents see it, but for the name."""
    status: Status = "active"
    mirrored: bool = False
    """Whether some of its arguments go out in headers too (x-mcp-header)."""

    def doc(self) -> Json:
        return {name: getattr(self, name) for name in Tool.__dataclass_fields__ if name not in ("shown", "mirrored")}

    @staticmethod
    def load(doc: Json) -> Tool:
        return Tool(**doc, shown=presentable(doc["wire"]), mirrored=_mirrored(doc["wire"].get("inputSchema")))

    @property
    def input_schema(self) -> object:
        return self.wire.get("inputSchema")


@dataclass(frozen=True, slots=True)
class Changes:
    """Names, in the provider's order. `quarantined` of them wait for review."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    quarantined: int = 0


@dataclass(frozen=True, slots=True)
class Catalog:
    """Every tool ever listed and still remembered, by name, in the provider's order."""

    tools: Mapping[str, Tool]
    pages: int
    server: Json
    protocol_version: str | None
    instructions: str | None

    def active(self) -> list[Tool]:
        return [tool for tool in self.tools.values() if tool.status == "active"]

    def listed(self) -> list[Tool]:
        """What the provider offers, whether or not anybody may use it."""
        return [tool for tool in self.tools.values() if tool.status != "removed"]

    def doc(self) -> Json:
        return {
            "tools": [tool.doc() for tool in self.tools.values()],
            "pages": self.pages,
            "server": self.server,
            "protocol_version": self.protocol_version,
            "instructions": self.instructions,
        }

    @staticmethod
    def load(doc: Json) -> Catalog:
        return Catalog(**{**doc, "tools": {entry["name"]: Tool.load(entry) for entry in doc["tools"]}})


async def walk(fetch: FetchPage, defects: Defects) -> tuple[list[Json], int]:
    """All tools of all pages, and how many pages. An empty cursor is a cursor; only null or absent ends the list.

    Raises CatalogError `mcp_catalog_pagination`, `catalog_too_large` or `provider_protocol`, and what `fetch` raises.
    """
    pages: list[list[Json]] = []
    seen: set[str] = set()
    params: Json = {}
    count = 0
    while True:
        page = await fetch(params)
        tools, cursor = page.get("tools"), page.get("nextCursor")
        if not isinstance(tools, list):
            raise CatalogError("provider_protocol", "a page of the tool list holds no list of tools", fix="mend the provider")
        pages.append(tools)
        count += len(tools)
        if count > MAX_TOOLS:
            raise CatalogError("catalog_too_large", f"the provider lists more than {MAX_TOOLS} tools", fix="offer fewer")
        if cursor is None:
            break
        if not isinstance(cursor, str):
            raise CatalogError("provider_protocol", "a cursor of the tool list is not text", fix="mend the provider")
        if cursor in seen and "cursor-loop-accepted" in defects:
            break
        if cursor in seen or len(pages) >= MAX_PAGES:
            what = "repeats a cursor" if cursor in seen else f"has more than {MAX_PAGES} pages"
            raise CatalogError("mcp_catalog_pagination", f"the provider's tool list {what}", fix="mend the provider's pagination")
        seen.add(cursor)
        params = {"cursor": cursor}
    return [tool for page in _kept(pages, defects) for tool in page], len(pages)


def _kept(pages: list[list[Json]], defects: Defects) -> list[list[Json]]:
    if "drop-page" not in defects:
        return pages
    # With a single page there is no later one to forget, so its tail stands in for it.
    return pages[:-1] if len(pages) > 1 else [pages[0][: len(pages[0]) - max(1, len(pages[0]) // 4)]]


def distinct(tools: Iterable[object], defects: Defects) -> tuple[list[Json], dict[str, int]]:
    """Tools that can be called by a name of their own that looks like no other's, and how many were dropped for which reason."""
    kept: dict[str, Json] = {}
    dropped: dict[str, int] = {}
    for tool in tools:
        name = tool.get("name") if isinstance(tool, dict) else None
        if not isinstance(tool, dict) or not isinstance(name, str) or not (name.strip() or "nameless-listed" in defects):
            dropped["nameless"] = dropped.get("nameless", 0) + 1
        elif (len(name) > MAX_NAME or unprintable(name)) and "unprintable-listed" not in defects:
            dropped["unusable_name"] = dropped.get("unusable_name", 0) + 1
        elif deeper_than(tool, MAX_DEPTH):
            dropped["too_deep"] = dropped.get("too_deep", 0) + 1
        elif find_invalid_x_mcp_header(tool.get("inputSchema")) is not None:
            dropped["unusable_headers"] = dropped.get("unusable_headers", 0) + 1  # which header a call would need cannot be told
        elif name in kept and "duplicate-last-wins" not in defects:
            dropped["duplicate"] = dropped.get("duplicate", 0) + 1
        else:
            kept[name] = tool
    imitating = set() if "imitations-listed" in defects else imitations(kept)
    if imitating:
        dropped["imitation"] = len(imitating)
    return [tool for name, tool in kept.items() if name not in imitating], dropped


def entry(provider: str, wire: Json, defects: Defects) -> Tool:
    """The catalog entry of one wire tool."""
    if "normalise-schema" in defects:
        wire = {**wire, "inputSchema": normalised(wire.get("inputSchema"))}
    classified = classify(provider, wire)
    risk: Risk = "read" if classified.risk == "destructive" and "weaken-risk" in defects else classified.risk
    schema = wire.get("inputSchema")
    return Tool(wire["name"], wire, risk, classified.reason, schema_hash(schema), presentable(wire), mirrored=_mirrored(schema))


def _mirrored(schema: object) -> bool:
    return isinstance(schema, dict) and bool(x_mcp_header_map(schema))


def form(value: object) -> str:
    """JSON text by which two forms of a tool are compared. Python's own comparison takes 1, 1.0 and true for the same."""
    return json.dumps(value, sort_keys=True)


def build(provider: str, found: Discovery, defects: Defects) -> Catalog:
    """The first catalog of a connection: everything active."""
    tools = {wire["name"]: entry(provider, wire, defects) for wire in found.tools}
    return Catalog(tools, found.pages, found.server, found.protocol_version, found.instructions)


def merge(provider: str, old: Catalog, found: Discovery, *, quarantine: bool, defects: Defects) -> tuple[Catalog, Changes]:
    """The catalog after a refresh. With `quarantine`, what is new or changed stays out of use; what is in it already stays in."""
    if "stale-catalog" in defects:
        return old, Changes()
    new = build(provider, found, defects)
    tools: dict[str, Tool] = {}
    added: list[str] = []
    changed: list[str] = []
    for name, tool in new.tools.items():
        before = old.tools.get(name)
        fresh = before is None or before.status == "removed"
        differs = before is not None and form(before.wire) != form(tool.wire)
        if fresh:
            added.append(name)
        elif differs:
            changed.append(name)
        doubtful = fresh or (differs and not ("quarantine-schema-only" in defects and before is not None and before.schema_hash == tool.schema_hash))
        kept = before is not None and before.status == "quarantined" and "kept-blocked-forgotten" not in defects
        held = (quarantine and doubtful) or kept
        tools[name] = replace(tool, status="quarantined" if held else "active")
    removed = [name for name, tool in old.tools.items() if name not in new.tools and tool.status != "removed"]
    for name, tool in old.tools.items():
        if name not in tools:
            tools[name] = tool if "removed-callable" in defects else replace(tool, status="removed")
    quarantined = sum(1 for name in (*added, *changed) if tools[name].status == "quarantined")
    return replace(new, tools=tools), Changes(tuple(added), tuple(changed), tuple(removed), quarantined)
