"""Lines up what the four witnesses say of one scenario: the agent saw, the operator did, the audit says, the provider received. Pure.

For readers, not for the verdict: the expectations judge, this shows where to look. What is at odds is stated from counts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harness.expect.view import Dispatch, View
from harness.model.evidence import ApprovalRecord, ClientExchange, ControlRecord, StepRecord
from harness.model.finding import Finding
from harness.model.timeline import MAX_ROWS, TimelineRow

LONGEST = 160
"""Characters of one line of a cell."""
_QUIET = frozenset({"phase", "catalog", "access", "health"})
"""Read-backs of the engine itself: no deed of an operator."""

Trail = Sequence[Mapping[str, Any]]


def timeline(view: View, findings: Sequence[Finding]) -> tuple[TimelineRow, ...]:
    """Rows in the order in which their events began; calls that no step asked for stand last."""
    named, told = _by_step(findings), _Told(view)
    rows = sorted([*_calls(view, told, named), *_deeds(view, told, named)], key=lambda pair: pair[0])
    found = [row for _, row in rows] + list(_unasked(view, told))
    if len(found) > MAX_ROWS:
        left = len(found) - MAX_ROWS + 1
        found = [*found[: MAX_ROWS - 1], TimelineRow(step="", what=f"{left} more; all of them are in evidence.jsonl")]
    return tuple(found)


def _by_step(findings: Sequence[Finding]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for finding in findings:
        if finding.step and finding.severity in ("fail", "error", "drift"):
            found[finding.step] = tuple(dict.fromkeys((*found.get(finding.step, ()), finding.id)))
    return found


class _Told:
    """Which call each trail of the audit tells of, and which decision its second half belongs to."""

    def __init__(self, view: View) -> None:
        everyone = [r for r in view.records if isinstance(r, ClientExchange)]
        self.clients = sorted(everyone, key=lambda client: client.started_seq)
        self.decisions = {str(r.approval.get("id", "")): r for r in view.records if isinstance(r, ApprovalRecord)}
        self.of: dict[int, list[Trail]] = {id(client): [] for client in self.clients}
        free = {key: trail for key, trail in view.trails.items() if trail[0].get("tool")}
        calls = [client for client in self.clients if client.method == "tools/call"]
        for fits in (_names, _traces, _equals):  # the surest tie first; what one call owns is no other's
            for client in calls:
                for key in [key for key, trail in free.items() if fits(client, key, trail)]:
                    self.of[id(client)].append(free.pop(key))
        self.unasked = list(free.values())

    def parts(self, trail: Trail) -> tuple[Trail, Trail]:
        """What belongs to the call, and what to the decision on it; everything to the call where nobody is known to have decided."""
        known = any(str(record.get("approval") or "") in self.decisions for record in trail)
        at = next((n for n, record in enumerate(trail) if record.get("event") == "approval_resolved"), len(trail)) if known else len(trail)
        return trail[:at], trail[at:]

    def decided(self, approval: str) -> tuple[ClientExchange | None, Trail]:
        """The call that an approval was for, and its trail."""
        for client in self.clients:
            for trail in self.of[id(client)]:
                if any(record.get("event") == "approval_resolved" and record.get("approval") == approval for record in trail):
                    return client, trail
        return None, ()

    def later(self, dispatch: Dispatch) -> bool:
        """Whether it left while a decision was carried out, and so belongs to that."""
        return any(record.seq < dispatch.exchange.started_seq < record.ended_seq for record in self.decisions.values())


def _names(client: ClientExchange, key: str, trail: Trail) -> bool:
    return client.said.get("invocation") == key


def _traces(client: ClientExchange, key: str, trail: Trail) -> bool:
    return bool(client.traceparent) and trail[0].get("traceparent") == client.traceparent


def _equals(client: ClientExchange, key: str, trail: Trail) -> bool:
    return trail[0].get("tool") == client.tool and trail[0].get("arguments_digest") == client.arguments_digest


def _calls(view: View, told: _Told, named: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[int, TimelineRow]]:
    """One row per attempt of an agent's call. What an approval let happen stands in the operator's row."""
    for client in told.clients:
        trails = told.of[id(client)]
        mine = [record for trail in trails for record in told.parts(trail)[0]]
        dispatches = [d for d in view.every_dispatch if d.caller is client and not told.later(d)]
        yield (
            client.started_seq,
            TimelineRow(
                step=client.step,
                attempt=client.attempt,
                cleanup=client.phase != "steps",
                what=_cut(f"{client.method} {client.connection}.{client.tool}" if client.tool else f"{client.method} {client.connection}"),
                agent=(_saw(client),),
                audit=tuple(_record(record) for record in mine),
                provider=tuple(_received(d) for d in dispatches),
                at_odds=tuple(_odds(view, client, [record for trail in trails for record in trail], mine, dispatches)),
                findings=named.get(client.step, ()),
            ),
        )


def _deeds(view: View, told: _Told, named: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[int, TimelineRow]]:
    """Decisions on approvals with what they set off, and every other change of the operator's."""
    verbs = {r.step: r.verb for r in view.records if isinstance(r, StepRecord)}
    for record in view.records:
        if isinstance(record, ApprovalRecord):
            yield record.seq, _decision(view, told, record, named)
        elif isinstance(record, ControlRecord) and record.action not in _QUIET and record.phase in ("steps", "cleanup"):
            yield (
                record.seq,
                TimelineRow(
                    step=record.step,
                    cleanup=record.phase == "cleanup",
                    what=_cut(f"{verbs.get(record.step) or record.action} {record.connection}".strip()),
                    operator=(_cut(f"{record.action}: {_short(record.data)}"),),
                    findings=named.get(record.step, ()),
                ),
            )


