"""What is tried on a leg, one probe a function: each answers observations, by id. The same code asks the provider and the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.transparency.client import CANCELLED, Agent, Reply
from harness.transparency.compare import listed, short_hash
from harness.transparency.lab import Lab, Seen
from harness.transparency.lab_tools import CONTENTS, WAITS, tag_of

CUSTOM_META = {"lab/correlation": "c-17"}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ODD: Mapping[str, Mapping[str, Any]] = {
    "odd_text": {"text": "line\u2028 one \U0001f9ed\x7f"},
    "large_integer": {"text": "x", "count": 12345678901234567890},
    "fraction": {"text": "x", "filters": {"score": 2.5}},
    "nulls_and_empties": {"text": "", "note": None, "filters": {"a": None, "b": [], "": {}}},
}
REACH_WITHIN_S = 4.0
MEANWHILE_S = 12.0
"""An ordinary call takes a fraction of a second through the slowest gateway, also on a busy machine."""
COUNTED_CALLS = 4
OVERLAPPING = 4
QUIET_S = 0.4
SETTLES_WITHIN_S = 6.0


@dataclass(frozen=True, slots=True)
class LegUnderGlass:
    """`name_of`: the provider's tool name to what this leg calls it; `own_of`: back again, for the names that are listed."""

    agent: Agent
    lab: Lab
    name_of: Callable[[str], str]
    own_of: Callable[[str], str]

    async def call(self, tool: str, arguments: Mapping[str, Any], **more: Any) -> Reply:
        return await self.agent.call(self.name_of(tool), arguments, **more)


Observed = dict[str, Any]
Probe = Callable[[LegUnderGlass], Awaitable[Observed]]


async def lists(leg: LegUnderGlass) -> Observed:
    pages = await leg.agent.list_tools()
    known = {tool["name"] for tool in leg.lab.tools}
    shown = [str(tool.get("name")) for tool in pages.tools]
    own = {name: leg.own_of(name) for name in shown if leg.own_of(name) in known}
    return {**listed(pages.tools, own, pages.count, f"incomplete: {pages.trouble}" if pages.trouble else ""), "list.cursors": pages.cursors}


async def server(leg: LegUnderGlass) -> Observed:
    said = leg.agent.server
    info = said.get("serverInfo") or (said.get("_meta") or {}).get("io.modelcontextprotocol/serverInfo") or {}
    return {
        "server.name": info.get("name"),
        "server.instructions": said.get("instructions"),
        "server.capabilities": sorted(said.get("capabilities") or {}),
    }


async def contents(leg: LegUnderGlass) -> Observed:
    found: Observed = {}
    for kind in CONTENTS:
        reply = await leg.call("show", {"kind": kind})
        blocks = (reply.result or {}).get("content")
        found[f"content.{kind}"] = blocks if blocks is not None else form_of(reply)
    return found


async def structured(leg: LegUnderGlass) -> Observed:
    reply = await leg.call("read_note", {"id": "1"})
    result = reply.result or {}
    tagged = await leg.call("tagged", {})
    return {
        "structured.content": result.get("structuredContent", form_of(reply) if reply.result is None else None),
        "structured.text": result.get("content"),
        "result.meta": (tagged.result or {}).get("_meta"),
        "result.keys": sorted(tagged.result or {}),
    }


async def errors(leg: LegUnderGlass) -> Observed:
    """How failures look, and whether a tool that nobody has reaches the provider."""
    found: Observed = {}
    for word, tool in (("tool_error", "fail_softly"), ("rpc_error", "fail_hard"), ("with_output_schema", "locked_memory")):
        found[f"error.{word}"] = form_of(await leg.call(tool, {}))
    found["result.without_structured"] = form_of(await leg.call("bare_memory", {}))
    mark = len(leg.lab.seen)
    found["error.unknown_tool"] = form_of(await leg.call("no_such_tool", {}))
    found["error.unknown_tool_dispatched"] = len(leg.lab.calls(mark))
    return found


async def arguments(leg: LegUnderGlass) -> Observed:
    """The provider accepts everything, so what does not reach it was stopped, and what reaches it otherwise was changed, on the way."""
    found: Observed = {}
    tried: Mapping[str, Mapping[str, Any]] = {
        "missing_required": {"count": 1},
        "wrong_type": {"text": "x", "count": "many"},
        "undeclared": {"text": "x", "surprise": True},
    }
    for word, given in {**tried, **ODD}.items():
        mark = len(leg.lab.seen)
        await leg.call("add_memory", given)
        found[f"arguments.{word}"] = _reached(leg.lab.calls(mark), given)
    return found


async def context(leg: LegUnderGlass) -> Observed:
    """Headers and metadata of the agent's that reach the provider, and whose credential does."""
    mark = len(leg.lab.seen)
    headers = {"x-lab-custom": "h-1", "traceparent": TRACE, "x-api-key": "synthetic-of-the-agent"}
    params = {"name": leg.name_of("tagged"), "arguments": {}, "_meta": {**CUSTOM_META, "traceparent": TRACE}}
    await leg.agent.ask("tools/call", params, headers=headers)
    calls = leg.lab.calls(mark)
    if not calls:
        return {"context.reached": False}
    seen, meta = calls[-1].headers, calls[-1].params.get("_meta") or {}
    return {
        "context.reached": True,
        "context.header_custom": seen.get("x-lab-custom") == "h-1",
        "context.header_key_of_agent": seen.get("x-api-key") == "synthetic-of-the-agent",
        "context.header_traceparent": _trace(seen.get("traceparent")),
        "context.meta_custom": meta.get("lab/correlation"),
        "context.meta_traceparent": _trace(meta.get("traceparent")),
        "context.protocol": seen.get("mcp-protocol-version"),
        "context.credential": "the provider's" if seen.get("authorization") == f"Bearer {leg.lab.credential}" else "another",
    }


