"""Where ids and tokens come from: a port, so that nothing else in the gateway draws random numbers."""

from __future__ import annotations

from secrets import token_hex, token_urlsafe
from typing import Protocol


class Ids(Protocol):
    def new(self, prefix: str) -> str:
        """An id that was never given before; opaque to everybody."""
        ...

    def token(self) -> str:
        """A bearer secret of at least 256 bits."""
        ...


class RandomIds:
    def new(self, prefix: str) -> str:
        return f"{prefix}_{token_hex(10)}"

    def token(self) -> str:
        return f"rt_{token_urlsafe(32)}"
