"""What some gateways keep instead of a record: how often each tool was called, and how often that failed. Nobody is named in it."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class HasCounts(Protocol):
    """`counts`: how often this tool of the provider's succeeded and failed since the gateway was started. Raises HarnessError when it cannot tell."""

    async def counts(self, tenant: str, connection: str, tool: str) -> tuple[int, int]: ...
