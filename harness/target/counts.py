"""What some gateways keep instead of a record: how many calls succeeded and failed. No tool, user or argument is named in it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class HasCounts(Protocol):
    """`counts`: how many calls of tools succeeded and failed since the gateway was started. Raises HarnessError when it cannot tell."""

    async def counts(self, tenant: str) -> tuple[int, int]: ...
