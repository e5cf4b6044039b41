"""The pipes and the end of a gateway that runs as a child process."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any


class PipedChild(asyncio.subprocess.SubprocessStreamProtocol):
    """`ended` is set when the process itself is gone; `Process.wait` also waits for everybody who still holds its pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=65536, loop=loop)
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()


async def keep_log(process: asyncio.subprocess.Process, path: Path) -> bytes:
    """Drain standard error into a file, in pieces of any shape; its end explains a gateway that died."""
    tail = b""
    assert process.stderr is not None
    with path.open("ab") as sink:
        while piece := await process.stderr.read(65536):
            sink.write(piece)
            sink.flush()
            tail = (tail + piece)[-4096:]
    return tail


async def drain(process: asyncio.subprocess.Process) -> None:
    """Nothing more is read from standard output, but a full pipe would stop the gateway."""
    assert process.stdout is not None
    while await process.stdout.read(65536):
        pass


async def settle(task: asyncio.Task[Any]) -> None:
    """A pipe ends with its last holder, which may be a child that the gateway left behind; that is not waited for."""
    _, late = await asyncio.wait({task}, timeout=1.0)
    for waiting in late:
        waiting.cancel()
    await asyncio.wait({task})


async def end(process: asyncio.subprocess.Process, ended: asyncio.Event, within_s: float) -> None:
    for ask in (process.terminate, process.kill):
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            if process.returncode is None:
                ask()
                await asyncio.wait_for(ended.wait(), within_s)
