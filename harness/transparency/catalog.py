"""Catalog honesty: the tap changes one component at a time; the gateway's own list, a live session, a fresh session and a refresh are read apart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError, Untestable
from harness.tap.mutate import Mutation, apply
from harness.transparency.client import Agent, Pages
from harness.transparency.compare import ABSENT, short_hash
from harness.transparency.facts import Staleness
from harness.transparency.lab import PAGE
from harness.transparency.measure import TENANT, Glass

TOOL = "search_memories"
CHANGES: tuple[Mutation, ...] = (
    Mutation(kind="hint-flipped", tool=TOOL),
    Mutation(kind="description-changed", tool=TOOL),
    Mutation(kind="parameter-added", tool=TOOL),
    Mutation(kind="output-schema-changed", tool="read_note"),
    Mutation(kind="tool-added", name="brand_new"),
    Mutation(kind="tool-removed", tool="delete_everything"),
    Mutation(kind="cursor-dropped"),
)
"""One component alone each, and last a provider whose list breaks off after its first page."""
WATCHED = ("description", "inputSchema", "outputSchema", "annotations")
WATCH_S = 2.0
AGAIN_S = 0.5
"""A gateway that went on with its old list all through the first change is watched for less at the next: it does not look by itself."""
PAUSE_S = 0.5

Shown = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Sight:
    """The provider's list before and after, as hashes by tool and component, and what this view showed before the change."""

    old: Shown
    new: Shown
    before: Shown

    def word(self, seen: Shown, trouble: str = "") -> str:
        """Only what the change touches is looked at. A list with fewer tools than the provider has is never `new`."""
        tools = {key for key in self.old if "/" not in key}
        lost = tools - {key for key in seen if "/" not in key}
        touched = [key for key in {*self.old, *self.new} if self.old.get(key) != self.new.get(key)]
        if trouble:
            return f"incomplete: {trouble}"
        if len(lost) > 1:  # no change here takes more than one tool away
            return f"incomplete: {len(lost)} of {len(tools)} tools are missing"
        if all(seen.get(key) == self.before.get(key) for key in touched):
            return "old"
        if all(seen.get(key) == self.new.get(key) for key in touched):
            return "new"
        return "withheld" if not any(key in seen for key in touched) else "another"


async def catalog_honesty(glass: Glass) -> tuple[Staleness, ...]:
    """Each change alone, taken back before the next."""
    found: list[Staleness] = []
    for change in CHANGES:
        patient = WATCH_S if not found or found[-1].session != "old" else AGAIN_S
        found.append(await _one(glass, change, patient))
        glass.mount.mutations.clear()
        await _refreshed(glass)
    return tuple(found)


async def _one(glass: Glass, change: Mutation, watch_s: float) -> Staleness:
    async with glass.through() as live, live.listening():
        shown_before = hashes(glass, await live.list_tools())
        listed_before = await _registry(glass)
        asked_before = glass.mount.discoveries
        glass.mount.mutations.append(change)
        old, new = _own(glass.lab.tools), _own(_changed(glass, change))
        sight = _Sight(old, new, shown_before)
        registry = await _registry(glass)
        session = await _watched(glass, live, sight, watch_s)
        async with glass.through() as other:
            fresh = await _shown(glass, other, sight)
        refreshed = await _refreshed(glass)
        return Staleness(
            change=change.kind,
            registry="none" if registry is None or listed_before is None else _Sight(old, new, listed_before).word(registry),
            session=session,
            fresh_session=fresh,
            refresh=await _shown(glass, live, sight) if refreshed == "done" else refreshed or "none",
            told=any(note.get("method") == "notifications/tools/list_changed" for note in live.heard),
            asked=glass.mount.discoveries - asked_before,
        )


def _changed(glass: Glass, change: Mutation) -> list[dict[str, Any]]:
    """The provider's whole list as it stands behind this tap."""
    if change.kind == "cursor-dropped":
        return list(glass.lab.tools[:PAGE])
    return list(apply({"tools": glass.lab.tools}, [change])["tools"])


async def _watched(glass: Glass, live: Agent, sight: _Sight, watch_s: float) -> str:
    """The live session, again and again for a while: at once `new`, after how long, or `old` all the time."""
    waited = 0.0
    while True:
        word = await _shown(glass, live, sight)
        if word != "old" or waited >= watch_s:
            return word if waited == 0.0 or word == "old" else f"{word} after {waited:g} s"
        await asyncio.sleep(PAUSE_S)
        waited += PAUSE_S


async def _shown(glass: Glass, agent: Agent, sight: _Sight) -> str:
    pages = await agent.list_tools()
    return sight.word(hashes(glass, pages), pages.trouble)


async def _registry(glass: Glass) -> Shown | None:
    """The gateway's own list, in the operator API's words or as tools; None where there is none."""
    try:
        answer = await glass.gateway.catalog(TENANT, glass.seat.connection)
    except Untestable:
        return None
    entries = [entry for entry in answer.get("tools") or () if isinstance(entry, Mapping) and entry.get("status") in (None, "active")]
    return _own([_as_tool(entry) for entry in entries])


def _as_tool(entry: Mapping[str, Any]) -> dict[str, Any]:
    spelt = {"inputSchema": "input_schema", "outputSchema": "output_schema", "annotations": "annotations", "description": "description"}
    found = {ours: entry[theirs] for ours, theirs in spelt.items() if entry.get(theirs) not in (None, {})}
    return {"name": entry["name"], **found}


async def _refreshed(glass: Glass) -> str:
    """`done`, "" where the gateway cannot be told to, or why it would not."""
    try:
        await glass.gateway.refresh(TENANT, glass.seat.connection)
    except Untestable:
        return ""
    except HarnessError as error:
        return f"refused: {error.what[:160]}"
    return "done"


def hashes(glass: Glass, pages: Pages) -> Shown:
    return _own([{**tool, "name": glass.own(str(tool.get("name")))} for tool in pages.tools])


def _own(tools: Any) -> Shown:
    found: dict[str, str] = {}
    for tool in tools:
        found[str(tool["name"])] = "listed"
        for component in WATCHED:
            found[f"{tool['name']}/{component}"] = ABSENT if tool.get(component) in (None, {}) else short_hash(tool[component])
    return found
