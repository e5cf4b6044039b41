"""Spans of the calls in stored evidence, by OpenTelemetry's semantic conventions for MCP. Pure.

Three spans a call at most, one per witness: what the agent's side saw (client), what the gateway's audit says it did (server), and what the
tap saw at the provider (client of the next hop). They share the trace id that the harness sent as `traceparent`; a gateway that does not
pass it on leaves its provider's span out, and that is a finding elsewhere, not here. Arguments and results are in no span.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from harness.model.evidence import AuditRecord, ClientExchange, EvidenceRecord, ProviderExchangeRecord

Service = Literal["harness", "gateway", "provider"]
Kind = Literal["client", "server"]
Value = str | int | bool
ENDS = frozenset({"call_completed", "call_failed", "call_denied", "approval_requested", "call_replayed"})


@dataclass(frozen=True, slots=True)
class Span:
    """Times in nanoseconds since the epoch; ids in lower-case hex. `error`: what went wrong, "" when nothing did."""

    service: Service
    name: str
    kind: Kind
    trace: str
    span: str
    parent: str
    start_ns: int
    end_ns: int
    error: str = ""
    attributes: Mapping[str, Value] = field(default_factory=dict)


def spans(records: Sequence[EvidenceRecord]) -> tuple[Span, ...]:
    """In the order of their calls. Calls without a time or a trace context, as evidence of earlier versions has them, have no span."""
    found: list[Span] = []
    roots: dict[tuple[str, str], Span] = {}
    for record in records:
        if isinstance(record, ClientExchange) and (root := _agent(record)) is not None:
            roots[record.item, record.traceparent] = root
            found.append(root)
    found += _gateway(records, roots)
    for record in records:
        if isinstance(record, ProviderExchangeRecord):
            exchange = record.exchange
            root = roots.get((record.item, exchange.traceparent or ""))
            if root is not None and (exchange.rpc_method == "tools/call" or exchange.tool):
                found.append(_provider(record, root))
    return tuple(found)


def _agent(client: ClientExchange) -> Span | None:
    ids = _ids(client.traceparent)
    if ids is None or not client.at or client.method != "tools/call":
        return None
    start = _ns(client.at)
    failed = client.transport_error or (client.error.message if client.error else "")
    if not failed and isinstance(client.result, dict) and client.result.get("isError"):
        failed = str(client.said.get("reason") or "tool_error")
    more: dict[str, Value] = {"mcp.protocol.version": client.protocol_version, "harness.item": client.item, "harness.step": client.step}
    if client.error is not None:
        more["rpc.response.status_code"] = str(client.error.code)
    if failed:
        more["error.type"] = "tool_error" if client.error is None and not client.transport_error else "rpc" if client.error else "transport"
    if outcome := client.said.get("outcome"):
        more["gateway.outcome"] = str(outcome)
    end = start + int(client.latency_ms * 1e6)
    return _span("harness", client.exposed_as or client.tool, "client", ids[0], ids[1], "", start, end, failed, more)


def _gateway(records: Sequence[EvidenceRecord], roots: Mapping[tuple[str, str], Span]) -> Iterator[Span]:
    trails: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for record in records:
        if isinstance(record, AuditRecord) and record.record.get("invocation"):
            trails.setdefault((record.item, str(record.record["invocation"])), []).append(record.record)
    for (item, invocation), trail in trails.items():
        root = roots.get((item, str(trail[0].get("traceparent") or "")))
        if root is None:
            continue
        last = trail[-1]
        failed = str(last.get("reason") or "") if last.get("outcome") in ("failure", "denied", "timeout", "cancelled", "unknown") else ""
        more: dict[str, Value] = {
            "gateway.invocation": invocation,
            "gateway.decision": str(last.get("decision") or ""),
            "gateway.reason": str(last.get("reason") or ""),
        }
        end = max(_ns(str(record["at"])) for record in trail if record.get("event") in ENDS or record is last)
        tool, start = str(trail[0].get("tool")), _ns(str(trail[0]["at"]))
        yield _span("gateway", tool, "server", root.trace, _derived(item, invocation), root.span, start, end, failed, more)


def _provider(record: ProviderExchangeRecord, root: Span) -> Span:
    exchange = record.exchange
    start = _ns(exchange.at)
    well = exchange.status is not None and 200 <= exchange.status < 300 and not exchange.is_error and exchange.rpc_error_code is None
    failed = "" if well else exchange.fault or (f"HTTP {exchange.status}" if exchange.status else "no answer")
    more: dict[str, Value] = {"harness.connection": record.connection, "harness.forwarded": exchange.forwarded}
    if exchange.status is not None:
        more["http.response.status_code"] = exchange.status
    own = _derived(record.item, record.connection, str(exchange.n))
    # The witness notes when a request came in; how long the provider took is not in the evidence, so the span is a point in time.
    return _span("provider", str(exchange.tool), "server", root.trace, own, root.span, start, start, failed, more)


def _span(
    service: Service, tool: str, kind: Kind, trace: str, span: str, parent: str, start: int, end: int, error: str, more: Mapping[str, Value]
) -> Span:
    known: dict[str, Value] = {"mcp.method.name": "tools/call", "gen_ai.tool.name": tool, "gen_ai.operation.name": "execute_tool"}
    return Span(service, f"tools/call {tool}", kind, trace, span, parent, start, max(start, end), error, {**known, **more})


def _ids(traceparent: str) -> tuple[str, str] | None:
    """(trace id, parent id) of a W3C trace context, version 00."""
    parts = traceparent.split("-")
    return (parts[1], parts[2]) if len(parts) == 4 and len(parts[1]) == 32 and len(parts[2]) == 16 else None


def _derived(*names: str) -> str:
    """Always the same span id for the same event, so that evidence gives the same spans however often it is read."""
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _ns(at: str) -> int:
    moment = datetime.fromisoformat(at)
    return (moment - datetime.fromtimestamp(0, moment.tzinfo)) // timedelta(microseconds=1) * 1000
