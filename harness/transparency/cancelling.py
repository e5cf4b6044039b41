"""Case b05: two providers behind one session, a call waiting at each under the same tool's name; one of the calls is cancelled, and it alone.

Where a session has one upstream, the same is tried on it with one waiting call, and the result says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError, Untestable
from harness.transparency.audit import word_of
from harness.transparency.beside import beside, reaches_several
from harness.transparency.client import CANCELLED, Agent, Reply
from harness.transparency.facts import CaseResult
from harness.transparency.lab import Lab, Seen
from harness.transparency.lab_tools import WAITS, named
from harness.transparency.measure import TENANT, Glass, must_live
from harness.transparency.probes import MEANWHILE_S, QUIET_S, REACH_WITHIN_S, SETTLES_WITHIN_S

SLOW, FAST = "mem0", "zep"
LOOKS = "get_user_summary"
NOBODYS = 987_654
"""No request of the session has this number."""
ANSWER_WITHIN_S = MEANWHILE_S + 4 * REACH_WITHIN_S
RECORD_READINGS = 4
RECORD_PAUSE_S = 0.4


@dataclass(frozen=True, slots=True)
class _Legs:
    """`slow` holds the call that is cancelled; `other` is the second upstream, with a call of its own that must go on (None: there is none)."""

    agent: Agent
    slow: Lab
    waits: str
    looks: str
    connection: str
    other: Lab | None = None
    other_waits: str = ""


async def b05(glass: Glass) -> CaseResult:
    if not reaches_several(glass):
        async with glass.through() as made:
            legs = _Legs(made, glass.lab, glass.shown(WAITS), glass.shown("tagged"), glass.seat.connection)
            return _told(await _tried(glass, legs), "a call that goes on beside it is answered (one upstream in a session)")
    try:
        async with beside(glass, {SLOW: named(WAITS, LOOKS), FAST: named(WAITS, LOOKS)}) as two:
            names = {name: two.shown(name, WAITS) for name in (SLOW, FAST)}
            legs = _Legs(two.agent, two.labs[SLOW], names[SLOW], two.shown(FAST, LOOKS), SLOW, two.labs[FAST], names[FAST])
            return _told(await _tried(glass, legs), "the other upstream is told nothing and answers meanwhile (two upstreams)")
    except HarnessError as error:
        must_live(glass)
        return CaseResult(case="b05", outcome="fail", what=f"two upstreams cannot be had: {error.what[:160]}")


async def _tried(glass: Glass, legs: _Legs) -> list[str] | None:
    """What went wrong; None when the call that was to be cancelled never reached its provider."""
    known = await _records(glass, legs)
    waiting = [_Waiting(legs.agent, legs.waits)]
    labs = [legs.slow] if legs.other is None else [legs.slow, legs.other]
    marks = {id(lab): len(lab.seen) for lab in labs}
    try:
        if not await _arrives(legs.slow, marks[id(legs.slow)]):
            return None
        troubles = []
        if legs.other is not None:
            waiting.append(_Waiting(legs.agent, legs.other_waits))
            if not await _arrives(legs.other, marks[id(legs.other)]):
                troubles.append("a call to the other upstream waits behind it")
        if (await legs.agent.call(legs.looks, {}, within_s=MEANWHILE_S)).result is None:
            troubles.append("another call was not answered meanwhile")
        troubles += await _cancelled(legs, waiting[0], marks)
        return troubles + await _recorded(glass, legs, known)
    finally:
        for lab in labs:
            lab.release()
        for one in waiting:
            await one.over()


class _Waiting:
    """A call under way, whose answer is read later, or given up."""

    def __init__(self, agent: Agent, name: str) -> None:
        self.number = agent.number()
        params = {"name": name, "arguments": {}}
        self.answer = asyncio.create_task(agent.send(self.number, "tools/call", params, within_s=ANSWER_WITHIN_S))

    async def over(self) -> None:
        self.answer.cancel()
        with suppress(asyncio.CancelledError):
            await self.answer


async def _arrives(lab: Lab, mark: int) -> bool:
    return await lab.until(lambda: bool(_held(lab, mark)), REACH_WITHIN_S)


def _held(lab: Lab, mark: int) -> list[Seen]:
    return [one for one in lab.calls(mark) if one.params.get("name") == WAITS]


async def _cancelled(legs: _Legs, waiting: _Waiting, marks: Mapping[int, int]) -> list[str]:
    mark = marks[id(legs.slow)]
    troubles = []
    await legs.agent.tell(CANCELLED, {"requestId": NOBODYS, "reason": "a number of nobody's"})
    if not legs.agent.modern:
        await legs.slow.quiet(QUIET_S, SETTLES_WITHIN_S)
        if any(one.ended for one in _held(legs.slow, mark)):
            troubles.append("a number that no request has cancelled a call")
        await legs.agent.tell(CANCELLED, {"requestId": waiting.number, "reason": "enough"})
    else:
        await waiting.over()  # at that version, hanging up is how an agent cancels
    await legs.slow.until(lambda: all(one.ended for one in _held(legs.slow, mark)), REACH_WITHIN_S)
    await legs.slow.quiet(QUIET_S, SETTLES_WITHIN_S)
    notices = [one for one in legs.slow.since(mark, CANCELLED) if one.params.get("requestId") != NOBODYS]  # passed on as it is, it is harmless
    troubles += of_the_provider(_held(legs.slow, mark), notices)
    if legs.other is not None:
        mark = marks[id(legs.other)]
        if legs.other.since(mark, CANCELLED) or any(one.ended for one in _held(legs.other, mark)):
            troubles.append("the other upstream's call was cancelled as well")
    if waiting.answer.done() and not waiting.answer.cancelled():
        troubles += of_the_agent(waiting.answer.result())
    return troubles


def of_the_provider(held: list[Seen], notices: list[Seen]) -> list[str]:
    """What the slow provider was told, pure: one notice at the most, with its own number, or a hang-up."""
    if not any(one.ended for one in held):
        return ["the call goes on at the provider: neither a notice nor a hang-up reached it"]
    own = {str(one.rpc_id) for one in held}
    troubles = [] if all(str(one.params.get("requestId")) in own for one in notices) else ["the notice names an id that the provider does not know"]
    return troubles + ([f"{len(notices)} notices came for one call"] if len(notices) > 1 else [])


def of_the_agent(reply: Reply) -> list[str]:
    """A call that its agent cancelled has no result any more; an error that ends the HTTP exchange is none."""
    return ["a result came for the cancelled call"] if reply.result is not None else []


async def _records(glass: Glass, legs: _Legs) -> list[Mapping[str, Any]] | None:
    try:
        records = await glass.gateway.audit(TENANT, None)
    except Untestable:
        return None
    mine = ("", "None", legs.connection)
    return [one for one in records if one.get("tool") in (WAITS, legs.waits) and str(one.get("connection")) in mine]


async def _recorded(glass: Glass, legs: _Legs, known: list[Mapping[str, Any]] | None) -> list[str]:
    """Where there is a record that a scenario could rest on, the call must stand in it as cancelled; some write a moment later."""
    if known is None or "audit" not in glass.seat.target.abilities:
        return []
    word = "none"
    for _ in range(RECORD_READINGS):
        records = await _records(glass, legs)
        word = word_of([one for one in records or () if one not in known])
        if word == "cancelled":
            return []
        await asyncio.sleep(RECORD_PAUSE_S)
    return [f"the record says {word} of the cancelled call"]


def _told(troubles: list[str] | None, fine: str) -> CaseResult:
    if troubles is None:
        return CaseResult(case="b05", outcome="untestable", what="the call that was to be cancelled never reached the provider")
    return CaseResult(case="b05", outcome="fail" if troubles else "pass", what="; ".join(troubles) or f"cancelled at its provider; {fine}")
