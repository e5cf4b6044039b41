"""A report on a place as a good run writes it, for specimens and tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_NAMES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_NAMESPACES = {name: f"{name}:[{number}]" for number, name in enumerate(_NAMES, 4026532000)}
_SELF = {
    "platform": "Linux x86_64",
    "kernel": "6.1.0",
    "host": "sandbox",
    "user": "agent",
    "uid": 1000,
    "gid": 1000,
    "working_directory": "/agent/work",
    "python": "3.11.7",
    "runner_digest": "ab" * 32,
    "interpreter_digest": "cd" * 32,
}
_NOTHING = {"bytes": 100, "found": []}

PLACE: Mapping[str, Any] = {
    "inside": {**_SELF, "capabilities": "0000000000000000", "namespaces": _NAMESPACES, "root_writable": False, "seconds": 1.0},
    "expected": _SELF,
    "outside": {
        "uid": 61184,
        "namespaces": _NAMESPACES,
        "shared": [],
        "working_directory": "/agent/work",
        "network_bytes": {"lo": 0},
        "descriptors": ["0 /dev/null", "1 /dev/null", "2 pipe", "3 script", "5 channel"],
    },
    "seconds": 1.1,
    "search": {
        "looked_for": ["mem0", "operator-token", "run-token"],
        "environment": _NOTHING,
        "files": {"scanned": 70, **_NOTHING},
        "memory": {**_NOTHING, "skipped": 0, "control_seen": True},
    },
    "probe": {
        "inside": {
            "environment": {"names": [], "planted": False, "found": []},
            "files": {"scanned": 70, "found": [], "unreadable": [], "special": []},
            "memory": {"found": [], "skipped": 0},
            "key_file": "FileNotFoundError",
            "socket": "No such file or directory",
            "abstract": "Connection refused",
            "gateway": "Connection refused",
            "processes": [1],
            "mounts": ["/ tmpfs", "/agent/work tmpfs", "/proc proc"],
            "network": {"interfaces": {"lo": 0}, "routes": 0},
            "descriptors": ["/dev/null", "/dev/null", "pipe", "socket", "socket"],
        },
        "outside": {
            "environment": {"names": ["PLANTED_CONTROL"], "planted": True, "found": ["planted"]},
            "files": {"scanned": 1, "found": ["control.key"], "unreadable": [], "special": []},
            "memory": {"found": ["planted"], "skipped": 0},
            "key_file": "read",
            "socket": "connected",
            "abstract": "connected",
            "gateway": "connected",
        },
    },
    "traffic": {**_NOTHING, "whole": True, "control_seen": True},
    "standard_error": {"bytes": 0, "found": []},
}
GONE: Mapping[str, Any] = {
    "ended": "by itself",
    "code": 0,
    "left": {"process": False, "namespace_members": [], "mounts": [], "folder": False},
}


def changed(whole: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy in which the value at `path` is another one."""
    first, *rest = path
    return {**whole, first: changed(whole[first], rest, value) if rest else value}
