"""The schemas that findings point into, old and new, for readers to see beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from harness.inventory.canonical import NotCanonical, canonical_bytes
from harness.inventory.side import Side, ToolView
from harness.model.drift_result import Judged, SchemaPair

MOST = 200
"""Tools whose schemas a result carries; beyond that a page would help nobody."""
LARGEST = 32_768
"""Bytes of one schema that a result carries."""
ROOTS: tuple[Literal["/inputSchema", "/outputSchema"], ...] = ("/inputSchema", "/outputSchema")


def schema_pairs(old: Side, new: Side, judged: Sequence[Judged]) -> tuple[SchemaPair, ...]:
    """One pair per tool and direction that a finding points into, in the findings' order. A side that does not know its schema shows none."""
    before, after = {view.name: view for view in old.views}, {view.name: view for view in new.views}
    found: dict[tuple[str, str], SchemaPair] = {}
    for item in judged:
        tool, pointer = item.finding.tool, item.finding.pointer
        for root in ROOTS:
            if (pointer == root or pointer.startswith(f"{root}/")) and (tool, root) not in found and len(found) < MOST:
                one, other = before.get(tool), after.get(tool)
                whole = bool(one and one.tool and other and other.tool)
                pair = SchemaPair(tool=tool, root=root, old=_schema(one, root, whole), new=_schema(other, root, whole))
                found[(tool, root)] = pair
    return tuple(pair for pair in found.values() if pair.old is not None or pair.new is not None)


def _schema(view: ToolView | None, root: str, whole: bool) -> Any:
    """As listed when both sides know that, else without prose: the agreed side has none, and would differ everywhere."""
    if view is None:
        return None
    if root == "/outputSchema":
        schema: Any = view.tool.output_schema if view.tool else None
    else:
        schema = view.tool.input_schema if whole and view.tool else view.shape
    try:
        return schema if schema is None or len(canonical_bytes(schema)) <= LARGEST else None
    except NotCanonical:
        return None
