"""The place itself: made, spoken to, seen from outside, removed, and its absence verified."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from harness.clock import SystemClock
from harness.errors import Untestable
from harness.sandbox import channel
from harness.sandbox.agent import digest, runner_digest
from harness.sandbox.frames import Torn
from harness.sandbox.outside import descriptors, identity, remains
from harness.sandbox.runtime import Runtime, runtime

USER, UID, OUTSIDE_UID = "agent", 1000, 61184
"""Inside and, where root makes the place, outside: a user that owns nothing and that nobody else is."""
HOST, WORK = "sandbox", "/agent/work"
READY_WITHIN_S = 30.0
END_WITHIN_S = 10.0
REAPED_WITHIN_S = 5
FIX = "the kernel must allow user, mount, pid and network namespaces (sysctl user.max_user_namespaces; in a container: --privileged)"


class Place:
    """One sandbox with its scripted agent. `share` names namespaces that are left out, which only a deliberate defect does."""

    def __init__(self, environment: Mapping[str, str], share: Sequence[str] = ()) -> None:
        self._environment = dict(environment)
        self._share = list(share)
        self._script, self._inner = socket.socketpair()
        self._known = {os.fstat(self._inner.fileno()).st_ino: "script"}
        self._script.setblocking(False)
        self._turn = asyncio.Lock()
        self._folder = Path(tempfile.mkdtemp(prefix="place-"))
        self._launcher: asyncio.subprocess.Process | None = None
        self._namespace = ""
        self._runtime: Runtime
        self.errors = bytearray()
        self.began = 0.0
        self.pid = 0

    async def start(self) -> Self:
        """Raises Untestable, saying at what it failed, where a place cannot be made."""
        self._folder.chmod(0o755)
        self._runtime = await runtime()
        spec = {
            "root": str(self._folder),
            "files": self._runtime.files,
            "folders": self._runtime.folders,
            "user": USER,
            "uid": UID,
            "outside_uid": OUTSIDE_UID,
            "host": HOST,
            "work": WORK,
            "share": self._share,
            "argv": self._runtime.argv,
            "script_fd": self._inner.fileno(),
        }
        enter = str(Path(__file__).with_name("enter.py"))
        self._launcher = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            enter,
            json.dumps(spec),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(self._inner.fileno(),),
            env=self._environment,
        )
        self._inner.close()
        self._listening = asyncio.create_task(self._keep_errors(self._launcher))
        try:
            async with asyncio.timeout(READY_WITHIN_S):
                await self._entered(self._launcher)
        except (TimeoutError, Torn) as error:
            raise Untestable(f"the place was not ready: {type(error).__name__}: {self._said()}", where="sandbox", fix=FIX) from None
        self._namespace = os.readlink(f"/proc/{self.pid}/ns/pid")
        self.began = SystemClock().monotonic()
        return self

    async def _entered(self, launcher: asyncio.subprocess.Process) -> None:
        assert launcher.stdout is not None
        first = json.loads(await launcher.stdout.readline() or b'{"error":"it ended at once"}')
        if "pid" in first:
            self.pid = int(first["pid"])
            if await channel.receive(self._script) == {"ready": True}:
                return
            first = json.loads(await launcher.stdout.readline() or b'{"error":"the agent ended at once"}')
        raise Untestable(f"namespaces cannot be made here: {first.get('error')} {self._said()}".rstrip(), where="sandbox", fix=FIX)

    async def _keep_errors(self, launcher: asyncio.subprocess.Process) -> None:
        assert launcher.stderr is not None
        while chunk := await launcher.stderr.read(65536):
            self.errors += chunk[: max(1_000_000 - len(self.errors), 0)]

    def _said(self) -> str:
        return self.errors[-300:].decode(errors="replace")

    async def ask(self, order: Mapping[str, Any], handed: int | None = None, *, within: float = 60.0) -> dict[str, Any]:
        """One order, one answer. Raises Untestable when the agent is gone, TimeoutError when it does not answer."""
        async with self._turn, asyncio.timeout(within):
            try:
                await channel.send(self._script, dict(order), handed)
                answer = await channel.receive(self._script)
            except (ConnectionError, Torn) as error:
                raise Untestable(f"the agent in the sandbox is gone: {error}", where="sandbox", fix=self._said()) from None
        if answer is None:
            raise Untestable("the agent in the sandbox ended", where="sandbox", fix=self._said())
        return answer

    def expected(self) -> dict[str, Any]:
        """What the agent must say of itself, as it stands out here."""
        system = os.uname()
        return {
            "platform": f"{system.sysname} {system.machine}",
            "kernel": system.release,
            "host": HOST,
            "user": USER,
            "uid": UID,
            "gid": UID,
            "working_directory": WORK,
            "python": sys.version.split()[0],
            "runner_digest": runner_digest(str(Path(__file__).parent)),
            "interpreter_digest": digest(self._runtime.interpreter),
        }

    def seen(self, channels: Sequence[int] = ()) -> dict[str, Any]:
        """As the kernel tells it. `channels`: inodes of the sockets that the agent was handed."""
        known = {**self._known, **dict.fromkeys(channels, "channel")}
        return {**identity(self.pid), "descriptors": descriptors(self.pid, known)}

    async def remove(self) -> dict[str, Any]:
        """Ends the agent, takes the folder away, and looks whether anything is left."""
        ended = "by itself"
        with contextlib.suppress(ConnectionError, Torn, TimeoutError, OSError):
            async with asyncio.timeout(1.0):
                await channel.send(self._script, {"do": "end"})
        launcher = self._launcher
        if launcher is not None:
            try:
                await asyncio.wait_for(launcher.wait(), END_WITHIN_S)
            except TimeoutError:
                ended = "killed"
                launcher.kill()  # the agent dies with it
                await launcher.wait()
            await self._listening
        for sock in (self._script, self._inner):
            sock.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        left = await self._left() if self.pid else {}
        return {"ended": ended, "code": launcher.returncode if launcher else None, "left": left}

    async def _left(self) -> dict[str, Any]:
        """What is left once the kernel had time to take an ended process away."""
        for _ in range(REAPED_WITHIN_S * 20):
            left = remains(self.pid, self._namespace, self._folder)
            if not left["process"] and not left["namespace_members"]:
                break
            await asyncio.sleep(0.05)
        return left
