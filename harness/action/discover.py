"""`discover: CONNECTION`: the agent lists the tools it sees through the gateway, all pages."""

from __future__ import annotations

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import ClientExchange, Phase
from harness.model.location import Frozen
from harness.model.scenario import Step


class Params(Frozen):
    """`target`: a connection, whose tools are kept; the listing itself is of everything the agent sees."""

    target: str


class Discover(Verb[Params]):
    id = "discover"
    summary = "the agent lists the tools it sees through the gateway"
    params = Params
    example = "discover: mem0"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection = stage.leg(params.target).name
        started, began = stage.sequencer.next(), stage.clock.monotonic()
        listing = await stage.agent.list_tools(timeout=stage.step_timeout_s)
        tools, unmapped = [], []
        for tool in listing.tools:
            owner, name = stage.target.tool_of(str(tool.get("name", "")), connection)
            if owner == connection:
                tools.append({**tool, "name": name})
            elif owner not in stage.legs:
                unmapped.append(tool.get("name"))
        result = {"tools": tools, "pages": listing.pages, "complete": listing.complete, **({"unmapped": unmapped} if unmapped else {})}
        exchange = ClientExchange(
            item=stage.item,
            phase=phase,
            step=step.id,
            attempt=attempt,
            connection=connection,
            method="tools/list",
            protocol_version=stage.protocol,
            started_seq=started,
            ended_seq=stage.sequencer.next(),
            result=result,
            latency_ms=round((stage.clock.monotonic() - began) * 1000, 3),
        )
        stage.emit(exchange)
        return Done(answer=result)


ACTION = Discover()
