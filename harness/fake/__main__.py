"""Serve one stand-in for people: `python -m harness.fake mem0 --port 8100 --credential key`. Ends on Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys

from harness.clock import SystemClock
from harness.errors import HarnessError
from harness.fake.kit import Account, Consent, serve


async def _run(options: argparse.Namespace) -> None:
    leave = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    async with serve(options.provider, SystemClock(), port=options.port) as running:
        tags = tuple(options.tag) if options.tag else None
        running.admit(Account(options.credential, "you", Consent("read" if options.read_only else "read_write", tags)))
        if options.index_delay is not None:
            running.configure(options.credential, index_delay_s=options.index_delay)
        sys.stdout.write(json.dumps({"ready": running.id, "url": running.mcp_url}) + "\n")
        sys.stdout.flush()
        await leave.wait()


def main() -> int:
    """Parse the command line and serve; exit code 0, or the error's own."""
    parser = argparse.ArgumentParser(prog="python -m harness.fake", description="Serve one provider stand-in on 127.0.0.1.")
    parser.add_argument("provider", help="mem0, zep, supermemory, honcho, cognee or papr")
    parser.add_argument("--port", type=int, default=0, help="0 (the default) lets the system choose")
    parser.add_argument("--credential", required=True, help="the bearer token or API key to accept")
    parser.add_argument("--read-only", action="store_true", help="a consent that may not write")
    parser.add_argument("--tag", action="append", help="a tag the consent opens; repeat for more; all of them if left out")
    parser.add_argument("--index-delay", type=float, help="seconds until what is written is ready")
    try:
        asyncio.run(_run(parser.parse_args()))
    except HarnessError as error:
        sys.stderr.write(f"{error}\n")
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
