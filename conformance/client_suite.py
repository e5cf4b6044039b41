"""The client requirement sets: the suite's servers against the gateway's own upstream client and OAuth broker."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

from conformance.client import run as run_client
from conformance.installed import Suite

REVISIONS = ("2025-11-25", "2026-07-28")
TIMEOUT_MS = 90_000
BASELINE = "client-baseline.yaml"
AT_ONCE = 4
"""Clients at once. The suite starts all its scenarios together, but some measure time, and its servers hang up on who is slow."""


async def run(suite: Suite) -> bool:
    """Whether every scored scenario of both sets passed, or stands in the baseline with its reason."""
    good = True
    async with _ready_client() as command:
        for revision in REVISIONS:
            good = await suite.run("client", revision, BASELINE, "--command", command, "--timeout", str(TIMEOUT_MS)) and good
    return good


@contextlib.asynccontextmanager
async def _ready_client() -> AsyncIterator[str]:
    """The command that the suite starts for each scenario; behind it one process, this one, runs the clients."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wanted = json.loads(await reader.readline())
        async with turns:
            code, said = await _until_gone(reader, wanted)
        writer.write(json.dumps({"code": code, "said": said}).encode() + b"\n")
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        writer.close()

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s"
        async with await asyncio.start_unix_server(serve, path):
            yield f"{sys.executable} -I -S {Path(__file__).with_name('hand_over.py')} {path}"


async def _until_gone(reader: asyncio.StreamReader, wanted: Mapping[str, Any]) -> tuple[int, str]:
    """A client, for as long as the program that stands for it: the suite ends that when it has waited enough, and waits for its connections."""
    client = asyncio.ensure_future(run_client(wanted["url"], wanted["environment"]))
    gone = asyncio.ensure_future(reader.read())
    try:
        await asyncio.wait({client, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        client.cancel()
        await asyncio.wait({client})
    if client.cancelled():
        return 1, "given up\n"
    fault = client.exception()  # one that fails for a reason of ours is told to the suite as one that failed
    return client.result() if fault is None else (1, "".join(traceback.format_exception(fault)))
