"""Spans as one OTLP/JSON request: what `/v1/traces` of a collector takes, and what its file receiver reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.otel.spans import Span, Value

KINDS = {"server": 2, "client": 3}
ERROR = 2
SERVICES = ("harness", "gateway", "provider")


def document(spans: Sequence[Span], run: str, version: str) -> bytes:
    """One `ExportTraceServiceRequest`, a resource per witness; a single line, so that several make a JSON Lines file."""
    scope = {"name": "harness", "version": version}
    found = [
        {
            "resource": {"attributes": _attributes({"service.name": service, "service.namespace": "acceptance", "harness.run": run})},
            "scopeSpans": [{"scope": scope, "spans": [_span(span) for span in spans if span.service == service]}],
        }
        for service in SERVICES
        if any(span.service == service for span in spans)
    ]
    return json.dumps({"resourceSpans": found}, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"


def _span(span: Span) -> dict[str, Any]:
    said: dict[str, Any] = {
        "traceId": span.trace,
        "spanId": span.span,
        "name": span.name,
        "kind": KINDS[span.kind],
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.parent:
        said["parentSpanId"] = span.parent
    if span.error:
        said["status"] = {"code": ERROR, "message": span.error[:200]}
    return said


def _attributes(values: Mapping[str, Value]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in _in_order(values.items())]


def _in_order(pairs: Iterable[tuple[str, Value]]) -> list[tuple[str, Value]]:
    return sorted(pairs)


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}
