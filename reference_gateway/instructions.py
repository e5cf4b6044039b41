"""What an agent is told about its connections before its first call: when to recall, when to save."""

from __future__ import annotations

from collections.abc import Iterable

from reference_gateway.connection import Connection

OWN = "Tools of several connections, named <connection>__<tool>. A result whose gateway/outcome is pending waits for a person."


def told(connections: Iterable[Connection], *, also_disabled: bool = False) -> str:
    """The gateway's own sentence, then each connection's text under its name; a connection without one is left out."""
    shown = [each for each in connections if each.text.strip() and (each.instructions_on or also_disabled)]
    return "\n\n".join([OWN, *(f"## {each.name}\n{each.text.strip()}" for each in shown)])
