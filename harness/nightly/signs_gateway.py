"""What speaks for a defect of the gateway: it contradicts what the tap saw, or did what it must never do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from harness.model.cause import Sign
from harness.model.evidence import ApprovalRecord, ClientExchange
from harness.model.exchange import ProviderExchange
from harness.nightly.case import Case, at_tap, essence

LOG = frozenset({"audit-altered", "audit-sequence-broken", "audit-chain-broken", "audit-unattributed", "audit-incomplete"})
OWN_WORD = LOG | {"name-unmapped", "access-not-restored", "no-secret"}
"""Findings that no provider can cause."""
PROMISED_TIMEOUT_MS = 10_000
HASTE = 0.8
"""A timeout before this share of the promised time is the gateway's impatience."""
CONTROL = frozenset({"pending", "denied", "quarantined", "access", "permissions", "relayed", "sandboxed"})
"""Kinds of expectation that judge the gateway's own control plane."""


def contradictions(case: Case) -> Iterator[Sign]:
    """Strong: each alone is enough, whatever else happened."""
    for finding in case.findings:
        if finding.id in OWN_WORD or (finding.id == "witness-blind" and isinstance(finding.actual, int) and case.view.exchanges):
            yield sign(finding.message, f"finding {finding.id}")
        elif finding.id.startswith("risk-") and list_is_agreed(case):
            # What the provider itself says of a tool raises our own opinion too, so a lower one is the gateway's.
            yield sign(f"its risk class is not ours: {finding.message}", f"finding {finding.id}")
    yield from altered_answers(case)
    yield from invented_calls(case)
    yield from told_otherwise(case)
    yield from other_catalog(case)
    yield from died(case)


def list_is_agreed(case: Case) -> bool:
    """Nothing drifted but risk classes, which are the gateway's word and not the provider's."""
    return all("risk" in f.id for f in case.findings if f.severity == "drift")


def altered_answers(case: Case) -> Iterator[Sign]:
    """What the agent got, or what the provider was asked, is not what the other side sent."""
    for call, exchanges in case.calls():
        if case.view.operations(call.connection) or not exchanges:
            continue
        last = exchanges[-1]
        if call.arguments_digest and last.arguments_digest and call.arguments_digest != last.arguments_digest:
            yield sign("the provider was asked with other arguments than the agent gave", at_tap(call.connection, last))
        if call.said.get("origin", "provider") != "provider" or last.result is None or call.result is None or len(exchanges) != 1:
            continue
        if last.outcome == "answered" and last.status == 200 and essence(call.result) != essence(last.result):
            yield sign("the agent was given another answer than the provider's", at_tap(call.connection, last))


def invented_calls(case: Case) -> Iterator[Sign]:
    """Dispatches that nobody asked for, that came twice, or that were held or refused."""
    allowed: Counter[int] = Counter()
    approved = {str(r.approval.get("id")) for r in case.records if isinstance(r, ApprovalRecord) and r.decision == "approve"}
    for dispatch in case.view.every_dispatch:
        where = at_tap(dispatch.connection, dispatch.exchange)
        caller = dispatch.caller
        if caller is None:
            yield sign("a call reached the provider that no agent made", where)
            continue
        allowed[id(caller)] += 1
        if allowed[id(caller)] > 1:
            yield sign("one call reached the provider more than once", where)
        said = str(caller.said.get("outcome", ""))
        if said == "denied" or (said == "pending" and (str(caller.said.get("approval")) not in approved or early(case, caller, dispatch.exchange))):
            yield sign(f"a call that was {said} reached the provider", where)


def early(case: Case, caller: ClientExchange, exchange: ProviderExchange) -> bool:
    """It left before anybody decided."""
    decided = [r.seq for r in case.records if isinstance(r, ApprovalRecord) and r.approval.get("id") == caller.said.get("approval")]
    return not decided or exchange.started_seq < min(decided)


def told_otherwise(case: Case) -> Iterator[Sign]:
    """The audit, or the word with which the agent was answered, is at odds with what the tap saw of the same call."""
    for call, exchanges in case.calls():
        if len(exchanges) != 1:
            if not exchanges and claims_provider(call):
                yield sign("the agent was given an answer as the provider's, and nothing reached the provider", f"call {call.step or call.tool}")
            continue
        exchange = exchanges[0]
        trail = case.view.trail_of(call)
        ends = [r for r in trail if r.get("event") in ("call_completed", "call_failed")]
        good = went_well(exchange, bridge=case.view.operations(call.connection))
        for record in ends:
            where = f"audit {record.get('invocation')} and {at_tap(call.connection, exchange)}"
            succeeded = record.get("outcome") == "success"
            if good is False and succeeded:
                yield sign("a call that failed at the provider is audited as a success", where)
            if good is True and not succeeded:
                yield sign(f"a call that the provider answered well is audited as {record.get('outcome')} ({record.get('reason')})", where)
            yield from hasty(record, where)
        if not ends and exchange.outcome == "answered" and "audit" not in case.view_lacking:
            yield sign("the audit has no end of a call that the provider answered", at_tap(call.connection, exchange))


