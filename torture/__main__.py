"""`python -m torture [NAME ...] [--scale short|full]`: runs the named files of this folder, all when none is named; exit 1 when one broke."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from pathlib import Path

from torture.figures import Figures

_NOT_RUNS = {"__main__", "figures"}


def names() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in found if name not in _NOT_RUNS and not name.startswith("_"))


def told(name: str, figures: Figures, seconds: float) -> str:
    verdict = "held" if figures.held else "BROKEN"
    line = f"{verdict:<7} {name:<16} {figures.promise}: {figures.tried} tried, {figures.violations} violations, control {figures.control}"
    return "\n".join([f"{line} ({seconds:.0f} s)", *(f"        {note}" for note in figures.notes)])


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of: {', '.join(names())}")
    parser.add_argument("--scale", choices=("short", "full"), default="full")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.names) - set(names()))
    if unknown:
        parser.error(f"there is no torture run {', '.join(unknown)}; there are: {', '.join(names())}")
    broken = 0
    for name in options.names or names():
        began = time.monotonic()
        for figures in importlib.import_module(f"torture.{name}").run(options.scale):
            sys.stdout.write(told(name, figures, time.monotonic() - began) + "\n")
            sys.stdout.flush()
            broken += not figures.held
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
