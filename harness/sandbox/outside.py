"""The same place seen from outside, where the secrets are known: files, environment, memory and traffic are searched for the real values.

The kernel tells of the agent's process: nothing here rests on what the agent says of itself.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.cassette.redact import spellings
from harness.sandbox.agent import NAMESPACES
from harness.sandbox.probe import NULL, swallows

LARGEST = 256_000_000
_MAPPED = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)")


class Needles:
    """Secrets by name, in the spellings in which they might stand."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._spelled = {name: tuple(_bytes(secret)) for name, secret in secrets.items()}

    @property
    def names(self) -> list[str]:
        return sorted(self._spelled)

    def within(self, data: bytes) -> list[str]:
        """Names of the secrets that `data` holds."""
        return sorted(name for name, several in self._spelled.items() if any(each in data for each in several))


def _bytes(secret: str) -> Iterator[bytes]:
    yield from {each.encode() for each in spellings(secret)} | {secret.encode("utf-16-le"), base64.b64encode(secret.encode())}


def identity(pid: int) -> dict[str, Any]:
    """What the kernel says of the process: its namespaces, its user out here, and whether they are ours."""
    status = dict(line.split(":\t", 1) for line in (Path("/proc") / str(pid) / "status").read_text().splitlines() if ":\t" in line)
    theirs = {name: os.readlink(f"/proc/{pid}/ns/{name}") for name in NAMESPACES}
    ours = {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES}
    return {
        "pid": pid,
        "uid": int(status["Uid"].split()[0]),
        "namespaces": theirs,
        "shared": sorted(name for name in NAMESPACES if theirs[name] == ours[name]),
        "working_directory": os.readlink(f"/proc/{pid}/cwd"),
        "threads": int(status["Threads"]),
        "children": (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split(),
        "network_bytes": _carried(pid),
    }


def descriptors(pid: int, known: Mapping[int, str]) -> list[str]:
    """What the process holds open, as "number what": sockets by name where their inode is known, everything else as the kernel shows it."""
    found = []
    for number in sorted(os.listdir(f"/proc/{pid}/fd"), key=int):
        link = f"/proc/{pid}/fd/{number}"
        try:
            target = NULL if swallows(os.stat(link)) else os.readlink(link)
        except FileNotFoundError:
            continue  # closed meanwhile
        kind, _, inode = target.partition(":[")
        named = known.get(int(inode.rstrip("]"))) if kind == "socket" else None
        found.append(f"{number} {named or (kind if inode else target)}")
    return found


def _carried(pid: int) -> dict[str, int]:
    found = {}
    for line in (Path("/proc") / str(pid) / "net" / "dev").read_text().splitlines()[2:]:
        name, _, counters = line.partition(":")
        found[name.strip()] = int(counters.split()[0]) + int(counters.split()[8])
    return found


def search(pid: int, needles: Needles, control: bytes) -> dict[str, Any]:
    """Files, environment and memory of the process. `control` was certainly given to it: a search that misses that one is blind."""
    environment = (Path("/proc") / str(pid) / "environ").read_bytes()
    memory = _memory(pid, needles, control)
    return {
        "looked_for": needles.names,
        "environment": {"bytes": len(environment), "found": needles.within(environment)},
        "files": _files(f"/proc/{pid}/root", needles),
        "memory": memory,
    }


def _files(root: str, needles: Needles) -> dict[str, Any]:
    scanned, size, found = 0, 0, set()
    for folder, names, inside in os.walk(root):
        names[:] = [name for name in names if not (folder == root and name == "proc")]
        for name in inside:
            path = os.path.join(folder, name)
            if os.path.islink(path) or not os.path.isfile(path):
                continue
            data = Path(path).read_bytes()
            scanned, size = scanned + 1, size + len(data)
            found |= {f"{secret} in {path.removeprefix(root)}" for secret in needles.within(data)}
    return {"scanned": scanned, "bytes": size, "found": sorted(found)}


def _memory(pid: int, needles: Needles, control: bytes) -> dict[str, Any]:
    """Everything that can be written or belongs to no file; what is mapped from files is searched as files."""
    scanned, skipped, seen = 0, 0, False
    found: set[str] = set()
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in lines.readlines():
            part = _MAPPED.match(line)
            if part is None or not part[3].startswith("r") or part[4].startswith(("[vvar", "[vsyscall")):
                continue
            if part[4].startswith("/") and "w" not in part[3]:
                continue
            start, size = int(part[1], 16), int(part[2], 16) - int(part[1], 16)
            try:
                data = os.pread(memory.fileno(), min(size, LARGEST), start)
            except OSError:
                skipped += 1
                continue
            scanned += len(data)
            seen = seen or control in data
            found |= set(needles.within(data))
    return {"bytes": scanned, "skipped": skipped, "found": sorted(found), "control_seen": seen}


def remains(pid: int, namespace: str, folder: Path) -> dict[str, Any]:
    """What is left of a place after its end; all empty or false when it is gone."""
    holders = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.readlink(f"/proc/{name}/ns/pid") == namespace:
                    holders.append(int(name))
            except OSError:
                continue  # ended meanwhile, or a process that is not ours to look at
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
    return {"process": Path(f"/proc/{pid}").exists(), "namespace_members": holders, "mounts": mounts, "folder": folder.exists()}
