"""One side of a comparison: the same view of a tool, whatever it was read from."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.inventory.canonical import NotCanonical, component_hashes, prose, schema_hash, shape_hash, text_hash
from harness.inventory.jsontext import MAX_DEPTH, depth_over
from harness.inventory.shape import has_sealed_default, prose_parts, sealed, shape
from harness.model.inventory import Components, Inventory, ToolRecord
from harness.model.risk import RISKS, Risk
from harness.model.tool import Capture, Json, Tool


@dataclass(frozen=True, slots=True)
class ToolView:
    """What one side knows of one tool; None means it does not know, which is never a difference.

    `shape` is None when it is unknown or only assumed. `problems` are (pointer, reason) of parts without canonical text.
    `claimed_hash` is the schema hash another party states for this very schema.
    """

    name: str
    parameters: tuple[str, ...] | None = None
    schema_hash: str | None = None
    shape: Mapping[str, Any] | None = None
    shape_hash: str | None = None
    prose: Mapping[str, str] | None = None
    components: Components | None = None
    risk: Risk | None = None
    status: str | None = None
    tool: Tool | None = None
    claimed_hash: str | None = None
    problems: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ServerView:
    """What one side knows of the server; "" or None means it does not. `headers` are names of connection headers the list was taken with.

    A server without instructions has "" for them. An inventory knows their hash only, and `sha256:<hex>` for texts in capabilities.
    """

    name: str = ""
    version: str = ""
    protocol: str = ""
    instructions: str | None = None
    capabilities: Mapping[str, Any] | None = None
    headers: tuple[str, ...] = ()
    instructions_hash: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """`label` names it in reports. An incomplete side says why in `reason`; `nameless` counts entries that were no tools.

    `server` is None where the side knows nothing of it (a gateway's catalog, a bare list).
    """

    label: str
    views: tuple[ToolView, ...]
    complete: bool = True
    reason: str = ""
    nameless: int = 0
    server: ServerView | None = None


def inventory_side(inventory: Inventory) -> Side:
    """What was agreed. Tools that the inventory says were removed are not expected."""
    kept = tuple(_record_view(record) for record in inventory.tools if record.status != "removed")
    taken = inventory.taken
    server = ServerView(
        taken.server_name or "",
        taken.server_version or "",
        taken.protocol_version or "",
        capabilities=taken.capabilities,
        headers=taken.headers,
        instructions_hash=taken.instructions_hash,
    )
    return Side(f"inventory {inventory.provider} of {taken.date}", kept, server=server if taken.endpoint else None)


def capture_side(capture: Capture, *, risks: Mapping[str, Risk] | None = None, assumed: Collection[str] = (), sealed_texts: bool = False) -> Side:
    """A tool list as captured. `risks` are classes someone gave these tools; `assumed` names tools whose schema is a stand-in's guess.

    `sealed_texts`: whoever recorded the list put `sha256:<hex>` in place of its texts.
    """
    views = tools_views(capture.tools, risks=risks, assumed=assumed)
    greeted = bool(capture.server_name or capture.protocol_version)
    said = (capture.instructions or "") if greeted else None
    known = sealed(said) if sealed_texts else None
    server = ServerView(
        capture.server_name,
        capture.server_version,
        capture.protocol_version,
        said if known is None else None,
        capture.capabilities if greeted else None,
        capture.header_names,
        known,
    )
    if sealed_texts:
        views = tuple(_unsealed(view) for view in views)
    return Side(capture.source, views, capture.complete, capture.reason, capture.nameless, server)


def _unsealed(view: ToolView) -> ToolView:
    """The view of a tool whose texts are hashes: those are its texts' hashes, and hashes over them say nothing."""
    prose = {pointer: sealed(value) or text_hash(value) for pointer, value in prose_parts(view.tool.input_schema)} if view.tool else None
    schema = view.shape is not None and not has_sealed_default(view.shape)
    return replace(view, schema_hash=None, shape_hash=view.shape_hash if schema else None, prose=prose, components=None)


def tools_views(tools: Iterable[Tool], *, risks: Mapping[str, Risk] | None = None, assumed: Collection[str] = ()) -> tuple[ToolView, ...]:
    """Views of tools as discovery returned them."""
    return tuple(tool_view(tool, risk=(risks or {}).get(tool.name), assumed=tool.name in assumed) for tool in tools)


def catalog_side(label: str, entries: Iterable[Mapping[str, Json]], *, complete: bool = True, assumed: Collection[str] = ()) -> Side:
    """A gateway's catalog (`operator/v1` entries: name, risk, status, schema_hash, input_schema, …): its claims beside what it returned."""
    views, nameless = [], 0
    for entry in entries:
        if not isinstance(entry.get("name"), str) or not str(entry["name"]).strip():
            nameless += 1
            continue
        wire = {"name": entry["name"]}
        for theirs, ours in _CATALOG_WORDS.items():
            if entry.get(theirs) is not None:
                wire[ours] = entry[theirs]
        risk = entry.get("risk")
        views.append(
            tool_view(
                Tool.from_wire(wire),
                risk=risk if risk in RISKS else None,
                status=entry.get("status"),
                claimed_hash=entry.get("schema_hash"),
                assumed=entry["name"] in assumed,
            )
        )
    return Side(
        label,
        tuple(view for view in views if view.status != "removed"),
        complete,
        "" if complete else "the gateway calls its catalog incomplete",
        nameless,
    )


_CATALOG_WORDS = {
    "input_schema": "inputSchema",
    "output_schema": "outputSchema",
    "annotations": "annotations",
    "title": "title",
    "description": "description",
}


def tool_view(tool: Tool, *, risk: Risk | None = None, status: str | None = None, claimed_hash: str | None = None, assumed: bool = False) -> ToolView:
    """Everything a wire tool says. Parts that have no canonical text become `problems`, never an exception."""
    problems: list[tuple[str, str]] = []
    schema = tool.input_schema if isinstance(tool.input_schema, Mapping) else {}
    if depth_over(tool.wire, MAX_DEPTH):  # hostile input must not choose our stack depth
        return ToolView(tool.name, tool.parameters, risk=risk, status=status, claimed_hash=claimed_hash, problems=(("", "nested too deep"),))
    full = shaped = texts = components = None
    try:
        full, shaped, texts = schema_hash(schema), shape_hash(schema), prose(schema)
    except NotCanonical as error:
        problems.append((f"/inputSchema{error.pointer}", error.reason))
    try:
        components = component_hashes(tool)
    except NotCanonical as error:
        problems.append((error.pointer, error.reason))
    return ToolView(
        name=tool.name,
        parameters=tool.parameters,
        schema_hash=full,
        shape=None if assumed else shape(schema),
        shape_hash=None if assumed else shaped,
        prose=texts,
        components=components,
        risk=risk,
        status=status,
        tool=tool,
        claimed_hash=claimed_hash,
        problems=tuple(problems),
    )


def _record_view(record: ToolRecord) -> ToolView:
    trusted = record.shape_basis != "assumed"
    return ToolView(
        name=record.name,
        parameters=record.parameters,
        schema_hash=record.schema_hash,
        shape=record.shape if trusted else None,
        shape_hash=record.shape_hash if trusted else None,
        prose=record.prose,
        components=record.components,
        risk=record.risk,
        status=record.status,
    )
