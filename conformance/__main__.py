"""`python -m conformance client server`: the suites named, one after the other; 0 when all of them hold."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
from pathlib import Path

from conformance.installed import NotInstalled, Suite

SUITES = ("client", "server")


async def _run(names: list[str], suite: Suite) -> bool:
    good = True
    for name in names:
        good = await importlib.import_module(f"conformance.{name}_suite").run(suite) and good
    return good


def main() -> int:
    """Exit codes: 0 all hold, 1 something does not, 2 wrong usage or not installed."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description="Run the official MCP conformance suite against this project.")
    parser.add_argument("suites", nargs="+", choices=SUITES)
    parser.add_argument("--installed", type=Path, default=Path(".real/conformance"), help="where `make conformance` installed the suite")
    parser.add_argument("--results", type=Path, default=Path("build/conformance"), help="where each check is written")
    options = parser.parse_args()
    try:
        suite = Suite.find(options.installed.resolve(), options.results.resolve())
    except NotInstalled as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0 if asyncio.run(_run(options.suites, suite)) else 1


if __name__ == "__main__":
    sys.exit(main())
