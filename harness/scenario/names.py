"""Names and how they are written: ids, connections, `<connection>.<tool>`."""

from __future__ import annotations

import re
from collections.abc import Collection

from harness.errors import UsageError
from harness.registry import suggest

ID_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]*$"
SCENARIO_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
CONNECTION_PATTERN = r"^[a-z][a-z0-9-]{0,39}$"
LET_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]*$"
RESERVED = ("run", "nonce")
"""`${run.id}` and `${nonce}` are built in, so neither a step nor a variable may take these names."""


def fits(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern.strip("^$"), name) is not None


def tool_of(target: str, connections: Collection[str]) -> tuple[str, str]:
    """(connection, tool) of a `call:` value. A bare tool is taken when there is one connection.

    Raises UsageError: the connection is not declared, or a bare tool could be any connection's.
    """
    prefix, dot, tool = target.partition(".")
    if dot and prefix in connections and tool:
        return prefix, tool
    if dot and tool:
        known = sorted(connections)
        fix = suggest(prefix, known) if known else f"declare it: connections: {{{prefix}: {{}}}}"
        raise UsageError(f"the connection {prefix!r} is not declared", fix=f"{fix} (or declare it under connections:)" if known else fix)
    if dot:
        raise UsageError(f"{target!r} names no tool", fix=f"write {prefix}.<tool>")
    if len(connections) == 1:
        return next(iter(connections)), target
    if not connections:
        raise UsageError(f"{target!r} needs a connection", fix="declare it under connections:")
    raise UsageError(f"{target!r} could be a tool of any connection", fix=f"name it: {min(connections)}.{target}")
