"""Rate limits: after a 429, or a 503 that says when to come back, nothing more is sent to that provider before its time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from email.utils import parsedate_to_datetime

from harness.clock import Clock

UNSAID_S = 5.0
"""Waited after a 429 that does not say how long; doubled for each further one in a row."""
LONGEST_S = 86_400.0


def retry_after(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or an HTTP date. None for nothing that can be read."""
    text = (value or "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return min(float(text), LONGEST_S)
    try:
        then = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return None
    if then.tzinfo is None:
        return None
    return min(max((then - now).total_seconds(), 0.0), LONGEST_S)


class Pace:
    """When each provider may be asked again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._not_before: dict[str, float] = {}
        self._in_a_row: dict[str, int] = {}

    def wait(self, provider: str) -> float:
        """Seconds until the next request may leave; 0.0 for now."""
        return max(self._not_before.get(provider, 0.0) - self._clock.monotonic(), 0.0)

    def answered(self, provider: str, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        named = next((value.decode("latin-1") for name, value in headers if name.lower() == b"retry-after"), None)
        asked = retry_after(named, self._clock.now())
        if status != 429 and not (status == 503 and asked is not None):
            self._in_a_row.pop(provider, None)
            return
        count = self._in_a_row.get(provider, 0)
        self._in_a_row[provider] = count + 1
        pause = asked if asked is not None else UNSAID_S * 2 ** min(count, 8)
        self._not_before[provider] = max(self._not_before.get(provider, 0.0), self._clock.monotonic() + pause)
