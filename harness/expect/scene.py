"""Small hand-made evidence for specimens: what a run would have written, without a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from harness.expect.audit_table import TABLE
from harness.expect.view import View
from harness.model.digest import arguments_digest
from harness.model.evidence import (
    ApprovalRecord,
    AuditRecord,
    ClientExchange,
    ControlRecord,
    EvidenceRecord,
    ProviderExchangeRecord,
    RpcError,
    StepRecord,
)
from harness.model.exchange import ProviderExchange, Sequencer
from harness.model.inventory import Inventory
from harness.model.manifest import Auth, Manifest, RecallShape

ITEM = "SPECIMEN[fake,reference,2026-07-28]"

MEM0 = Manifest(
    id="mem0",
    title="Mem0",
    docs="",
    transport="mcp_http",
    endpoint="https://example.invalid/mcp",
    path="/mcp",
    mount="reverse",
    auth=Auth(scheme="bearer", paths=("credentials.authorization",)),
    recall={"search_memories": RecallShape(items="/results", text="/memory", id="/id", scope={"user_id": "/user_id"})},
)


def answer(value: Any, *, is_error: bool = False, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """A CallToolResult whose text block is `value` (JSON-encoded unless it is a string)."""
    text = value if isinstance(value, str) else json.dumps(value)
    made: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": is_error}
    if not isinstance(value, str):
        made["structuredContent"] = value
    return made | ({"_meta": dict(meta)} if meta else {})


class Scene:
    """Appends records as a run would; `view()` reads them. One connection, mem0, unless told otherwise."""

    def __init__(self, providers: Mapping[str, str] | None = None, manifests: Mapping[str, Manifest] | None = None) -> None:
        self.records: list[EvidenceRecord] = []
        self.providers = dict(providers or {"mem0": "mem0"})
        self.manifests = dict(manifests or {"mem0": MEM0})
        self.inventories: dict[str, Inventory] = {}
        self._seq = Sequencer()
        self._audit_seq = 0
        self._calls = 0

    def view(self) -> View:
        return View(tuple(self.records), self.providers, self.manifests, self.inventories)

    def call(
        self,
        tool: str = "add_memory",
        arguments: Mapping[str, Any] | None = None,
        *,
        step: str = "act",
        result: Mapping[str, Any] | None = None,
        error: RpcError | None = None,
        said: Mapping[str, Any] | None = None,
        dispatched: int = 1,
        trail: str = "",
        details: Mapping[str, Any] | None = None,
        connection: str = "mem0",
        phase: Any = "steps",
    ) -> ClientExchange:
        """One client call, its dispatches, its audit trail (a word of the table, "" for none) and the step's record."""
        self._calls += 1
        sent = dict(arguments or {})
        trace = f"00-{self._calls:032x}-{1:016x}-01"
        invocation = f"i{self._calls}"
        started = self._seq.next()
        for _ in range(dispatched):
            self.dispatch(tool, sent, trace=trace, connection=connection)
        client = ClientExchange(
            item=ITEM,
            phase=phase,
            step=step,
            attempt=1,
            connection=connection,
            method="tools/call",
            tool=tool,
            exposed_as=f"{connection}__{tool}",
            arguments=sent,
            arguments_digest=arguments_digest(sent),
            traceparent=trace,
            protocol_version="2026-07-28",
            started_seq=started,
            ended_seq=self._seq.next(),
            result=None if error else dict(result or answer({"ok": True})),
            error=error,
            said={"invocation": invocation, **(said or {"outcome": "success", "origin": "provider"})},
        )
        self.records.append(client)
        self.records.append(StepRecord(item=ITEM, phase=phase, step=step, verb="call", started_seq=started, ended_seq=client.ended_seq))
        if trail:
            self.trail(trail, client, details=details)
        return client

    def dispatch(self, tool: str, arguments: Mapping[str, Any], *, trace: str | None = None, connection: str = "mem0") -> None:
        exchange = ProviderExchange(
            n=1,
            mount=connection,
            at="2026-01-01T00:00:00.000000Z",
            method="POST",
            path="/mcp",
            rpc_method="tools/call",
            tool=tool,
            arguments=dict(arguments),
            arguments_digest=arguments_digest(dict(arguments)),
            traceparent=trace,
            forwarded=True,
            status=200,
            started_seq=self._seq.next(),
            ended_seq=self._seq.next(),
            outcome="answered",
        )
        self.records.append(ProviderExchangeRecord(item=ITEM, connection=connection, exchange=exchange))

    def listing(self, names: tuple[str, ...], *, connection: str = "mem0") -> None:
        """The provider lists these tools to the gateway, and the gateway the same to the agent."""
        result = {"tools": [{"name": name} for name in names]}
        exchange = ProviderExchange(
            n=1,
            mount=connection,
            at="2026-01-01T00:00:00.000000Z",
            method="POST",
            path="/mcp",
            rpc_method="tools/list",
            result=result,
            status=200,
            started_seq=self._seq.next(),
            ended_seq=self._seq.next(),
            outcome="answered",
        )
        self.records.append(ProviderExchangeRecord(item=ITEM, connection=connection, exchange=exchange))
        self.records.append(
            ClientExchange(
                item=ITEM,
                phase="steps",
                step="look",
                attempt=1,
                connection=connection,
                method="tools/list",
                protocol_version="2026-07-28",
                started_seq=self._seq.next(),
                ended_seq=self._seq.next(),
                result={**result, "pages": 1, "complete": True},
            )
        )

    def trail(self, word: str, client: ClientExchange, *, details: Mapping[str, Any] | None = None, drop: int = -1) -> None:
        for index, row in enumerate(TABLE[word]):
            if index == drop:
                continue
            self._audit_seq += 1
            record = {
                "seq": self._audit_seq,
                "event": row.event,
                "outcome": row.outcome,
                "decision": row.decision,
                "reason": said if (said := client.said.get("reason")) in row.reasons else sorted(row.reasons)[0],
                "tool": client.tool,
                "connection": client.connection,
                "invocation": client.said.get("invocation"),
                "arguments_digest": client.arguments_digest,
                "traceparent": client.traceparent,
                "details": dict(details or {}),
            }
            self.records.append(AuditRecord(item=ITEM, record=record))

    def step(self, step: str, verb: str = "approve", said: str = "") -> StepRecord:
        record = StepRecord(item=ITEM, phase="steps", step=step, verb=verb, started_seq=self._seq.next(), ended_seq=self._seq.next(), said=said)
        self.records.append(record)
        return record

    def approve(self, client: ClientExchange, *, step: str = "allow", dispatched: int = 1) -> None:
        started = self._seq.next()
        for _ in range(dispatched):
            self.dispatch(client.tool, client.arguments or {}, trace=client.traceparent)
        ended = self._seq.next()
        approval = {"id": client.said.get("approval"), "state": "executed"}
        self.records.append(ApprovalRecord(item=ITEM, phase="steps", step=step, decision="approve", seq=started, ended_seq=ended, approval=approval))
        self.records.append(StepRecord(item=ITEM, phase="steps", step=step, verb="approve", started_seq=started, ended_seq=ended))

    def control(self, action: str, data: Any, *, connection: str = "mem0", phase: Any = "before", step: str = "") -> None:
        self.records.append(ControlRecord(item=ITEM, phase=phase, step=step, action=action, connection=connection, seq=self._seq.next(), data=data))


PENDING = {"outcome": "pending", "origin": "gateway", "reason": "requires_approval_policy", "approval": "a1"}


def held(scene: Scene, *, dispatched: int = 0, said: Mapping[str, Any] | None = None, is_error: bool = True) -> ClientExchange:
    """A write under Ask first that waits."""
    words = PENDING if said is None else said
    return scene.call(
        "add_memory",
        {"text": "x"},
        result=answer("This call waits for approval.", is_error=is_error),
        said=words,
        dispatched=dispatched,
        trail="pending",
    )
