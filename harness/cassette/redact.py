"""Known secrets never reach a file: each is replaced by a marker, in every spelling we look for, before anything is written."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from harness.model.secret import marker

SHORTEST = 6
"""A secret shorter than this would turn ordinary text into markers; such a one is refused."""


def spellings(secret: str) -> Iterator[str]:
    """How a secret may stand in text: raw, JSON-escaped, percent-encoded, hex, base64 and base64url at each offset."""
    raw = secret.encode()
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(secret, safe="")
    yield quote(secret)
    yield raw.hex()
    yield raw.hex().upper()
    yield secret[::-1]
    for offset in range(3):
        yield from _inner_base64(raw, offset)


def _inner_base64(raw: bytes, offset: int) -> Iterator[str]:
    """The characters of a base64 text that depend on the secret alone, when it begins `offset` bytes into a group."""
    padded = b"\0" * offset + raw
    whole = len(padded) // 3 * 4
    skip = 0 if offset == 0 else offset + 1
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        yield encode(padded).decode()[skip:whole]


class Redactor:
    """Secrets by name. `clean` is a pure function of the secrets known so far."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def know(self, secrets: Mapping[str, str]) -> None:
        """From now on these are replaced. Raises ValueError for one too short to be told from ordinary text."""
        for name, secret in secrets.items():
            if len(secret) < SHORTEST:
                raise ValueError(f"the secret {name!r} is shorter than {SHORTEST} characters")
            for spelling in spellings(secret):
                if len(spelling) >= SHORTEST:
                    self._names.setdefault(spelling, name)
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def clean(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: marker(self._names[found.group()]), text)
