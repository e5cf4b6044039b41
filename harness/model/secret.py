"""What stands in evidence where a secret stood: MARKER[0] + name + MARKER[1]."""

from __future__ import annotations

MARKER = ("[secret:", "]")


def marker(name: str) -> str:
    return f"{MARKER[0]}{name}{MARKER[1]}"
