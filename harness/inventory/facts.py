"""What a fact about two tool lists is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Aspect = Literal["names", "parameters", "shape", "risk", "status", "hash", "text", "annotations", "output", "server"]
ASPECTS: tuple[Aspect, ...] = ("names", "parameters", "shape", "risk", "status", "hash", "text", "annotations", "output", "server")


@dataclass(frozen=True, slots=True)
class Fact:
    """One difference. `kind` is a SchemaFact kind or one of:

    tool-added, tool-removed, tool-renamed, tool-duplicated, tool-nameless, list-incomplete, parameter-added, parameter-removed (names
    only known), text-added, text-removed, text-changed, text-hidden, text-bidirectional, text-instruction, draft-changed,
    text-unlocated, schema-unlocated, not-canonical, annotation-changed, annotations-changed, output-changed, risk-changed,
    status-changed, claimed-hash-wrong, header-dependent, or one of server_diff.
    `direction` says which way values flow through the schema at hand.
    """

    kind: str
    aspect: Aspect
    tool: str
    pointer: str = ""
    old: Any = None
    new: Any = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    direction: Literal["input", "output"] = "input"
