"""What an agent is told about its connections before its first call: when to recall, when to save."""

from __future__ import annotations

from collections.abc import Iterable

from reference_gateway.connection import Connection

OWN = "Tools of several connections, named <connection>__<tool>. A result whose gateway/outcome is pending waits for a person."


def told(connections: Iterable[Connection], *, also_disabled: bool = False) -> str:
    """The gateway's own sentence, then each connection's text under its name; a connection without one is left out."""
    parts = [OWN]
    for connection in connections:
        if connection.text.strip() and (connection.instructions_on or also_disabled):
            parts.append(f"## {connection.name}\n{connection.text.strip()}")
    return "\n\n".join(parts)