def claims_provider(call: ClientExchange) -> bool:
    return call.result is not None and call.said.get("origin") == "provider" and call.said.get("outcome") == "success"


def went_well(exchange: ProviderExchange, *, bridge: bool) -> bool | None:
    """Whether the provider did what it was asked, as far as the wire tells; None when it cannot be told."""
    if exchange.outcome in (None, "client_gone", "unmounted"):
        return None
    if exchange.outcome != "answered" or exchange.status is None or exchange.status >= 400:
        return False
    if bridge:
        return True if exchange.result is not None else None
    if exchange.is_error is True or exchange.rpc_error_code is not None:
        return False
    return True if exchange.is_error is False and exchange.result_digest is not None else None


def hasty(record: Mapping[str, Any], where: str) -> Iterator[Sign]:
    took = (record.get("details") or {}).get("latency_ms")
    if record.get("reason") == "tool_timeout" and isinstance(took, int | float) and took < PROMISED_TIMEOUT_MS * HASTE:
        yield sign(f"it gave up after {took / 1000:.1f} s, and promises {PROMISED_TIMEOUT_MS / 1000:.0f} s", where)


def other_catalog(case: Case) -> Iterator[Sign]:
    """The gateway lists other tools, or other schemas, than the provider listed last."""
    for connection in case.view.providers:
        catalog = case.view.catalog(connection)
        listed = last_list(case, connection)
        if catalog is None or listed is None:
            continue
        ours = {t.get("name"): t for t in catalog.data.get("tools", []) if isinstance(t, dict) and t.get("status", "active") != "removed"}
        for name in sorted(set(listed) ^ set(ours), key=str):
            who = "the provider lists it and the gateway does not" if name in listed else "the gateway lists it and the provider does not"
            yield sign(f"tool {name}: {who}", f"catalog of {connection}")
        for name in sorted(set(listed) & set(ours), key=str):
            if ours[name].get("input_schema") != listed[name].get("inputSchema"):
                yield sign(f"tool {name}: its input schema is not the one that the provider listed", f"catalog of {connection}")


def last_list(case: Case, connection: str) -> Mapping[str, Mapping[str, Any]] | None:
    """The provider's tools by name, as the tap saw them in the newest whole list; None when they were not seen, or too large to be kept."""
    tools: dict[str, Mapping[str, Any]] = {}
    whole: Mapping[str, Mapping[str, Any]] | None = None
    for name, exchange in case.view.exchanges:
        if name != connection or exchange.rpc_method != "tools/list" or exchange.outcome != "answered":
            continue
        result = exchange.result
        if not isinstance(result, Mapping) or not isinstance(result.get("tools"), list):
            return probed(case, connection)
        tools.update({str(t.get("name")): t for t in result["tools"] if isinstance(t, Mapping)})
        if result.get("nextCursor") is None:
            whole, tools = tools, {}
    return whole if whole is not None else probed(case, connection)


def probed(case: Case, connection: str) -> Mapping[str, Mapping[str, Any]] | None:
    """The list that the harness got itself, for lists that the tap keeps the digest of only."""
    probe = case.probe_of(connection)
    if probe is None or probe.capture is None or not probe.capture.complete:
        return None
    return {tool.name: tool.wire for tool in probe.capture.tools}


def died(case: Case) -> Iterator[Sign]:
    for text in (case.trouble.what if case.trouble else "", case.broken_off, *(t.what for t in case.step_troubles)):
        if "the gateway did not answer" in text or "the gateway ended with code" in text or "the gateway was not ready" in text:
            yield sign(text.splitlines()[0][:200], "the gateway's process")
            return


def control_plane(case: Case) -> Iterator[Sign]:
    """Weak: what only the gateway decides came out wrong, and nothing about the provider explains it."""
    for finding in case.findings:
        if case.words.get(finding.expectation) in CONTROL:
            yield sign(finding.message, f"finding {finding.id} at {finding.expectation}")
    if case.trouble is not None and case.trouble.type in ("ContractBroken", "OperatorRefused"):
        yield sign(case.trouble.what.splitlines()[0][:200], "operator API")


def sign(what: str, where: str) -> Sign:
    return Sign(speaks_for="gateway_defect", what=what, where=where)
