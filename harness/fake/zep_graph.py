"""The memory behind the Zep stand-in: episodes at once, and a graph that is derived from them later.

The derivation is simple and says so: an episode's telling words are its entities, and each sentence is a fact between
neighbouring ones. What matters is the order of things: an episode can be searched as soon as it is stored, nodes and
edges exist only once it has been processed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Literal

from harness.fake.kit import JsonObject
from harness.fake.kit_store import Ids, stamp, telling_words

EDGE_NAME = "RELATES_TO"
_ENTITIES_PER_SENTENCE = 6
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")

Direction = Literal["in", "out", "both"]


@dataclass(slots=True)
class Episode:
    uuid: str
    content: str
    source: str
    source_description: str | None
    created_at: datetime
    ready_at: datetime
    processed: bool = False
    mentions: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What a search looks at."""
        return self.content

    def shown(self) -> JsonObject:
        return {
            "uuid": self.uuid,
            "content": self.content,
            "source": self.source,
            "source_description": self.source_description,
            "created_at": stamp(self.created_at),
            "processed": self.processed,
        }


@dataclass(slots=True)
class Node:
    uuid: str
    name: str
    created_at: datetime
    facts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """What a search looks at."""
        return " ".join([self.name, *self.facts])

    def shown(self) -> JsonObject:
        return {
            "uuid": self.uuid,
            "name": self.name,
            "labels": ["Entity"],
            "summary": " ".join(self.facts),
            "created_at": stamp(self.created_at),
        }


@dataclass(slots=True)
class Edge:
    uuid: str
    fact: str
    source: str
    target: str
    created_at: datetime
    episodes: list[str]

    @property
    def text(self) -> str:
        """What a search looks at."""
        return self.fact

    def shown(self) -> JsonObject:
        return {
            "uuid": self.uuid,
            "name": EDGE_NAME,
            "fact": self.fact,
            "source_node_uuid": self.source,
            "target_node_uuid": self.target,
            "episodes": list(self.episodes),
            "created_at": stamp(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class Filter:
    """Which nodes and edges a traversal may use; None means any."""

    labels: frozenset[str] | None = None
    edges: frozenset[str] | None = None

    def takes_nodes(self) -> bool:
        return self.labels is None or "Entity" in self.labels

    def takes_edges(self) -> bool:
        return self.edges is None or EDGE_NAME in self.edges


class Graph:
    """One user's graph, or one shared graph."""

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        self.episodes: list[Episode] = []
        self.nodes: dict[str, Node] = {}
        self.edges: dict[str, Edge] = {}
        self._by_name: dict[str, Node] = {}
        self._by_fact: dict[tuple[str, str, str], Edge] = {}

    def add(self, content: str, source: str, source_description: str | None, now: datetime, ready_at: datetime) -> Episode:
        episode = Episode(self._ids.uuid("episode"), content, source, source_description, now, ready_at)
        self.episodes.append(episode)
        return episode

    def settle(self, now: datetime) -> None:
        """Process the episodes that fell due, oldest first."""
        for episode in sorted((e for e in self.episodes if not e.processed and e.ready_at <= now), key=lambda e: e.ready_at):
            episode.processed = True
            for sentence in _SENTENCE.findall(episode.content):
                self._derive(sentence.strip(), episode)

    def _derive(self, sentence: str, episode: Episode) -> None:
        nodes = [self._node(name, episode) for name in telling_words(sentence)[:_ENTITIES_PER_SENTENCE]]
        for node in nodes:
            if sentence not in node.facts:
                node.facts.append(sentence)
            if node.uuid not in episode.mentions:
                episode.mentions.append(node.uuid)
        for source, target in pairwise(nodes):
            self._edge(source, target, sentence, episode)

    def _node(self, name: str, episode: Episode) -> Node:
        node = self._by_name.get(name)
        if node is None:
            node = self._by_name[name] = Node(self._ids.uuid("node"), name, episode.ready_at)
            self.nodes[node.uuid] = node
        return node

    def _edge(self, source: Node, target: Node, fact: str, episode: Episode) -> None:
        key = (source.uuid, target.uuid, fact)
        known = self._by_fact.get(key)
        if known is None:
            known = self._by_fact[key] = Edge(self._ids.uuid("edge"), fact, source.uuid, target.uuid, episode.ready_at, [])
            self.edges[known.uuid] = known
        if episode.uuid not in known.episodes:
            known.episodes.append(episode.uuid)

    def steps(self, node_uuid: str, direction: Direction, chosen: Filter) -> list[tuple[Edge, str]]:
        """(edge, the node at its other end) around a node, in order of creation."""
        if not (chosen.takes_nodes() and chosen.takes_edges()):
            return []
        found = []
        for edge in self.edges.values():
            if edge.source == node_uuid and direction != "in":
                found.append((edge, edge.target))
            elif edge.target == node_uuid and direction != "out":
                found.append((edge, edge.source))
        return found

    def around(
        self, seeds: Iterable[str], depth: int, direction: Direction, chosen: Filter, most: tuple[int, int]
    ) -> tuple[list[Node], list[Edge], bool]:
        """Breadth first from the seeds: nodes, the edges walked, and whether `most` (nodes, edges) cut something off."""
        most_nodes, most_edges = most
        order = list(dict.fromkeys(seeds))
        cut = len(order) > most_nodes
        order = order[:most_nodes]
        reached, edges, frontier = set(order), dict[str, Edge](), list(order)
        for _ in range(depth):
            following: list[str] = []
            for uuid in frontier:
                for edge, other in self.steps(uuid, direction, chosen):
                    if other not in reached:
                        if len(reached) >= most_nodes:
                            cut = True
                            continue
                        reached.add(other)
                        order.append(other)
                        following.append(other)
                    if edge.uuid not in edges and len(edges) >= most_edges:
                        cut = True
                        continue
                    edges[edge.uuid] = edge
            frontier = following
        return [self.nodes[uuid] for uuid in order], list(edges.values()), cut
