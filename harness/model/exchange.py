"""What the witness logs: one provider-side HTTP exchange, and the order numbers that put it among all other events."""

from __future__ import annotations

import itertools
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

RESULT_BOUND = 65536
"""Bytes of canonical JSON up to which a result is kept; a larger one is known by its digest only."""

Outcome = Literal["answered", "client_gone", "upstream_failed", "fault", "unmounted"]


class Sequencer:
    """Order numbers of one bench: 1, 2, 3, … shared by all who record events, so that any two events can be ordered."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def next(self) -> int:
        return next(self._numbers)


class ProviderExchange(BaseModel):
    """One request that reached the tap, and what was sent back to the gateway.

    `status`, `result`, `is_error`, `rpc_error_code` and `result_digest` say what the *gateway* received, a fault or a mutation included;
    `forwarded` says whether the request went on to the provider. In flight: `outcome` and `ended_seq` are None.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    n: int
    """Order of arrival within the mount, from 1."""
    mount: str
    at: str
    """Arrival, RFC 3339 UTC with microseconds, by the harness's clock."""
    method: str
    path: str
    """Below the mount, without the query."""
    rpc_method: str | None = None
    rpc_id: str | None = None
    tool: str | None = None
    """tools/call: the tool's name; REST: the name that the mount's table of operations gives it."""
    arguments: dict[str, Any] | None = None
    arguments_digest: str | None = None
    """None also when the arguments have no canonical text (a number that a double cannot carry)."""
    traceparent: str | None = None
    protocol_version: str | None = None
    forwarded: bool = False
    status: int | None = None
    is_error: bool | None = None
    rpc_error_code: int | None = None
    result: Any = None
    """The JSON-RPC result or the REST body, if its canonical text is within RESULT_BOUND."""
    result_digest: str | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    started_seq: int
    ended_seq: int | None = None
    outcome: Outcome | None = None
    fault: str | None = None
    """Names every interference of the tap, comma-separated (`latency`, `status`, `mutation`, …); None means untouched."""
