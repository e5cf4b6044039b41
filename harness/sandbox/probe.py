"""What can be seen from here: environment, files, sockets, processes, mounts, network, own memory.

The same code runs inside the sandbox, where it must find nothing, and outside, where it must find every planted control: a probe that
cannot find is worth nothing. Secrets are looked for by their shape, for a probe that was told them would carry them in.
Standard library only.
"""

from __future__ import annotations

import os
import re
import socket
import stat
from typing import Any

SHAPES = (
    ("planted", b"planted-control-", re.compile(rb"[0-9a-f]{32}")),
    ("credential", b"synthetic-", re.compile(rb"[a-z0-9]{2,40}-[0-9a-f]{32}")),
    ("run-token", b"rt_", re.compile(rb"(?=[a-zA-Z_-]*[0-9])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")),
)
"""Kind, how it begins, how it goes on. Two parts, so that this table, which lies in the memory that is searched, does not match itself."""
FILE_LIMIT = 64_000_000
VIRTUAL = ("/proc", "/sys")
CONNECT_WITHIN_S = 2.0
NULL = "/dev/null"
MAPS_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+\s*(.*)")


def probe(look: dict[str, Any]) -> dict[str, Any]:
    """`look`: roots (folders to scan), file, socket, abstract, variable, gateway ([host, port])."""
    carried = network()  # before the probe itself makes traffic
    return {
        "network": carried,
        "environment": environment(str(look["variable"])),
        "files": files([str(root) for root in look["roots"]]),
        "key_file": readable(str(look["file"])),
        "socket": connects(socket.AF_UNIX, str(look["socket"])),
        "abstract": connects(socket.AF_UNIX, "\0" + str(look["abstract"])),
        "gateway": connects(socket.AF_INET, (str(look["gateway"][0]), int(look["gateway"][1]))),
        "memory": memory(),
        "processes": processes(),
        "mounts": mounts(),
        "descriptors": descriptors(),
    }


def found_in(data: bytes) -> list[str]:
    """Kinds of what was found, never the values: a report must not spread what it reports."""
    return [kind for kind, begins, goes_on in SHAPES if _holds(data, begins, goes_on)]


def _holds(data: bytes, begins: bytes, goes_on: re.Pattern[bytes]) -> bool:
    at = data.find(begins)
    while at >= 0:
        apart = at == 0 or not (chr(data[at - 1]).isalnum() or data[at - 1 : at] == b"_")  # symbols of libraries hold such letters too
        if apart and goes_on.match(data, at + len(begins)):
            return True
        at = data.find(begins, at + 1)
    return False


def environment(variable: str) -> dict[str, Any]:
    joined = "\0".join(f"{key}={value}" for key, value in os.environ.items()).encode("utf-8", "surrogateescape")
    return {"names": sorted(os.environ), "planted": variable in os.environ, "found": found_in(joined)}


def files(roots: list[str]) -> dict[str, Any]:
    """Every regular file below the roots, read in full; sockets and devices are counted, what cannot be read is named."""
    scanned, size = 0, 0
    hits: list[str] = []
    unreadable: list[str] = []
    special: list[str] = []
    for root in roots:
        for folder, names, inside in os.walk(root, onerror=lambda error: unreadable.append(str(error.filename))):
            names[:] = [name for name in names if os.path.join(folder, name) not in VIRTUAL]
            for path in (os.path.join(folder, name) for name in inside):
                try:
                    kind = os.lstat(path)
                    if not stat.S_ISREG(kind.st_mode):
                        if not stat.S_ISLNK(kind.st_mode):
                            special.append(path)
                        continue
                    with open(path, "rb") as source:
                        data = source.read(FILE_LIMIT)
                except OSError:
                    unreadable.append(path)
                    continue
                scanned, size = scanned + 1, size + len(data)
                hits += [path] if found_in(data) else []
    return {"scanned": scanned, "bytes": size, "found": hits, "unreadable": unreadable[:50], "special": special[:50]}


def readable(path: str) -> str:
    try:
        with open(path, "rb") as source:
            return "read" if found_in(source.read(4096)) else "empty"
    except OSError as error:
        return type(error).__name__


def connects(family: int, address: Any) -> str:
    """`connected`, or the name of what stood in the way."""
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.settimeout(CONNECT_WITHIN_S)
        try:
            sock.connect(address)
        except OSError as error:
            return os.strerror(error.errno) if error.errno else type(error).__name__
    return "connected"


def memory() -> dict[str, Any]:
    """Own memory: everything that can be written or belongs to no file. What is mapped from files is scanned as files."""
    scanned, skipped = 0, 0
    kinds: set[str] = set()
    files_mapped: set[str] = set()
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines, open("/proc/self/mem", "rb", buffering=0) as own:
        for found in filter(None, map(MAPS_LINE.match, lines.readlines())):
            start, end, rights, name = int(found[1], 16), int(found[2], 16), found[3], found[4]
            if name.startswith("/"):
                files_mapped.add(name)
            if not rights.startswith("r") or (name.startswith("/") and "w" not in rights) or name.startswith(("[vvar", "[vsyscall")):
                continue
            try:
                own.seek(start)
                data = own.read(end - start)
            except (OSError, OverflowError):
                skipped += 1
                continue
            scanned += len(data)
            kinds.update(found_in(data))
    return {"bytes": scanned, "skipped": skipped, "found": sorted(kinds), "files_mapped": sorted(files_mapped)}


def swallows(status: os.stat_result) -> bool:
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 3)


def processes() -> list[int]:
    return sorted(int(name) for name in os.listdir("/proc") if name.isdigit())


def mounts() -> list[str]:
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as lines:
        return sorted(f"{line.split()[4]} {line.partition(' - ')[2].split()[0]}" for line in lines)


def network() -> dict[str, Any]:
    """Interfaces with the bytes they carried, and routes beside loopback's."""
    interfaces: dict[str, int] = {}
    with open("/proc/net/dev", encoding="utf-8") as lines:
        for line in lines.readlines()[2:]:
            name, _, counters = line.partition(":")
            fields = counters.split()
            interfaces[name.strip()] = int(fields[0]) + int(fields[8])
    with open("/proc/net/route", encoding="utf-8") as lines:
        routes = len(lines.readlines()) - 1
    return {"interfaces": interfaces, "routes": max(routes, 0)}


def descriptors() -> list[str]:
    """What the open descriptors are, without the one that lists them. The device that swallows everything is known by its number: its name
    belongs to a root that is gone."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            null = swallows(os.fstat(int(name)))
            found.append(NULL if null else os.readlink(f"/proc/self/fd/{name}").partition(":")[0])
        except OSError:
            continue
    return sorted(found)
