"""The memory behind the Papr stand-in: memories of several users of one developer, their graph nodes, and search by shared words."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from harness.fake.kit import JsonObject
from harness.fake.kit_store import Ids, ranked, score, stamp
from harness.fake.papr_bodies import Item, Search, SearchQuery, Update
from harness.fake.papr_webhook import Delivery

SYSTEM_LABELS: Final = frozenset({"Memory", "Person", "Company", "Project", "Task", "Insight", "Meeting", "Opportunity", "Code"})


@dataclass(frozen=True, slots=True)
class User:
    """`id` is Papr's own; `external` is how the developer's application calls the user, if it was named so."""

    id: str
    external: str | None = None


@dataclass(slots=True)
class Memory:
    """`findable_at`: from then on search finds it. `nodes`: what the graph knows of it, nothing when background processing was skipped."""

    id: str
    object_id: str
    user: User
    content: str
    type: str
    metadata: JsonObject
    context: list[JsonObject]
    relationships: list[JsonObject]
    organization: str | None
    namespace: str | None
    created_at: datetime
    updated_at: datetime
    findable_at: datetime
    nodes: list[JsonObject] = field(default_factory=list)

    @property
    def chunks(self) -> list[str]:
        return [f"{self.id}_0"]

    def added(self) -> JsonObject:
        return {"memoryId": self.id, "objectId": self.object_id, "createdAt": stamp(self.created_at), "memoryChunkIds": self.chunks}

    def updated(self) -> JsonObject:
        own = {"memoryId": self.id, "objectId": self.object_id, "updatedAt": stamp(self.updated_at), "memoryChunkIds": self.chunks}
        return {**own, "content": self.content, "metadata": self.metadata}

    def shown(self) -> JsonObject:
        """As search and get answer with it."""
        named = {"conversation_id": "conversationId", "location": "location", "source_url": "sourceUrl", "role": "role", "category": "category"}
        return {
            "id": self.id,
            "content": self.content,
            "type": self.type,
            "user_id": self.user.id,
            "external_user_id": self.user.external,
            "organization_id": self.organization,
            "namespace_id": self.namespace,
            "acl": {self.user.id: {"read": True, "write": True}},
            "metadata": self.metadata,
            "context": self.context,
            "createdAt": stamp(self.created_at),
            "updatedAt": stamp(self.updated_at),
            **{name: self.metadata.get(key) for name, key in named.items()},
        }

    def words(self, *, graph: bool) -> str:
        return " ".join([self.content, *(json.dumps(node["properties"], ensure_ascii=False) for node in self.nodes if graph)])


@dataclass(slots=True)
class Store:
    """Everything of one developer."""

    ids: Ids
    developer: User
    users: dict[str, User] = field(default_factory=dict)
    memories: dict[str, Memory] = field(default_factory=dict)
    deliveries: list[Delivery] = field(default_factory=list)

    def user(self, user_id: str | None, external: str | None, *, make: bool) -> User | None:
        """`user_id` wins; without either it is the developer. An external name nobody has used is None, unless it is to be made."""
        if user_id is not None:
            return next((user for user in self.users.values() if user.id == user_id), User(user_id))
        if external is None:
            return self.developer
        if external not in self.users and make:
            self.users[external] = User(self.ids.short("user", 10), external)
        return self.users.get(external)

    def add(self, item: Item, user: User, now: datetime, delay: timedelta, *, graph: bool) -> Memory:
        memory = Memory(
            id=self.ids.uuid("memory"),
            object_id=self.ids.short("object", 10),
            user=user,
            content=item.content,
            type=item.type,
            metadata=item.metadata.plain() if item.metadata else {},
            context=[each.model_dump() for each in item.context or ()],
            relationships=[each.model_dump(exclude_unset=True) for each in item.relationships_json or ()],
            organization=item.organization_id,
            namespace=item.namespace_id,
            created_at=now,
            updated_at=now,
            findable_at=now + delay,
            nodes=list(self._nodes(item)) if graph else [],
        )
        self.memories[memory.id] = memory
        return memory

    def _nodes(self, item: Item) -> Iterator[JsonObject]:
        """Given ones only: no model runs here that could find any by itself. A label of the developer's own names its schema."""
        generation = item.graph_generation
        if generation is None or generation.manual is None:
            return
        schema = generation.auto.schema_id if generation.auto else None
        for node in generation.manual.nodes:
            custom = {} if node.label in SYSTEM_LABELS else {"schema_id": schema or f"schema_{node.label.lower()}"}
            yield {"label": node.label, "properties": {"id": node.id, **node.properties}, **custom}

    def find(self, memory_id: str, organization: str | None = None, namespace: str | None = None) -> Memory | None:
        """None too when it does not belong to the organization or namespace that was named."""
        found = self.memories.get(memory_id)
        return found if found is not None and _within(found, organization, namespace) else None

    def change(self, memory: Memory, update: Update, now: datetime, delay: timedelta) -> None:
        """What is given replaces what was; metadata field by field."""
        if update.content is not None:
            memory.content, memory.findable_at = update.content, now + delay
        if update.type is not None:
            memory.type = update.type
        if update.metadata is not None:
            memory.metadata = {**memory.metadata, **update.metadata.plain()}
        if update.context is not None:
            memory.context = [each.model_dump() for each in update.context]
        if update.relationships_json is not None:
            memory.relationships = [each.model_dump(exclude_unset=True) for each in update.relationships_json]
        memory.updated_at = now

    def of(self, user: User | None) -> list[Memory]:
        return [memory for memory in self.memories.values() if user is not None and memory.user.id == user.id]

    def search(self, asked: Search, limits: SearchQuery, now: datetime) -> JsonObject:
        """`data` of the answer: memories, best first, and the nodes that belong to them."""
        wanted = asked.metadata.plain() if asked.metadata else {}
        readable = [
            memory
            for memory in self.of(self.user(asked.user_id, asked.external_user_id, make=False))
            if memory.findable_at <= now and _within(memory, asked.organization_id, asked.namespace_id) and _matches(memory.metadata, wanted)
        ]
        hits = ranked(asked.query, readable, lambda memory: memory.words(graph=asked.enable_agentic_graph))[: limits.max_memories]
        nodes = [node for _, memory in hits for node in memory.nodes if _wanted_node(node, asked)][: limits.max_nodes]
        schemas = list(dict.fromkeys(node["schema_id"] for node in nodes if "schema_id" in node))
        memories = [{**memory.shown(), "similarity_score": round(found, 4), **_reranked(asked, memory)} for found, memory in hits]
        return {"memories": memories, "nodes": nodes, **({"schemas_used": schemas} if schemas else {})}


def _reranked(asked: Search, memory: Memory) -> JsonObject:
    return {"reranker_score": round(score(asked.query, memory.content), 4)} if asked.rank_results else {}


def _within(memory: Memory, organization: str | None, namespace: str | None) -> bool:
    return organization in (None, memory.organization) and namespace in (None, memory.namespace)


def _matches(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Each field that is asked for is there; of lists, one element in common is enough."""
    for name, value in wanted.items():
        has = metadata.get(name)
        if value is None or has == value:
            continue
        ours, theirs = ([each] if not isinstance(each, list) else each for each in (has, value))
        if not any(each in ours for each in theirs):
            return False
    return True


def _wanted_node(node: Mapping[str, Any], asked: Search) -> bool:
    if asked.schema_id is not None and node.get("schema_id") not in (None, asked.schema_id):
        return False
    if asked.search_override is None:
        return True
    pattern = asked.search_override.pattern
    return node["label"] in (pattern.source_label, pattern.target_label)
