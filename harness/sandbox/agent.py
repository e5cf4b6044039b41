"""The scripted agent, inside: it does what it is told over one inherited socket, and calls tools over the channel it is handed.

It holds no token. Which tools it has, it knows from the declaration of its channel alone. Standard library only.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import time
from typing import Any

from harness.sandbox.frames import Torn, receive, send
from harness.sandbox.probe import probe

SCRIPT_FD = 3
NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
RUNNER = ("frames.py", "probe.py", "agent.py")


def main() -> None:
    """Serves until the script ends or says so."""
    agent = Agent(time.monotonic())
    with socket.socket(fileno=SCRIPT_FD) as script:
        send(script, {"ready": True})
        while True:
            order, handed = receive(script)
            if order is None or order.get("do") == "end":
                return
            send(script, agent.obey(order, handed))


class Agent:
    def __init__(self, began: float) -> None:
        self._began = began
        self._relay: socket.socket | None = None
        self._run = ""
        self._declaration: dict[str, Any] = {}
        self._canary = ""
        self._calls = 0

    def obey(self, order: dict[str, Any], handed: list[int]) -> dict[str, Any]:
        what = order.get("do")
        if what == "attach":
            return self._attach(order, handed)
        if what == "call":
            return self._over({"type": "call", "name": order["name"], "arguments": order["arguments"], "meta": order["meta"]})
        if what == "list":
            return {"tools": self._declaration.get("tools", []), "session": self._declaration.get("session", "")}
        if what == "about":
            return about(time.monotonic() - self._began)
        if what == "probe":
            return probe(order["look"])
        if what == "claim":  # speaks for another run, as a stolen or mistaken channel would
            return self._over({"type": "list", "run": order["run"]})
        return {"trouble": f"unknown order {what!r}"}

    def _attach(self, order: dict[str, Any], handed: list[int]) -> dict[str, Any]:
        """A channel, the first or a new one of a resumed session: what it declares replaces what was declared before."""
        if self._relay is not None:
            self._relay.close()
        self._relay = socket.socket(fileno=handed[0])
        self._run, self._canary = str(order["run"]), str(order["canary"])  # kept where a search of this memory must find it
        before = self._declaration.get("session", "")
        try:
            send(self._relay, {"type": "hello", "run": self._run, "channel": order["channel"], "session": before})
            welcome, _ = receive(self._relay)
        except (OSError, Torn) as error:
            return {"transport_error": str(error)}
        if welcome is None or welcome.get("type") != "welcome":
            return {"refused": (welcome or {}).get("code", "closed")}
        self._declaration = welcome
        os.environ.update({str(key): str(value) for key, value in dict(welcome.get("environment") or {}).items()})
        return {"welcome": {key: value for key, value in welcome.items() if key not in ("tools", "environment")}, "tools": welcome.get("tools")}

    def _over(self, frame: dict[str, Any]) -> dict[str, Any]:
        if self._relay is None:
            return {"transport_error": "this place has no channel to any gateway"}
        self._calls += 1
        try:
            send(self._relay, {"id": self._calls, "run": self._run, **frame})
            answer, _ = receive(self._relay)
        except (OSError, Torn) as error:
            return {"transport_error": str(error)}
        if answer is None:
            return {"transport_error": "the channel was closed"}
        if answer.get("type") == "refused":
            return {"transport_error": f"the channel refused: {answer.get('code')}", "refused": answer.get("code")}
        if answer.get("id") != self._calls:
            return {"transport_error": "the channel answered another call"}
        return {key: answer[key] for key in ("result", "error", "transport_error") if key in answer}


def about(seconds: float) -> dict[str, Any]:
    """Who and where I am, told by this process of itself."""
    system = os.uname()
    status = dict(line.split(":\t", 1) for line in _text("/proc/self/status").splitlines() if ":\t" in line)
    return {
        "platform": f"{system.sysname} {system.machine}",
        "kernel": system.release,
        "host": system.nodename,
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": os.getgroups(),
        "user": _user(os.getuid()),
        "working_directory": os.getcwd(),
        "pid": os.getpid(),
        "python": sys.version.split()[0],
        "runner_digest": runner_digest(os.path.dirname(os.path.abspath(__file__))),
        "interpreter_digest": digest(sys.executable),
        "capabilities": status.get("CapEff", "").strip(),
        "bounding": status.get("CapBnd", "").strip(),
        "no_new_privileges": status.get("NoNewPrivs", "").strip(),
        "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in NAMESPACES},
        "root_writable": os.access("/", os.W_OK),
        "seconds": round(seconds, 3),
    }


def runner_digest(folder: str) -> str:
    """SHA-256 over the programs of the runner, in the order of RUNNER."""
    total = hashlib.sha256()
    for name in RUNNER:
        total.update(digest(os.path.join(folder, name)).encode())
    return total.hexdigest()


def digest(path: str) -> str:
    with open(path, "rb") as source:
        return hashlib.sha256(source.read()).hexdigest()


def _user(uid: int) -> str:
    try:
        lines = _text("/etc/passwd").splitlines()
    except OSError:
        return ""
    return next((line.split(":")[0] for line in lines if line.split(":")[2:3] == [str(uid)]), "")


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as source:
        return source.read()


if __name__ == "__main__":
    main()
