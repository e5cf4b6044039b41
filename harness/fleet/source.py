"""What a user may name as one side: parsed once, as plain data that can travel to another machine."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from harness.errors import UsageError
from harness.model.location import Frozen

Kind = Literal["url", "stdio", "file", "provider", "gateway"]
_PROVIDER = re.compile(r"[a-z][a-z0-9-]{0,39}\Z")
_GATEWAY = re.compile(r"(?P<provider>[a-z][a-z0-9-]{0,39})@(?P<target>[a-z][a-z0-9_-]*)\Z")
STDIO = "stdio:"


class Source(Frozen):
    """One side. `text` is the URL, path or provider as given; `command` is set for stdio, `target` for a gateway.

    `document` is the content of a file or inventory, read where the plan was made: a worker elsewhere need not have the file.
    """

    kind: Kind
    text: str
    command: tuple[str, ...] = ()
    target: str = ""
    document: str | None = None

    def __str__(self) -> str:
        return self.text


def parse_source(text: str) -> Source:
    """A URL, `stdio:COMMAND` or a quoted command line, `PROVIDER@TARGET`, a file, or a provider with an inventory. Raises UsageError."""
    if text.startswith(("http://", "https://")):
        return Source(kind="url", text=text)
    if text.startswith(STDIO):
        return command_source(_words(text.removeprefix(STDIO)))
    if found := _GATEWAY.match(text):
        return Source(kind="gateway", text=found["provider"], target=found["target"])
    if Path(text).exists():
        return Source(kind="file", text=text)
    if any(char.isspace() for char in text):
        return command_source(_words(text))
    return Source(kind="provider" if _PROVIDER.match(text) else "file", text=text)


def command_source(words: Sequence[str]) -> Source:
    """A command that speaks MCP on standard input and output. Raises UsageError when it is empty."""
    if not words:
        raise UsageError("an empty command", where="stdio", fix="name the program to start: stdio:'python server.py', or -- python server.py")
    return Source(kind="stdio", text=_shown(words), command=tuple(words))


def _shown(words: Sequence[str]) -> str:
    """How reports and inventories name a command: program and script, without folders of one machine, and without arguments, which may be secret."""
    shown = [word.replace("\\", "/").rpartition("/")[2] or word for word in words[:2] if not word.startswith("-")]
    return STDIO + shlex.join(shown) + (" …" if len(words) > len(shown) else "")


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UsageError(f"not a command line: {error}", where=text, fix="close the quotes") from error
