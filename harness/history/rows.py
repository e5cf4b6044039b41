"""What the history holds, as data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RunRow:
    """`kind`: run or nightly. `at`: RFC 3339 UTC."""

    run: str
    at: str
    kind: str
    exit_code: int
    level_line: str


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One plan item's verdict. `cause`: the class that triage gave a failure, "" when there was none."""

    item: str
    scenario: str
    level: str
    rehearsed: bool
    providers: tuple[str, ...]
    outcome: str
    seconds: float
    failed_steps: tuple[str, ...]
    findings: tuple[str, ...]
    cause: str
    latency_ms: float | None

    def values(self) -> tuple[Any, ...]:
        lists = [json.dumps(value) for value in (self.providers, self.failed_steps, self.findings)]
        first = (self.item, self.scenario, self.level, int(self.rehearsed), lists[0], self.outcome, self.seconds)
        return (*first, lists[1], lists[2], self.cause, self.latency_ms)

    @classmethod
    def of(cls, row: Sequence[Any]) -> ItemRow:
        item, scenario, level, rehearsed, providers, outcome, seconds, steps, findings, cause, latency = row
        listed = [tuple(json.loads(text)) for text in (providers, steps, findings)]
        return cls(item, scenario, level, bool(rehearsed), listed[0], outcome, seconds, listed[1], listed[2], cause, latency)


@dataclass(frozen=True, slots=True)
class VisibleRow:
    """How long a polled step waited. `kind`: raw, derived or unknown."""

    item: str
    step: str
    provider: str
    tool: str
    kind: str
    level: str
    seconds: float
    attempts: int
    visible: bool

    def values(self) -> tuple[Any, ...]:
        first = (self.item, self.step, self.provider, self.tool, self.kind, self.level)
        return (*first, self.seconds, self.attempts, int(self.visible))

    @classmethod
    def of(cls, row: Sequence[Any]) -> VisibleRow:
        item, step, provider, tool, kind, level, seconds, attempts, seen = row
        return cls(item, step, provider, tool, kind, level, seconds, attempts, bool(seen))


@dataclass(frozen=True, slots=True)
class Leftover:
    """Something that a run left at a provider. `host`: "live", or the loopback address that played it. `row` and `run`: once stored."""

    provider: str
    kind: str
    identity: str
    names: tuple[str, ...]
    tool: str
    host: str
    row: int = 0
    run: str = ""

    def values(self) -> tuple[Any, ...]:
        return (self.provider, self.kind, self.identity, json.dumps(self.names), self.tool, self.host)

    @classmethod
    def of(cls, row: Sequence[Any]) -> Leftover:
        provider, kind, identity, names, tool, host, number, run = row
        return cls(provider, kind, identity, tuple(json.loads(names)), tool, host, number, run)


@dataclass(frozen=True, slots=True)
class Stored:
    """One run with all it says."""

    run: RunRow
    items: tuple[ItemRow, ...] = ()
    visible: tuple[VisibleRow, ...] = ()
    leftovers: tuple[Leftover, ...] = ()
