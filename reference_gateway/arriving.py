"""Who asks is judged when the head of a request is read, and again when it took its time to arrive: what it rests on may be gone by then."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Message, Receive

from reference_gateway.clock import Clock

SLOW_S = 0.1
"""Seconds from the head of a request to the end of its body, from which on it is judged again."""


def arriving(receive: Receive, clock: Clock, late: Callable[[], None]) -> Receive:
    """`late` is called when a request that took longer is whole, before anybody reads its end; what it raises, the reader of the body meets."""
    began = clock.monotonic()

    async def message() -> Message:
        found = await receive()
        if found["type"] == "http.request" and not found.get("more_body") and clock.monotonic() - began > SLOW_S:
            late()
        return found

    return message
