"""What happened: evidence/v1, one JSON object a line, append-only. The judge reads nothing else.

`seq` numbers come from one sequencer per bench and order events of all witnesses relative to one another.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from harness.model.exchange import ProviderExchange
from harness.model.location import Frozen
from harness.model.scenario import Level

FORMAT = "evidence/v1"
Phase = Literal["before", "steps", "cleanup", "after"]


class Document(Frozen):
    """A file the verdict rests on, in full, keyed elsewhere by its SHA-256."""

    kind: Literal["scenario", "manifest", "inventory"]
    name: str
    text: str


class Trouble(Frozen):
    """A HarnessError as data: the run could not go on, so the verdict is error (or fail for exit 1)."""

    type: str
    what: str
    where: str = ""
    fix: str = ""
    exit_code: int


class Recorded(Frozen):
    """What a replayed connection answered from: a cassette, and at which level and when that was recorded."""

    connection: str
    file: str
    level: Level
    on: str
    expires: str
    server: str = ""
    simulated_backend: bool = False
    prose: Literal["kept", "hashed"] = "kept"

    def told(self) -> str:
        """In one line, for reports."""
        behind = "backend simulated" if self.simulated_backend else ""
        more = ", ".join(filter(None, (self.server, behind)))
        return f"{self.connection}: recorded at: {self.level}, on {self.on[:10]}{f' ({more})' if more else ''}, expires {self.expires}"


class RunRecord(Frozen):
    kind: Literal["run"] = "run"
    format: Literal["evidence/v1"] = "evidence/v1"
    phase: Literal["start", "end"]
    run: str
    at: str
    harness_version: str = ""
    options: Mapping[str, Any] = Field(default_factory=dict)
    environment: Mapping[str, Any] = Field(default_factory=dict)
    trouble: Trouble | None = None
    """End only: what broke the run off before every item had its turn."""


class PlanItemRecord(Frozen):
    """Start and end of one plan item. Documents are embedded once per file, at the first item that needs them."""

    kind: Literal["plan_item"] = "plan_item"
    phase: Literal["start", "end"]
    item: str
    at: str
    scenario: str
    level: Level
    target: str
    protocol: str
    legs: Mapping[str, Level] = Field(default_factory=dict)
    bindings: Mapping[str, Any] = Field(default_factory=dict)
    documents: tuple[str, ...] = ()
    embedded: Mapping[str, Document] = Field(default_factory=dict)
    run_id: str = ""
    tenant: str = ""
    gateway_run: str = ""
    assumed: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """Provider → tools whose shape a stand-in only assumes; these are not compared by shape."""
    two_witness: bool = False
    """The target has no audit: client and witness must agree, and claims say so."""
    lacking: tuple[str, ...] = ()
    """Abilities that the target has not; what needs one of them is untestable."""
    untestable: tuple[str, ...] = ()
    """Why the scenario cannot even be set up at this target: "ability: what for"."""
    missing: tuple[str, ...] = ()
    not_applicable: str = ""
    recorded: tuple[Recorded, ...] = ()
    """Level replayed: what each connection answered from."""
    development: tuple[str, ...] = ()
    """What the gateway had loosened for development, in words."""
    rehearsed: bool = False
    """The live path was taken, with stand-ins of ours under the providers' real names."""
    trouble: Trouble | None = None
    seconds: float = 0.0


class StepRecord(Frozen):
    kind: Literal["step"] = "step"
    item: str
    phase: Phase
    step: str
    verb: str
    args: Any = None
    started_seq: int
    ended_seq: int
    attempts: int = 1
    elapsed_s: float = 0.0
    captures: Mapping[str, Any] = Field(default_factory=dict)
    unresolved: tuple[str, ...] = ()
    said: str = ""
    trouble: Trouble | None = None


class RpcError(Frozen):
    code: int
    message: str
    data: Any = None


class ClientExchange(Frozen):
    """What the agent sent and saw. Exactly one of result, error and transport_error is set.

    `said` is the gateway's own word on the call, normalised by the target adapter: outcome, reason, origin, invocation,
    approval (an id), replay_of; empty where a gateway says nothing.
    """

    kind: Literal["client_exchange"] = "client_exchange"
    item: str
    phase: Phase
    step: str
    attempt: int
    connection: str
    method: Literal["tools/call", "tools/list"]
    tool: str = ""
    exposed_as: str = ""
    arguments: Mapping[str, Any] | None = None
    arguments_digest: str = ""
    traceparent: str = ""
    protocol_version: str
    at: str = ""
    """When it began, RFC 3339 UTC by the harness's clock; empty in evidence of earlier versions."""
    started_seq: int
    ended_seq: int
    result: Any = None
    error: RpcError | None = None
    transport_error: str = ""
    said: Mapping[str, Any] = Field(default_factory=dict)
    latency_ms: float = 0.0


class ProviderExchangeRecord(Frozen):
    kind: Literal["provider_exchange"] = "provider_exchange"
    item: str
    connection: str
    exchange: ProviderExchange


class ApprovalRecord(Frozen):
    kind: Literal["approval"] = "approval"
    item: str
    phase: Phase
    step: str
    decision: Literal["approve", "reject"]
    seq: int
    ended_seq: int
    approval: Mapping[str, Any]
    result: Any = None
    error: Mapping[str, Any] | None = None


class AuditRecord(Frozen):
    kind: Literal["audit"] = "audit"
    item: str
    record: Mapping[str, Any]


class ControlRecord(Frozen):
    """An operator action or read-back: access, permissions, catalog, refresh, connection, clock, health, revoke, end_run."""

    kind: Literal["control"] = "control"
    item: str
    phase: Phase
    step: str = ""
    action: str
    connection: str = ""
    seq: int
    data: Any = None


class ProcessRecord(Frozen):
    kind: Literal["process"] = "process"
    item: str = ""
    name: str
    event: Literal["ready", "ended", "died"]
    detail: Mapping[str, Any] = Field(default_factory=dict)


class RelationRecord(Frozen):
    kind: Literal["relation"] = "relation"
    item: str
    connection: str
    tool: str
    data: Mapping[str, Any]


class AuditLogRecord(Frozen):
    """What vouches for the audit records of one bench: the log as the gateway exported it when the bench ended, and its own signatures.

    `key`: its public key, base64, as it told it when the bench began. `checkpoints`: those it kept outside its store, one a line, from the
    last one before the bench began. `export`: the records after that one, one a line, and the checkpoint of their end.
    """

    kind: Literal["audit_log"] = "audit_log"
    target: str
    items: tuple[str, ...]
    offered: bool
    why_not: str = ""
    """Not offered, or not to be had: why, in words."""
    key: str = ""
    checkpoints: str = ""
    export: str = ""


class NoteRecord(Frozen):
    kind: Literal["note"] = "note"
    item: str = ""
    text: str
    data: Any = None


EvidenceRecord = Annotated[
    RunRecord
    | PlanItemRecord
    | StepRecord
    | ClientExchange
    | ProviderExchangeRecord
    | ApprovalRecord
    | AuditRecord
    | ControlRecord
    | ProcessRecord
    | RelationRecord
    | AuditLogRecord
    | NoteRecord,
    Field(discriminator="kind"),
]

EVIDENCE = TypeAdapter[EvidenceRecord](EvidenceRecord)
