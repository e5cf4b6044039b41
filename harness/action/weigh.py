"""`weigh: gateway`: how much memory the gateway's process holds, and how much it held at most since it was weighed last."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from harness.action.base import Done, Stage, Verb
from harness.errors import Untestable
from harness.model.evidence import Phase
from harness.model.location import Frozen
from harness.model.scenario import Step


class Params(Frozen):
    target: Literal["gateway"]


class Weigh(Verb[Params]):
    id = "weigh"
    summary = "the memory that the gateway's process holds is read, and its peak since it was read last"
    params = Params
    mutates = True
    example = "weigh: gateway"

    async def run(self, stage: Stage, step: Step, params: Params, phase: Phase, attempt: int) -> Done:
        data = _weighed(stage.target.process_id, str(step.location))
        stage.control("weigh", data, phase=phase, step=step.id)
        return Done(answer=data)


ACTION = Weigh()


def _weighed(pid: int | None, where: str) -> dict[str, float]:
    """Megabytes (10^6 bytes)."""
    if pid is None:
        raise Untestable("the gateway's process is not known", where=where, fix="use a target that the harness starts itself")
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        held = {name: int(re.findall(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)[0]) * 1024 / 1e6 for name in ("VmHWM", "VmRSS")}
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")  # the peak is counted anew from here
    except (OSError, IndexError) as error:
        raise Untestable(f"its memory cannot be read: {error}", where=where, fix="this needs Linux, and the gateway as a process of ours") from None
    return {"peak_mb": round(held["VmHWM"], 1), "now_mb": round(held["VmRSS"], 1)}
