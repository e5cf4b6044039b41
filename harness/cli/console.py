"""How commands speak: results on standard output, everything else on standard error, nothing that steers a terminal."""

from __future__ import annotations

import sys
from typing import TextIO

from harness.errors import HarnessError, LoadErrors


def say(text: str) -> None:
    """Text for people, on standard output; a newline is added when it has none."""
    _write(sys.stdout, _ended(text), sys.stdout.encoding or "utf-8")


def say_json(text: str) -> None:
    """A JSON document, on standard output, always in UTF-8 and byte for byte."""
    _write(sys.stdout, _ended(text), "utf-8")


def warn(text: str) -> None:
    """Text for people, on standard error."""
    _write(sys.stderr, _ended(text), sys.stderr.encoding or "utf-8")


def show_error(error: HarnessError) -> None:
    """Where, what, and how to fix it, once per problem."""
    from harness.report.inert import visible

    problems: list[HarnessError] = list(error.errors) if isinstance(error, LoadErrors) else [error]
    for problem in problems:
        warn(f"error: {visible(str(problem))}")


def _ended(text: str) -> str:
    return text if text.endswith("\n") else text + "\n"


def _write(stream: TextIO, text: str, encoding: str) -> None:
    """A terminal that cannot show a character gets its escape instead of ending the command."""
    stream.flush()
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(text)
    else:
        binary.write(text.encode(encoding, errors="backslashreplace"))
    stream.flush()
