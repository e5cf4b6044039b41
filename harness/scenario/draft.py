"""A scenario that has been read but not yet checked as a whole: its parts, and the nodes that say where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.model.location import Location
from harness.model.scenario import Claim, ConnectionSpec, Expectation
from harness.scenario.parse import ReadStep
from harness.yaml_nodes import MapNode, Node, ScalarNode, SeqNode


@dataclass(frozen=True, slots=True)
class Draft:
    root: MapNode
    connections: Mapping[str, ConnectionSpec]
    let: Mapping[str, Any]
    steps: tuple[ReadStep, ...]
    cleanup: tuple[ReadStep, ...]
    expect: tuple[Expectation, ...]
    claims: tuple[tuple[Claim, tuple[Location, ...]], ...]

    def part(self, key: str) -> Node | None:
        return self.root.entries.get(key)

    def expectations(self) -> Iterator[tuple[str, Expectation]]:
        """(id of the step it stands at or "", expectation)."""
        for read in self.steps:
            for expectation in read.step.expect:
                yield read.step.id, expectation
        for expectation in self.expect:
            yield "", expectation


def scalars(node: Node | None) -> Iterator[ScalarNode]:
    """Every text value below (and at) `node`."""
    if isinstance(node, MapNode):
        for value in node.entries.values():
            yield from scalars(value)
    elif isinstance(node, SeqNode):
        for item in node.items:
            yield from scalars(item)
    elif node is not None and isinstance(node.value, str):
        yield node


def keys(node: Node | None) -> Iterator[tuple[str, Location]]:
    """Every mapping key below `node`, with its place."""
    if isinstance(node, MapNode):
        yield from node.keys.items()
        for value in node.entries.values():
            yield from keys(value)
    elif isinstance(node, SeqNode):
        for item in node.items:
            yield from keys(item)