def _decision(view: View, told: _Told, record: ApprovalRecord, named: Mapping[str, tuple[str, ...]]) -> TimelineRow:
    caller, trail = told.decided(str(record.approval.get("id", "")))
    after = told.parts(trail)[1]
    dispatches = [d for d in view.every_dispatch if d.caller is caller and caller and record.seq < d.exchange.started_seq < record.ended_seq]
    ended = f"refused: {_short(record.error)}" if record.error else str(record.approval.get("state", ""))
    return TimelineRow(
        step=record.step,
        cleanup=record.phase != "steps",
        what=_cut(f"{record.decision} {caller.connection}.{caller.tool}" if caller else record.decision),
        operator=(_cut(f"{record.decision} by {record.approval.get('decided_by') or 'operator'}: {ended}"),),
        audit=tuple(_record(entry) for entry in after),
        provider=tuple(_received(d) for d in dispatches),
        at_odds=tuple(_counted(view, caller.connection, after, dispatches)) if caller is not None else (),
        findings=named.get(record.step, ()),
    )


def _unasked(view: View, told: _Told) -> Iterator[TimelineRow]:
    for dispatch in view.every_dispatch:
        if dispatch.caller is None:
            yield TimelineRow(
                step="",
                what=_cut(f"tools/call {dispatch.connection}.{dispatch.exchange.tool}"),
                provider=(_received(dispatch),),
                at_odds=("the provider received a call that no step made",),
            )
    for trail in told.unasked:
        yield TimelineRow(
            step="",
            what=_cut(f"tools/call {trail[0].get('connection')}.{trail[0].get('tool')}"),
            audit=tuple(_record(record) for record in trail),
            at_odds=("the audit tells of a call that no step made",),
        )


def _odds(view: View, client: ClientExchange, trail: Trail, told: Trail, received: Sequence[Dispatch]) -> Iterator[str]:
    """Contradictions between the three who watched this call; nothing where the target keeps no audit. `told` is this row's part of the trail."""
    if client.method != "tools/call" or (view.item is not None and view.item.two_witness):
        return
    if not trail:
        if received or _agent_succeeded(client):  # else it never got as far as the gateway's log: a wrong token, a broken connection
            yield "the audit says nothing of this call"
        return
    yield from _counted(view, client.connection, told, received)
    succeeded = any(record.get("event") == "call_completed" for record in trail)
    answered = [d.exchange for d in view.every_dispatch if d.caller is client and d.exchange.status is not None]
    if succeeded and answered and not any(_well(exchange) for exchange in answered):
        yield "the audit says success, the provider did not"
    if _agent_succeeded(client) and not succeeded and not any(record.get("event") == "call_replayed" for record in trail):
        yield "the agent was told of a success, the audit knows of none"


def _counted(view: View, connection: str, told: Trail, received: Sequence[Dispatch]) -> Iterator[str]:
    """Starts that the audit tells against calls that the provider received meanwhile; a bridge makes as many requests as it likes once it started."""
    started = sum(1 for record in told if record.get("event") == "call_started")
    asked = len(received)
    if view.operations(connection):
        asked = started if bool(started) == bool(asked) else asked
    if started != asked:
        yield f"by the audit the call started here {_times(started)}, the provider received it {_times(len(received))}"


def _well(exchange: Any) -> bool:
    return 200 <= (exchange.status or 0) < 300 and not exchange.is_error and exchange.rpc_error_code is None


def _agent_succeeded(client: ClientExchange) -> bool:
    return isinstance(client.result, dict) and not client.result.get("isError") and not client.said.get("approval")


def _times(count: int) -> str:
    return {0: "never", 1: "once"}.get(count, f"{count} times")


def _saw(client: ClientExchange) -> str:
    said = str(client.said.get("outcome") or "")
    reason = f" ({client.said['reason']})" if client.said.get("reason") else ""
    if client.transport_error:
        return _cut(f"no answer: {client.transport_error}")
    if client.error is not None:
        return _cut(f"error {client.error.code}: {client.error.message}{reason}")
    if client.method == "tools/list":
        tools = client.result.get("tools") if isinstance(client.result, dict) else None
        return f"{len(tools)} tools" if isinstance(tools, list) else "no list"
    wrong = isinstance(client.result, dict) and client.result.get("isError")
    return _cut(f"{said or ('isError' if wrong else 'result')}{reason}: {_text(client.result)}")


def _text(result: Any) -> str:
    """The first words of an answer, as an agent reads them."""
    content = result.get("content") if isinstance(result, dict) else None
    texts = [str(c.get("text", "")) for c in content if isinstance(c, dict) and c.get("type") == "text"] if isinstance(content, list) else []
    return " ".join(texts) if texts else _short(result)


def _record(record: Mapping[str, Any]) -> str:
    return _cut(f"{record.get('event')} {record.get('outcome')} {record.get('reason') or ''}".strip())


def _received(dispatch: Dispatch) -> str:
    exchange = dispatch.exchange
    end = "in flight" if exchange.status is None else f"{exchange.status}"
    wrong = " isError" if exchange.is_error else f" error {exchange.rpc_error_code}" if exchange.rpc_error_code is not None else ""
    digest = f" arguments {exchange.arguments_digest[:8]}…" if exchange.arguments_digest else ""
    fault = f" (fault: {exchange.fault})" if exchange.fault else ""
    return _cut(f"{exchange.tool or exchange.rpc_method}{digest} → {end}{wrong}{fault}")


def _short(value: Any) -> str:
    """Scalars of a small object, in words; enough to recognise it by."""
    if isinstance(value, Mapping):
        plain = (f"{key} {item}" for key, item in value.items() if isinstance(item, (str, int, float, bool)) and item != "")
        return ", ".join(plain)[: 2 * LONGEST]
    return "" if value is None else str(value)[: 2 * LONGEST]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
