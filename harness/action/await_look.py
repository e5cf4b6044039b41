"""`await_look: CONNECTION`: waits until the gateway has looked into every change that this provider announced, or for a moment at most."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from harness.action.base import Done, Stage, Verb
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.tap.fault import Announce

WITHIN_S = 2.0
"""Real seconds: announcements come on a stream that no clock of the bench moves. A gateway that never looks costs as much."""
LOOK_EVERY_S = 0.02


class Params(Frozen):
    target: str


class AwaitLook(Verb[Params]):
    id = "await_look"
    summary = "the gateway is given a moment to look into what the provider announced"
    params = Params
    needs = frozenset({"audit"})
    example = "await_look: mem0"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        leg = stage.leg(params.target)
        announced = sum(Announce.kind in (seen.fault or "").split(",") for seen in leg.mount.exchanges)
        looked = 0
        try:
            async with asyncio.timeout(WITHIN_S):
                while (looked := _looked(await stage.target.audit(stage.tenant, None), leg.name)) < announced:
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            pass  # whether it had to look is for an expectation to judge
        data = {"announced": announced, "looked": looked}
        stage.control("await_look", data, phase=phase, step=step.id, connection=leg.name)
        return Done(answer=data)


def _looked(records: list[Mapping[str, Any]], connection: str) -> int:
    """How many announcements the gateway says that it looked into."""
    own = (r for r in records if r.get("event") == "list_changed" and r.get("connection") == connection)
    return sum(int((r.get("details") or {}).get("announced", 0)) for r in own)


ACTION = AwaitLook()
