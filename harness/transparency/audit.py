"""Audit honesty: six endings of a call, each as the agent saw it, as the provider's witness saw it, and as the gateway's record has it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from harness.errors import HarnessError, Untestable
from harness.tap.fault import Fault, Hang, Status
from harness.transparency.client import Agent, Reply
from harness.transparency.facts import Entry, Judgement
from harness.transparency.measure import TENANT, Glass
from harness.transparency.probes import form_of

Case = Literal["ok", "tool_error", "denied", "pending", "upstream_error", "timeout"]

TOOL: Mapping[Case, str] = {
    "ok": "tagged",
    "tool_error": "fail_softly",
    "denied": "delete_everything",
    "pending": "add_memory",
    "upstream_error": "show",
    "timeout": "read_note",
}
"""One tool each, so that a record belongs to its case whatever else the gateway calls it by."""
HONEST: Mapping[Case, frozenset[str]] = {
    "ok": frozenset({"ok"}),
    "tool_error": frozenset({"tool_error"}),
    "denied": frozenset({"denied"}),
    "pending": frozenset({"pending"}),
    "upstream_error": frozenset({"upstream_error"}),
    "timeout": frozenset({"timeout", "cancelled"}),
}
"""What a record may call each. An agent that leaves before the gateway's own time is over has cancelled."""
DISPATCHED: Mapping[Case, bool] = {"ok": True, "tool_error": True, "denied": False, "pending": False, "upstream_error": True, "timeout": True}
NEEDS: Mapping[Case, str] = {"denied": "permissions", "pending": "approvals"}
LEAVES_AFTER_S = 4.0
ANSWERS_WITHIN_S = 10.0
READINGS = 4
PAUSE_S = 0.4
MOVED_S = 120.0
UPSTREAM_REASONS = ("remote_mcp", "mcp_remote")


async def audit_honesty(glass: Glass) -> tuple[Entry, ...]:
    """Every case, in turn. What the gateway cannot be brought to is red as untestable, by the ability that is lacking."""
    return tuple([await _case(glass, case) for case in TOOL])


async def _case(glass: Glass, case: Case) -> Entry:
    lacking = NEEDS.get(case)
    if lacking is not None and lacking not in glass.seat.target.abilities:
        return Entry(case=case, agent="-", witness="-", record="-", counts="fault", why=f"untestable: {lacking}")
    tool, tenant = TOOL[case], TENANT
    fault = _fault(case, tool)
    if fault is not None:
        glass.mount.faults.append(fault)
    try:
        if lacking is not None:
            word = "off" if case == "denied" else "ask_first"
            await glass.gateway.set_permissions(tenant, glass.seat.connection, {tool: word})
        known = await _records(glass, tool)
        mark = len(glass.mount.dispatches())
        async with glass.through() as agent:
            reply = await _called(glass, agent, case, tool)
            listed = await _still_listed(glass, agent, tool) if case == "denied" else ""
        witnessed = sum(seen.tool == tool for seen in glass.mount.dispatches()[mark:])
    finally:
        glass.mount.faults.clear()
    told = _agent_word(reply, glass) + listed
    return judged(case, told, witnessed, await _recorded(glass, case, known))


def _fault(case: Case, tool: str) -> Fault | None:
    if case == "upstream_error":
        return Status(code=503, tool=tool)
    return Hang(tool=tool, times=1) if case == "timeout" else None


async def _called(glass: Glass, agent: Agent, case: Case, tool: str) -> Reply:
    params: dict[str, Any] = {"text": "synthetic"} if tool == "add_memory" else {}
    if case != "timeout":
        return await agent.call(glass.shown(tool), params, within_s=ANSWERS_WITHIN_S)
    before = len(glass.mount.dispatches(tool))
    waiting = asyncio.create_task(agent.call(glass.shown(tool), params, within_s=LEAVES_AFTER_S))
    if "test_clock" in glass.seat.target.abilities and glass.seat.still:
        with suppress(HarnessError):
            await glass.mount.wait_for(lambda seen: sum(one.tool == tool for one in seen) > before, LEAVES_AFTER_S)
            await glass.gateway.advance(MOVED_S)
    return await waiting


async def _still_listed(glass: Glass, agent: Agent, tool: str) -> str:
    """Whether a tool that is off is shown all the same; both are honest."""
    names = [str(each.get("name")) for each in (await agent.list_tools()).tools]
    return ", still listed" if glass.shown(tool) in names else ", not listed"


async def _records(glass: Glass, tool: str) -> list[Mapping[str, Any]] | None:
    """Of this tool; None where the gateway has no record that can be read."""
    try:
        records = await glass.gateway.audit(TENANT, None)
    except Untestable:
        return None
    return [record for record in records if record.get("tool") in (tool, glass.shown(tool))]


async def _recorded(glass: Glass, case: Case, known: list[Mapping[str, Any]] | None) -> str:
    """The last word of its record about this one call, whatever stood there before; `untestable` where it has no record that can be read.

    Some write a moment after they answer, so what is not yet as it should be is read again, a few times.
    """
    word = "untestable"
    for _ in range(READINGS):
        records = await _records(glass, TOOL[case])
        if records is None or known is None:
            return "untestable"
        word = word_of([record for record in records if record not in known])
        if word in HONEST[case]:
            return word
        await asyncio.sleep(PAUSE_S)
    return word


def word_of(records: Sequence[Mapping[str, Any]]) -> str:
    """How a call ended, by its records in the audit's words."""
    if not records:
        return "none"
    last = max(records, key=lambda record: int(record.get("seq", 0)))
    event, outcome, reason = (str(last.get(key)) for key in ("event", "outcome", "reason"))
    if event == "call_completed":
        return "ok" if outcome == "success" else outcome
    if event == "call_failed" and outcome == "failure":
        return "upstream_error" if reason.startswith(UPSTREAM_REASONS) else reason
    if event == "call_failed":
        return outcome
    if event == "call_denied" or outcome == "denied":
        return "denied"
    if event == "call_started":
        return "started"
    return outcome


def _agent_word(reply: Reply, glass: Glass) -> str:
    said = glass.gateway.said(reply.result, reply.error)
    if said.get("outcome") in ("pending", "denied"):
        return str(said["outcome"])
    form = form_of(reply)
    if "trouble" in form:
        return "no answer" if reply.trouble.startswith("no answer") else reply.trouble
    if "rpc_error" in form:
        return f"JSON-RPC error {form['rpc_error']['code']}"
    return "isError" if form["is_error"] else "success"


def judged(case: Case, agent: str, witnessed: int, record: str) -> Entry:
    """Pure. A case is honest when the record has its word, and the witness saw the call exactly if it was let through."""
    witness = f"{witnessed} dispatched"
    wanted = sorted(HONEST[case])
    counts: Judgement = "fault"
    if record == "untestable":
        why = "untestable: audit"
    elif bool(witnessed) is not DISPATCHED[case]:
        why = "the provider was asked although it should not" if witnessed else "the provider was never asked"
    elif case != "ok" and agent == "success":
        why = "the agent was told of a success"
    elif record == "none":
        why = "no record of the call"
    elif record not in wanted:
        why = f"the record says {record}, not {' or '.join(wanted)}"
    else:
        counts, why = "same", "agent, witness and record agree"
    return Entry(case=case, agent=agent, witness=witness, record=record, counts=counts, why=why)