async def progress(leg: LegUnderGlass) -> Observed:
    reply = await leg.call("count_up", {}, meta={"progressToken": "p-1"})
    steps = [note.get("params") or {} for note in reply.notes if note.get("method") == "notifications/progress"]
    return {
        "progress.steps": [[s.get("progress"), s.get("total"), s.get("message")] for s in steps],
        "progress.own_token": all(s.get("progressToken") == "p-1" for s in steps) if steps else None,
    }


async def cancellation(leg: LegUnderGlass) -> Observed:
    """A call that waits is cancelled; another is answered meanwhile. The provider says whether it was told, or hung up on, or neither."""
    if leg.agent.modern:
        return {}
    agent, mark = leg.agent, len(leg.lab.seen)
    number = agent.number()
    params = {"name": leg.name_of(WAITS), "arguments": {}}
    waiting = asyncio.create_task(agent.send(number, "tools/call", params, within_s=MEANWHILE_S + REACH_WITHIN_S * 2))
    reached = await leg.lab.until(lambda: any(_waits(one) for one in leg.lab.calls(mark)), REACH_WITHIN_S)
    meanwhile = await leg.call("tagged", {}, within_s=MEANWHILE_S)
    await agent.tell(CANCELLED, {"requestId": number, "reason": "enough"})
    await leg.lab.until(lambda: all(one.ended for one in leg.lab.calls(mark) if _waits(one)), REACH_WITHIN_S)
    ended = [one.ended for one in leg.lab.calls(mark) if _waits(one)]
    told = leg.lab.since(mark, CANCELLED)
    ids = {str(one.rpc_id) for one in leg.lab.calls(mark) if _waits(one)}
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    leg.lab.release()
    return {
        "cancellation.call_reached": reached,
        "cancellation.other_call_answered": meanwhile.result is not None,
        "cancellation.reached": bool(ended) and bool(ended[-1]),
        "cancellation.with_own_id": all(str(one.params.get("requestId")) in ids for one in told) if told else None,
        "cancellation.notices": len(told),
    }


async def requests(leg: LegUnderGlass) -> Observed:
    """Messages that reach the provider for each call of the agent's, by method, over several calls.

    Counted from quiet to quiet: what a gateway still sends for an earlier call (late, or to look its schema up afterwards) is not theirs.
    """
    await leg.lab.quiet(QUIET_S, SETTLES_WITHIN_S)
    mark = len(leg.lab.seen)
    for number in range(COUNTED_CALLS):
        await leg.call("tagged", {"mark": f"counted-{number}"})
    await leg.lab.quiet(QUIET_S, SETTLES_WITHIN_S)
    counts: dict[str, int] = {}
    for one in leg.lab.since(mark):
        counts[one.method] = counts.get(one.method, 0) + 1
    return {"requests.per_call": {method: round(count / COUNTED_CALLS, 2) for method, count in sorted(counts.items())}}


async def overlap(leg: LegUnderGlass) -> Observed:
    """Several calls at once, each with its mark: whose answer does each get?"""
    marks = [{"mark": f"overlapping-{number}"} for number in range(OVERLAPPING)]
    replies = await asyncio.gather(*(leg.call("tagged", mark) for mark in marks))
    return {"answers.owners": sorted({_owner(reply, tag_of(mark)) for reply, mark in zip(replies, marks, strict=True)})}


def _owner(reply: Reply, own: str) -> str:
    if reply.result is None:
        return "none"
    content = reply.result.get("content")
    texts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "own" if texts == [own] else "another's" if any(str(text).startswith("tagged") for text in texts) else "an error"


PROBES: tuple[Probe, ...] = (server, lists, contents, structured, errors, arguments, context, progress, requests, overlap, cancellation)
"""What waits or is abandoned comes last: nothing is counted in its wake."""


def form_of(reply: Reply) -> Any:
    """An answer's form without its id: the JSON-RPC error, or the result's error flag, text and structure; else why there is none."""
    if reply.error is not None:
        return {"rpc_error": {key: reply.error.get(key) for key in ("code", "message", "data")}}
    if reply.result is not None:
        content = reply.result.get("content")
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"] if isinstance(content, list) else []
        structured_part = {"structured": reply.result["structuredContent"]} if "structuredContent" in reply.result else {}
        return {"is_error": reply.result.get("isError", False), "text": texts, **structured_part}
    return {"trouble": reply.trouble}


def _reached(calls: list[Seen], given: Mapping[str, Any]) -> str:
    if not calls:
        return "stopped before the provider"
    found = calls[-1].params.get("arguments")
    if found == given and short_hash(found) == short_hash(dict(given)):
        return "reached the provider unchanged"
    return "reached the provider changed"


def _trace(value: Any) -> str:
    if not isinstance(value, str):
        return "none"
    if value == TRACE:
        return "as sent"
    return "continued" if value[3:35] == TRACE[3:35] else "another"


def _waits(one: Seen) -> bool:
    return one.method == "tools/call" and str(one.params.get("name")) == WAITS
