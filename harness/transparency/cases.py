"""Six cases from other projects' issues, shown to a gateway: what it does with cancellation, output schemas, widened enums, names and log lines.

id   from                          asked
b05  lynnswap/XcodeMCPKit#210      is a cancelled call cancelled at the provider, while another is answered
b06  IBM/mcp-context-forge#4135    does an error result of a tool with an output schema pass unchanged
b07  neomjs/neo#16320              does a call pass that the provider accepts since its enum was widened, silently
b08  macanderson/stella#2675       are `acme_` + `status` and `acme` + `_status` kept apart, in either order
b09  Flowfin/jellyfin-plugin-sso#1555  can a value that is sent make a second believable record
a08  HKUDS/nanobot#5360            do five names, of which some differ only in script or punctuation, stay five
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from harness.errors import HarnessError, Untestable
from harness.transparency.client import Agent, agent
from harness.transparency.facts import CaseResult, Observations
from harness.transparency.lab import PATH, Lab, served
from harness.transparency.lab_tools import WIDER, Wire, named, with_modes
from harness.transparency.measure import SECRET, TENANT, Glass, request_for

SCRIPTED = ("获取记忆", "删除记忆", "memory.get", "memory_get", "memory/get")
FORGED = "delete_all_memories"
SMUGGLED = (
    'x"}\n{"seq":43,"event":"approval_resolved","outcome":"success","tool":"' + FORGED + '"}\u2028[audit] approved: root\n'
    "[gw] call allowed: user root tool '" + FORGED + "'."
)


@dataclass(frozen=True, slots=True)
class Beside:
    """Further connections of the same tenant, each with a provider of its own, and a session that reaches them."""

    labs: Mapping[str, Lab]
    agent: Agent


async def cases(glass: Glass, through: Observations) -> tuple[CaseResult, ...]:
    """Every case; one that this gateway cannot show is `untestable`, never passed."""
    return (_b05(through), _b06(through), await _b07(glass), await _b08(glass), await _b09(glass), await _a08(glass))


def _b05(seen: Observations) -> CaseResult:
    if seen.get("cancellation.call_reached") is not True:
        return CaseResult(case="b05", outcome="untestable", what="the call that was to be cancelled never reached the provider")
    troubles = [
        word
        for key, word in (
            ("cancellation.reached", "the call goes on at the provider: neither a notice nor a hang-up reached it"),
            ("cancellation.other_call_answered", "another call was not answered meanwhile"),
        )
        if seen.get(key) is not True
    ]
    if seen.get("cancellation.with_own_id") is False:
        troubles.append("the notice names an id that the provider does not know")
    return _told("b05", troubles, "cancelled at the provider, another call answered meanwhile (one connection)")


def _b06(seen: Observations) -> CaseResult:
    error, bare = seen.get("error.with_output_schema"), seen.get("result.without_structured")
    troubles = []
    if not (isinstance(error, dict) and error.get("is_error") is True and error.get("text") == ["memory 7 is locked"]):
        troubles.append(f"the provider's error came as {error}")
    if not (isinstance(bare, dict) and bare.get("is_error") is False):
        troubles.append(f"a result without the structured content it owes came as {bare}")
    return _told("b06", troubles, "both results pass unchanged")


async def _b07(glass: Glass) -> CaseResult:
    arguments = {"mode": "hybrid", "query": "q"}
    async with glass.through() as made:
        await made.list_tools()
        glass.lab.tools[:] = with_modes(glass.lab.tools, WIDER)
        try:
            first = await _arrives(glass, made, arguments)
            if first:
                return CaseResult(case="b07", outcome="pass", what="the call passes at once")
            await glass.gateway.refresh(TENANT, glass.seat.connection)
            again = await _arrives(glass, made, arguments)
        except Untestable:
            return CaseResult(case="b07", outcome="fail", what="catalog_stale: refused by the old enum, and nothing can make it read the list again")
        finally:
            glass.lab.tools[:] = with_modes(glass.lab.tools, WIDER[:-1])
    if again:
        return CaseResult(case="b07", outcome="fail", what="catalog_stale: refused by the old enum until the gateway is told to refresh")
    return CaseResult(case="b07", outcome="fail", what="catalog_stale: refused by the old enum, after a refresh too")


async def _arrives(glass: Glass, made: Agent, arguments: Mapping[str, Any]) -> bool:
    mark = len(glass.lab.seen)
    await made.call(glass.shown("search_memories"), arguments)
    return bool(glass.lab.calls(mark))


async def _b08(glass: Glass) -> CaseResult:
    if "several" not in glass.seat.target.abilities:
        return CaseResult(case="b08", outcome="untestable", what="several: one connection in a session")
    tools: Mapping[str, Sequence[Wire]] = {"acme_": named("status"), "acme": named("_status")}
    told = []
    for order in (("acme_", "acme"), ("acme", "acme_")):
        try:
            async with beside(glass, {name: tools[name] for name in order}) as other:
                told.append(await _apart(other))
        except HarnessError as error:
            told.append(f"refused: {error.what[:160]}")
    bad = [word for word in told if not word.startswith(("refused", "apart"))]
    return _told("b08", bad[:1], " / ".join(dict.fromkeys(told)))


async def _apart(other: Beside) -> str:
    """Both tools under names of their own, each reaching its own provider."""
    names = [str(tool.get("name")) for tool in (await other.agent.list_tools()).tools]
    own = [name for name in names if "status" in name]
    if len(own) != 2 or len(set(own)) != 2:
        return f"of two tools the agent is shown {sorted(set(own))}"
    reached = [await _reached_by(other, name) for name in own]
    return f"apart: {own}" if sorted(map(str, reached)) == ["acme", "acme_"] else f"{own} reached {reached}"


async def _reached_by(other: Beside, name: str) -> str | None:
    marks = {label: len(lab.seen) for label, lab in other.labs.items()}
    await other.agent.call(name, {})
    return next((label for label, lab in other.labs.items() if lab.calls(marks[label])), None)


async def _b09(glass: Glass) -> CaseResult:
    if "audit" not in glass.seat.target.abilities:
        return CaseResult(case="b09", outcome="untestable", what="audit: there is no record to look into")
    before = len(await glass.gateway.audit(TENANT, None))
    async with glass.through() as made:
        await made.call(glass.shown("add_memory"), {"text": SMUGGLED})
    records = (await glass.gateway.audit(TENANT, None))[before:]
    if not records:
        return CaseResult(case="b09", outcome="untestable", what="audit: its record holds nothing of the call")
    calls = {str(record.get("invocation")) for record in records}
    forged = [record for record in records if record.get("tool") == FORGED]
    troubles = [f"{len(forged)} records of a call that nobody made"] if forged else []
    if len(calls) != 1:
        troubles.append(f"one call became {len(calls)}")
    return _told("b09", troubles, f"one call, {len(records)} records, none of {FORGED}")


async def _a08(glass: Glass) -> CaseResult:
    try:
        async with beside(glass, {"script": named(*SCRIPTED)}) as other:
            others = {glass.shown(tool["name"]) for tool in glass.lab.tools}  # a gateway may show every connection to every agent
            names = [str(tool.get("name")) for tool in (await other.agent.list_tools()).tools if tool.get("name") not in others]
            lab = other.labs["script"]
            mark = len(lab.seen)
            for name in dict.fromkeys(names):
                await other.agent.call(name, {})
            reached = [str(seen.params.get("name")) for seen in lab.calls(mark)]
    except HarnessError as error:
        return CaseResult(case="a08", outcome="fail", what=f"refused as a whole: {error.what[:200]}")
    lost = [name for name in SCRIPTED if name not in reached]
    listed = len(set(names))
    return _told("a08", [f"{listed} names are listed; these tools cannot be called: {', '.join(lost)}"] if lost else [], "five names, five tools")


@asynccontextmanager
async def beside(glass: Glass, tools: Mapping[str, Sequence[Wire]]) -> AsyncIterator[Beside]:
    """Connects them in this order, and disconnects them again. Raises what the gateway refuses."""
    made: list[str] = []
    async with AsyncExitStack() as stack:
        labs = {name: await stack.enter_async_context(served(SECRET, listed)) for name, listed in tools.items()}
        try:
            for name, lab in labs.items():
                mount = glass.tap.mount(name, lab.url)
                stack.callback(mount.close)
                await glass.gateway.connect(TENANT, request_for(glass.seat, mount.url(PATH), name))
                made.append(name)
            grant = await glass.gateway.start_run(TENANT, list(labs), task="cases", agent="transparency", subject="user-lab")
            session = await stack.enter_async_context(agent(grant.url, glass.http, grant.token, glass.seat.protocol))
            yield Beside(labs, session)
        finally:
            for name in made:
                await glass.gateway.disconnect(TENANT, name)


def _told(case: str, troubles: Sequence[str], fine: str) -> CaseResult:
    return CaseResult(case=case, outcome="fail" if troubles else "pass", what="; ".join(troubles) or fine)

