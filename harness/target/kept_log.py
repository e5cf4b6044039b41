"""A gateway's own proof of its audit log: a key, signed checkpoints outside its store, an export. Only a gateway that has them implements this."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

LARGEST = 64 * 1024 * 1024
"""Bytes of an export, at most; what one bench brings about has a hundredth of it."""


@runtime_checkable
class HasKeptLog(Protocol):
    def kept_log(self) -> KeptLog: ...


class KeptLog(Protocol):
    """Every method raises HarnessError when it cannot tell."""

    async def key(self) -> str:
        """The public key that checkpoints are signed with, base64."""
        ...

    def checkpoints(self) -> bytes:
        """Those that were kept so far, outside the store: one JSON object a line."""
        ...

    async def export(self, after: int) -> bytes:
        """The log of all tenants after record `after`, as JSON lines, closed by a checkpoint of its end."""
        ...
