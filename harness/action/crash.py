"""`crash: CONNECTION`: the local server behind a connection is killed, as it might be by the system."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from harness.action.base import Done, Stage, Verb
from harness.errors import HarnessError
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step
from harness.target.setting import Setting, setting

LOOKS = 400
PAUSE_S = 0.01


class Params(Frozen):
    target: str


class Crash(Verb[Params]):
    id = "crash"
    summary = "the process of a local server is killed, and the gateway has noticed"
    params = Params
    needs = frozenset({"setup"})
    example = "crash: mem0"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        connection, door = stage.leg(params.target).name, setting(stage.target)
        pid = await process_of(door, stage.tenant, connection)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            raise HarnessError(f"the local server of {connection} is gone already", where=step.id, fix="call it first") from None
        state = await _noticed(door, stage.tenant, connection, pid)
        stage.control("crash", state, phase=phase, step=step.id, connection=connection)
        return Done(answer=state)


async def process_of(door: Setting, tenant: str, connection: str) -> int:
    """The process id that the gateway names, if it is really a process. Raises HarnessError."""
    told = await door.operate(tenant, "read", connection)
    process = ((told.body or {}).get("transport_details") or {}).get("process") or {}
    pid = process.get("pid")
    if not isinstance(pid, int) or pid <= 1 or not Path(f"/proc/{pid}").exists():
        raise HarnessError(f"no local server runs for {connection}", where="transport_details.process", fix="call a tool of it first")
    return pid


async def _noticed(door: Setting, tenant: str, connection: str, pid: int) -> dict[str, object]:
    for _ in range(LOOKS):
        told = await door.operate(tenant, "read", connection)
        process: dict[str, object] = (told.body or {})["transport_details"]["process"]
        if process.get("pid") != pid:
            return {key: process[key] for key in ("state", "restarts_left") if key in process}
        await asyncio.sleep(PAUSE_S)
    raise HarnessError(f"the gateway does not notice that the local server of {connection} is gone", where=f"process {pid}", fix="see gateway.log")


ACTION = Crash()
