"""The seam to a gateway that can serve an agent it cannot be reached by: its runner's end of a relay channel."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from harness.errors import Unreachable
from harness.target.base import RunGrant

READY_WITHIN_S = 20.0
END_WITHIN_S = 5.0
KEPT_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TMPDIR", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class RelayHandle:
    """A relay that serves. `secrets`: by name, what the gateway's side holds and no place may ever see."""

    pid: int
    secrets: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Relays(Protocol):
    """A running target that also has this can be asked for tools in a place without a network."""

    def relay(self, grant: RunGrant, *, task: str, channel: str, fd: int) -> AbstractAsyncContextManager[RelayHandle]:
        """Serves the channel at the inherited descriptor `fd` for this run until left. `channel` opens it, once."""
        ...


@asynccontextmanager
async def reference_relay(
    grant: RunGrant, *, task: str, channel: str, fd: int, secrets: Mapping[str, str], defects: Sequence[str]
) -> AsyncIterator[RelayHandle]:
    """The reference gateway's relay, a process on this side; what it must know goes in by its standard input, not by its environment."""
    named = [word for defect in defects if defect.startswith("relay-") for word in ("--defect", defect)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "reference_gateway.relay",
        "--fd",
        str(fd),
        *named,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=(fd,),
        env={name: os.environ[name] for name in KEPT_ENVIRONMENT if name in os.environ},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    spec = {"url": grant.url, "token": grant.token, "run": grant.run, "task": task, "channel": channel}
    try:
        process.stdin.write(json.dumps(spec).encode() + b"\n")
        await process.stdin.drain()
        line = b""
        with contextlib.suppress(TimeoutError):
            line = await asyncio.wait_for(process.stdout.readline(), READY_WITHIN_S)
        if b'"ready"' not in line:
            said = (await process.stderr.read())[-300:] if process.returncode is not None else b""
            raise Unreachable(f"the relay did not start: {said.decode(errors='replace')}", where="relay", fix="see docs/operator-api.md")
        yield RelayHandle(process.pid, secrets)
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), END_WITHIN_S)
        except TimeoutError:
            process.kill()
            await process.wait()
