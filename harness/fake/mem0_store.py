"""The memory behind the Mem0 stand-in: memories with scopes, entities, events, and the filter language."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from harness.fake.kit import Account, JsonObject
from harness.fake.kit_store import Ids, stamp

SCOPES = ("user_id", "agent_id", "app_id", "run_id")
DEFAULT_USER = "mem0-mcp"


class BadFilter(ValueError):
    """The filter is none of ours; the message says which part."""


@dataclass(slots=True)
class Memory:
    id: str
    text: str
    scope: dict[str, str]
    metadata: JsonObject | None
    created_at: datetime
    updated_at: datetime

    def shown(self) -> JsonObject:
        return {
            "id": self.id,
            "memory": self.text,
            **{key: self.scope.get(key) for key in SCOPES},
            "metadata": self.metadata,
            "categories": [],
            "created_at": stamp(self.created_at),
            "updated_at": stamp(self.updated_at),
        }

    def field(self, name: str) -> Any:
        """The value a filter compares; raises BadFilter for a name that memories do not have."""
        if name in SCOPES:
            return self.scope.get(name)
        if name in ("created_at", "updated_at"):
            return stamp(getattr(self, name))
        if name in ("id", "memory_id", "memory_ids"):
            return self.id
        if name == "metadata":
            return self.metadata
        raise BadFilter(f"unknown filter field {name!r}")


@dataclass(slots=True)
class Event:
    """Something that was asked for. `texts` wait to become memories until `ready_at`."""

    id: str
    kind: str
    created_at: datetime
    ready_at: datetime
    texts: tuple[str, ...] = ()
    scope: dict[str, str] = field(default_factory=dict)
    metadata: JsonObject | None = None
    results: list[JsonObject] = field(default_factory=list)
    done: bool = False

    def shown(self) -> JsonObject:
        return {
            "id": self.id,
            "event_type": self.kind,
            "status": "SUCCEEDED" if self.done else "PENDING",
            "results": self.results,
            "created_at": stamp(self.created_at),
            "updated_at": stamp(self.ready_at if self.done else self.created_at),
        }


class Mem0Store:
    """One account. Entities outlive their memories until they are deleted themselves, as at the provider."""

    def __init__(self, account: Account) -> None:
        self._ids = Ids("mem0", account.credential)
        self.memories: dict[str, Memory] = {}
        self.events: dict[str, Event] = {}
        self.entities: dict[tuple[str, str], datetime] = {}

    def settle(self, now: datetime) -> None:
        """Turn pending events that fell due into memories, in the order they were asked for."""
        for event in sorted((e for e in self.events.values() if not e.done and e.ready_at <= now), key=lambda e: e.ready_at):
            event.done = True
            for text in event.texts:
                event.results.append(self._infer(text, event))

    def _infer(self, text: str, event: Event) -> JsonObject:
        """The stand-in's whole inference: a fact that this scope already holds is not stored twice."""
        same = next((m for m in self.memories.values() if m.text == text and m.scope == event.scope), None)
        if same is not None:
            return {"id": same.id, "memory": text, "event": "NONE"}
        return self.insert(text, event.scope, event.metadata, event.ready_at)

    def insert(self, text: str, scope: dict[str, str], metadata: JsonObject | None, at: datetime) -> JsonObject:
        memory = Memory(self._ids.uuid("memory"), text, dict(scope), metadata, at, at)
        self.memories[memory.id] = memory
        for key, name in scope.items():
            self.entities.setdefault((key, name), at)
        return {"id": memory.id, "memory": text, "event": "ADD"}

    def record(self, kind: str, at: datetime, results: list[JsonObject]) -> Event:
        """An event that is over already."""
        event = Event(self._ids.uuid("event"), kind, at, at, results=results, done=True)
        self.events[event.id] = event
        return event

    def enqueue(self, texts: Sequence[str], scope: dict[str, str], metadata: JsonObject | None, now: datetime, ready_at: datetime) -> Event:
        event = Event(self._ids.uuid("event"), "ADD", now, ready_at, tuple(texts), dict(scope), metadata)
        self.events[event.id] = event
        return event

    def matching(self, filters: JsonObject | None) -> list[Memory]:
        """Memories the filter lets through, oldest first; no filter means the default user. Raises BadFilter."""
        chosen = filters or {"user_id": DEFAULT_USER}
        check_filter(chosen)
        return [memory for memory in self.memories.values() if _holds(chosen, memory)]

    def remove(self, memories: Sequence[Memory], at: datetime) -> int:
        for memory in memories:
            del self.memories[memory.id]
        if memories:
            self.record("DELETE", at, [{"id": memory.id, "memory": memory.text, "event": "DELETE"} for memory in memories])
        return len(memories)


_FIELDS = (*SCOPES, "created_at", "updated_at", "id", "memory_id", "memory_ids", "metadata")


def _contains(have: Any, want: Any, fold: bool) -> bool:
    if not isinstance(have, str) or not isinstance(want, str):
        return False
    return want.casefold() in have.casefold() if fold else want in have


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def both_text(have: Any, want: Any) -> bool:
        return isinstance(have, str) and isinstance(want, str) and test(have, want)

    return both_text


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda have, want: bool(have == want),
    "ne": lambda have, want: bool(have != want),
    "in": lambda have, want: have in want,
    "gt": _ordered(lambda have, want: bool(have > want)),
    "gte": _ordered(lambda have, want: bool(have >= want)),
    "lt": _ordered(lambda have, want: bool(have < want)),
    "lte": _ordered(lambda have, want: bool(have <= want)),
    "contains": lambda have, want: _contains(have, want, False),
    "icontains": lambda have, want: _contains(have, want, True),
}


def check_filter(node: object) -> None:
    """Refuse a filter as a whole before any memory is looked at, so that an empty store answers alike. Raises BadFilter."""
    if not isinstance(node, dict):
        raise BadFilter("a filter is an object")
    for key, value in node.items():
        if key in ("AND", "OR"):
            if not isinstance(value, list):
                raise BadFilter(f"{key} takes a list of filters")
            for part in value:
                check_filter(part)
        elif key == "NOT":
            for part in value if isinstance(value, list) else [value]:
                check_filter(part)
        elif key not in _FIELDS:
            raise BadFilter(f"unknown filter field {key!r}")
        elif isinstance(value, dict) and key != "metadata":
            _check_operators(value)


def _check_operators(value: JsonObject) -> None:
    for operator, want in value.items():
        if operator not in _OPERATORS:
            raise BadFilter(f"unknown filter operator {operator!r}")
        if operator == "in" and not isinstance(want, list):
            raise BadFilter("in takes a list")


def _holds(node: JsonObject, memory: Memory) -> bool:
    return all(_part_holds(key, value, memory) for key, value in node.items())


def _part_holds(key: str, value: Any, memory: Memory) -> bool:
    if key == "AND":
        return all(_holds(part, memory) for part in value)
    if key == "OR":
        return any(_holds(part, memory) for part in value)
    if key == "NOT":
        return not any(_holds(part, memory) for part in (value if isinstance(value, list) else [value]))
    have = memory.field(key)
    if key == "metadata" and isinstance(value, dict):
        return isinstance(have, dict) and all(name in have and have[name] == want for name, want in value.items())
    if isinstance(value, dict):
        return all(_OPERATORS[operator](have, want) for operator, want in value.items())
    if isinstance(value, list):
        return have in value
    return have is not None if value == "*" else bool(have == value)
