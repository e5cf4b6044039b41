"""Where the sandbox gets values that nobody had before: tickets of channels, marks of controls. A port, like the bench's Names."""

from __future__ import annotations

import secrets


def mark(size: int = 16) -> str:
    """`size` random bytes in hexadecimal."""
    return secrets.token_hex(size)
