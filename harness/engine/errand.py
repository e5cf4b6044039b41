"""The bench used for work outside of scenarios, such as sweeping: the same set-up, the same witnesses, the same evidence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from harness.action.base import Stage
from harness.engine.bench import Bench
from harness.engine.evidence_log import EvidenceLog
from harness.engine.item import ItemRun, as_trouble
from harness.engine.run import documents_for
from harness.engine.set_up import SetUp
from harness.errors import ContractBroken, HarnessError
from harness.live.session import LiveItem
from harness.model.answer import json_of
from harness.model.evidence import ClientExchange, Phase, Trouble
from harness.model.location import NOWHERE
from harness.model.plan import PlanItem
from harness.model.scenario import NEWEST_PROTOCOL, ConnectionSpec, Scenario


def errand_item(name: str, provider: str, *, level: Any, target: str, rehearsed: bool) -> PlanItem:
    """A plan item without steps, whose id says what it is for."""
    scenario = Scenario(
        id=f"{name.upper()}-{provider.upper()}",
        title=f"{name} at {provider}",
        area=name,
        file="",
        source="",
        connections={provider: ConnectionSpec()},
        steps=(),
        location=NOWHERE,
    )
    return PlanItem(scenario=scenario, level=level, target=target, protocol=NEWEST_PROTOCOL, rehearsed=rehearsed)


@asynccontextmanager
async def errand(bench: Bench, item: PlanItem, log: EvidenceLog, run_id: str, rules: LiveItem) -> AsyncIterator[Stage]:
    """A stage on which `rules` hold, for as long as the block lasts. Raises HarnessError when it cannot be set up."""
    run = ItemRun(bench=bench, item=item, log=log, documents=documents_for([item]), run_id=run_id)
    run.open(rules)
    trouble: Trouble | None = None
    try:
        async with AsyncExitStack() as stack:
            run.stage = await SetUp(run).run(stack)
            yield run.stage
    except HarnessError as error:
        trouble = as_trouble(error)
        raise
    finally:
        await run.close(trouble)


async def ask(stage: Stage, provider: str, tool: str, arguments: Mapping[str, Any], phase: Phase = "steps") -> Any:
    """What a tool answers, as data. Raises what the rules say, or ContractBroken for an answer that is none."""
    await stage.admit(provider, tool, arguments, phase)
    started, trace = stage.sequencer.next(), stage.new_trace()
    name = stage.target.exposed_name(provider, tool)
    answer = await stage.agent.call(name, arguments, meta={"traceparent": trace}, timeout=stage.step_timeout_s)
    stage.emit(
        ClientExchange(
            item=stage.item,
            phase=phase,
            step="errand",
            attempt=1,
            connection=provider,
            method="tools/call",
            tool=tool,
            exposed_as=name,
            arguments=arguments,
            traceparent=trace,
            protocol_version=stage.protocol,
            started_seq=started,
            ended_seq=stage.sequencer.next(),
            result=answer.result,
            error=answer.error,
            transport_error=answer.transport_error,
        )
    )
    found = json_of(answer.result)
    if answer.result is None or answer.result.get("isError") is True or (isinstance(found, Mapping) and found.get("error")):
        why = answer.transport_error or (answer.error.message if answer.error else "") or str(found or "it is an error")
        raise ContractBroken(f"{tool} answered: {why[:300]}", where=provider, fix="see the evidence of this run")
    return found
