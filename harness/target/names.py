"""Tool names as a gateway shows them, by declaration: prefix, separator, and what it does to letters. Nothing is guessed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Naming:
    """`separator` between connection and tool; None: the bare name is shown, which needs a session with one connection.

    `letters`: pairs of what stands at the provider and what the gateway makes of it, such as ("_", "-"); they apply to the tool's name.
    """

    separator: str | None = None
    letters: tuple[tuple[str, str], ...] = ()

    def shown(self, connection: str, tool: str) -> str:
        for own, theirs in self.letters:
            tool = tool.replace(own, theirs)
        return tool if self.separator is None else f"{connection}{self.separator}{tool}"

    def table(self, connection: str, tools: Iterable[str]) -> dict[str, str]:
        """Shown name → own name. Where two tools would be shown alike, neither stands in it: that cannot be mapped back."""
        found: dict[str, list[str]] = {}
        for tool in tools:
            found.setdefault(self.shown(connection, tool), []).append(tool)
        return {shown: own[0] for shown, own in found.items() if len(own) == 1}

    def own(self, exposed: str, connection: str) -> tuple[str, str]:
        """(connection, the provider's tool) as far as the declaration can tell; ("", exposed) for what does not follow it."""
        if self.separator is None:
            tool = exposed
        else:
            head, found, tool = exposed.partition(self.separator)
            if not found or head != connection:
                return "", exposed
        for own, theirs in self.letters:
            tool = tool.replace(theirs, own)
        return connection, tool
