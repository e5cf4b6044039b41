"""What some gateways keep instead of a record: how often each tool was called, and how often that failed. Nobody is named in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable


@runtime_checkable
class HasCounts(Protocol):
    """`counts`: the provider's tool name → (succeeded, failed), since the gateway was started. Raises HarnessError when it cannot tell."""

    async def counts(self, tenant: str, connection: str) -> Mapping[str, tuple[int, int]]: ...
