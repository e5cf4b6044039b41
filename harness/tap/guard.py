"""The last line before a provider: who may look at each request before it is passed on, and refuse it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.tap.fault import Reply, whole_reply
from harness.tap.witness import OpenExchange


@dataclass(frozen=True, slots=True)
class Refused:
    """`rule` stands in the log as the exchange's fault; the gateway gets `status` and `why`, and the provider nothing."""

    rule: str
    status: int
    why: str

    def reply(self) -> Reply:
        return whole_reply(self.status, {"error": self.why})


class Guard(Protocol):
    """Set as a mount's `guard`. `admit` may refuse; `answered` is told what went back, also of answers that the tap itself made."""

    def admit(self, exchange: OpenExchange) -> Refused | None: ...
    def answered(self, exchange: OpenExchange, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None: ...
