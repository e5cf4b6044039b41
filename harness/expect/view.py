"""The judge's sight of one plan item: its evidence, indexed. Pure; built from records alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from harness.model.evidence import (
    ApprovalRecord,
    AuditRecord,
    ClientExchange,
    ControlRecord,
    EvidenceRecord,
    PlanItemRecord,
    ProviderExchangeRecord,
    RelationRecord,
    StepRecord,
)
from harness.model.exchange import ProviderExchange
from harness.model.inventory import Inventory
from harness.model.manifest import Manifest
from harness.model.scenario import Level

CALL_EVENTS = frozenset(
    {
        "policy_decision",
        "call_started",
        "call_completed",
        "call_failed",
        "call_denied",
        "call_replayed",
        "approval_requested",
        "approval_resolved",
    }
)
LATER = 1 << 62


@dataclass(frozen=True, slots=True)
class Dispatch:
    """A provider-side exchange that ran a tool, and the client exchange it belongs to (None: nobody asked for it)."""

    connection: str
    exchange: ProviderExchange
    caller: ClientExchange | None


@dataclass(frozen=True)
class View:
    """Evidence of one item. `providers` maps connection → provider id; the documents are keyed by provider id."""

    records: Sequence[EvidenceRecord]
    providers: Mapping[str, str]
    manifests: Mapping[str, Manifest] = field(default_factory=dict)
    inventories: Mapping[str, Inventory] = field(default_factory=dict)

    def _of(self, kind: type[Any]) -> list[Any]:
        return [r for r in self.records if isinstance(r, kind)]

    @cached_property
    def item(self) -> PlanItemRecord | None:
        starts = [r for r in self._of(PlanItemRecord) if r.phase == "start"]
        return starts[0] if starts else None

    @cached_property
    def level(self) -> str:
        """What tool lists are to be compared as: a recording of a stand-in, or one without its texts, tells no more than a stand-in does."""
        if self.item is None or any(one.level == "fake" or one.prose == "hashed" for one in self.item.recorded):
            return "fake"
        return self.item.level

    def recorded_at(self, connection: str) -> Level:
        """At which level this connection answers, or did when it was recorded."""
        if self.item is None:
            return "fake"
        return next((one.level for one in self.item.recorded if one.connection == connection), self.item.level)

    @cached_property
    def steps(self) -> Mapping[str, StepRecord]:
        return {r.step: r for r in self._of(StepRecord) if r.phase != "cleanup"}

    @cached_property
    def cleanup_seq(self) -> int:
        """Order number at which cleanup began; events after it are judged apart."""
        marks = [r.seq for r in self._of(ControlRecord) if r.action == "phase" and r.data == "cleanup"]
        return min(marks, default=LATER)

    @cached_property
    def clients(self) -> Sequence[ClientExchange]:
        """Calls of the scenario proper, in order; neither cleanup nor what the engine did for itself."""
        return [r for r in self._of(ClientExchange) if r.phase == "steps"]

    def calls(self, step: str) -> Sequence[ClientExchange]:
        """Every attempt of a step's call, in order."""
        return [c for c in self.clients if c.step == step and c.method == "tools/call"]

    def last_call(self, step: str) -> ClientExchange | None:
        calls = self.calls(step)
        return calls[-1] if calls else None

    def approvals(self, step: str) -> Sequence[ApprovalRecord]:
        return [r for r in self._of(ApprovalRecord) if r.step == step]

    @cached_property
    def every_approval(self) -> Sequence[ApprovalRecord]:
        return self._of(ApprovalRecord)

    def controls(self, action: str, connection: str | None = None) -> Sequence[ControlRecord]:
        return [r for r in self._of(ControlRecord) if r.action == action and connection in (None, r.connection)]

    # ---- provider side

    @cached_property
    def exchanges(self) -> Sequence[tuple[str, ProviderExchange]]:
        found = [(r.connection, r.exchange) for r in self._of(ProviderExchangeRecord)]
        return sorted(found, key=lambda pair: pair[1].started_seq)

    def operations(self, connection: str) -> bool:
        """True for a REST bridge, whose dispatches are requests and not tools/call."""
        manifest = self.manifests.get(self.providers.get(connection, ""))
        return bool(manifest and manifest.operations)

    def is_dispatch(self, connection: str, exchange: ProviderExchange) -> bool:
        if self.operations(connection):
            return exchange.tool is not None
        return exchange.rpc_method == "tools/call"

    @cached_property
    def every_dispatch(self) -> Sequence[Dispatch]:
        """Cleanup's included, each with its caller."""
        return [
            Dispatch(connection, exchange, self._caller(connection, exchange))
            for connection, exchange in self.exchanges
            if self.is_dispatch(connection, exchange)
        ]

    @cached_property
    def dispatches(self) -> Sequence[Dispatch]:
        return [d for d in self.every_dispatch if d.exchange.started_seq < self.cleanup_seq]

    def dispatches_of(self, step: str) -> Sequence[Dispatch]:
        return [d for d in self.dispatches if d.caller is not None and d.caller.step == step]

    def _caller(self, connection: str, exchange: ProviderExchange) -> ClientExchange | None:
        """By trace id where the gateway passes it on; else by tool, arguments and time."""
        everyone: list[ClientExchange] = [r for r in self._of(ClientExchange) if r.method == "tools/call"]
        if exchange.traceparent:
            for client in everyone:
                if client.traceparent and client.traceparent == exchange.traceparent:
                    return client if client.tool == exchange.tool else None
        rest = self.operations(connection)
        for client in everyone:
            if client.connection != connection or client.tool != exchange.tool:
                continue
            if not rest and client.arguments_digest != exchange.arguments_digest:
                continue
            if any(start < exchange.started_seq < end for start, end in self._windows(client)):
                return client
        return None

    def _windows(self, client: ClientExchange) -> list[tuple[int, int]]:
        """When a dispatch for this call may leave: while the agent waits, and while its approval is carried out."""
        windows = [(client.started_seq, client.ended_seq)]
        approval = client.said.get("approval")
        windows += [(a.seq, a.ended_seq) for a in self.every_approval if approval and a.approval.get("id") == approval]
        return windows

    # ---- audit

    @cached_property
    def audit(self) -> Sequence[Mapping[str, Any]]:
        return [r.record for r in self._of(AuditRecord)]

    @cached_property
    def trails(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Invocation → its records in order. A record that names none stands under its own sequence number."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for record in sorted(self.audit, key=_seq):
            if str(record.get("event")) in CALL_EVENTS:
                found.setdefault(str(record.get("invocation") or f"seq-{record.get('seq')}"), []).append(record)
        return found

    def trail_of(self, client: ClientExchange) -> Sequence[Mapping[str, Any]]:
        """By the invocation the gateway named, else by trace id, else by tool and arguments digest if that is unique."""
        named = client.said.get("invocation")
        if isinstance(named, str) and named in self.trails:
            return self.trails[named]
        if client.traceparent:
            traced = [t for t in self.trails.values() if t[0].get("traceparent") == client.traceparent]
            if len(traced) == 1:
                return traced[0]
        same = [t for t in self.trails.values() if t[0].get("tool") == client.tool and t[0].get("arguments_digest") == client.arguments_digest]
        return same[0] if len(same) == 1 else ()

    @cached_property
    def cleanup_invocations(self) -> frozenset[str]:
        clients = [r for r in self._of(ClientExchange) if r.phase in ("cleanup", "after")]
        named = {str(c.said.get("invocation")) for c in clients if c.said.get("invocation")}
        traces = {c.traceparent for c in clients if c.traceparent}
        traced = {key for key, trail in self.trails.items() if trail[0].get("traceparent") in traces}
        alike = {id(self.trail_of(c)) for c in clients if c.method == "tools/call"}  # where a record keeps neither
        return frozenset(named | traced | {key for key, trail in self.trails.items() if id(trail) in alike})

    # ---- names

    def only_connection(self) -> str:
        return next(iter(self.providers)) if len(self.providers) == 1 else ""

    def manifest_of(self, connection: str) -> Manifest | None:
        return self.manifests.get(self.providers.get(connection, ""))

    def inventory_of(self, connection: str) -> Inventory | None:
        return self.inventories.get(self.providers.get(connection, ""))

    def assumed_of(self, connection: str) -> frozenset[str]:
        """Tools whose shape the stand-in only assumes."""
        return frozenset(self.item.assumed.get(self.providers.get(connection, ""), ())) if self.item else frozenset()

    def relations(self, connection: str) -> Sequence[RelationRecord]:
        """What was found of changed schemas while the item ran."""
        return [record for record in self._of(RelationRecord) if record.connection == connection]

    def catalog(self, connection: str) -> ControlRecord | None:
        """The newest read-back of the gateway's catalog before cleanup."""
        found = [c for c in self.controls("catalog", connection) if c.phase != "after" and c.seq < self.cleanup_seq]
        return found[-1] if found else None


def of_item(records: Iterable[EvidenceRecord], item: str) -> list[EvidenceRecord]:
    return [r for r in records if getattr(r, "item", "") == item]


def _seq(record: Mapping[str, Any]) -> int:
    """0 for a record that has no number: whatever a gateway answers is judged, and breaks nothing."""
    found = record.get("seq")
    return found if isinstance(found, int) else 0
