"""CPU time of a gateway's processes, as the system counts it (in ticks of 10 ms)."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import HarnessError
from harness.target.base import RunningTarget
from harness.target.child import family_of


async def cpu_of(gateway: RunningTarget) -> float | None:
    """Seconds that the gateway and all it started have used so far; None where its processes are not ours to see."""
    leaders = [gateway.process_id] if gateway.process_id is not None else await _told(gateway)
    family = {member.pid for leader in leaders for member in family_of(leader)}
    return sum(_seconds(pid) for pid in family) if family else None


async def _told(gateway: RunningTarget) -> list[int]:
    try:
        processes = (await gateway.health()).get("processes") or ()
    except HarnessError:
        return []
    return [pid for pid in processes if isinstance(pid, int)]


def _seconds(pid: int) -> float:
    try:
        fields = (Path("/proc") / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # it ended meanwhile
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
