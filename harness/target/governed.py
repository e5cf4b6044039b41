"""What an operator can do beyond the common seam: look at held-back tools, and change what a run may do while it runs.

Only a gateway that has it implements this; verbs that need it ask for the ability and then for the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from harness.errors import Untestable

Decision = Literal["allow", "keep_blocked"]
Mode = Literal["execute", "planning", "ask"]


@runtime_checkable
class Governed(Protocol):
    """Every method raises HarnessError when it cannot tell."""

    async def review(self, tenant: str, connection: str, tool: str, *, decision: Decision, by: str) -> Mapping[str, Any]:
        """Decides the tool's pending entry of the quarantine; the entry afterwards. A tool without one is a HarnessError."""
        ...

    async def set_agents(self, tenant: str, connection: str, agents: Sequence[str] | None) -> Mapping[str, Any]:
        """Who may use the connection from the next call on: None for every agent, an empty list for none; the connection afterwards."""
        ...

    async def set_mode(self, tenant: str, run: str, mode: Mode) -> Mapping[str, Any]:
        """From the next call on; the run afterwards."""
        ...


def governed(target: object) -> Governed:
    """The target, if it can be operated so; otherwise Untestable."""
    if isinstance(target, Governed):
        return target
    raise Untestable("this gateway has no operator's way to do that", where="target", fix="use a target with the abilities quarantine and modes")
