"""Cancellations of requests that nobody made: ignored, and recorded, a few a run and minute one by one and the rest as a number."""

from __future__ import annotations

import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from reference_gateway.clock import Clock
from reference_gateway.runs import Run
from reference_gateway.store.base import StoreError
from reference_gateway.wire import Json

FEW = 5
WINDOW_S = 60.0
MAX_SESSIONS = 8_000
MAX_RUNS = 4_000
MAX_ENDED = 32
"""Requests of a session whose end is remembered: a cancellation may cross with the answer."""

Number = str | int


@dataclass(slots=True)
class _Requests:
    open: set[str] = field(default_factory=set)
    ended: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_ENDED))


@dataclass(slots=True)
class _Window:
    until: float
    recorded: int = 0
    more: int = 0


class Cancellations:
    """`record` writes one, with these details. Raises nothing of its own; a session is that of an agent of the handshake era."""

    def __init__(self, clock: Clock, record: Callable[[Run, Json], None]) -> None:
        self._clock = clock
        self._record = record
        self._sessions: OrderedDict[str, _Requests] = OrderedDict()
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def begun(self, session: str, number: Number, *, loose: bool = False) -> None:
        """`loose`: whoever serves it takes 7 and "7" for the same number."""
        if (requests := self._sessions.get(session)) is None:
            requests = self._sessions[session] = _Requests()
            while len(self._sessions) > MAX_SESSIONS:
                self._sessions.popitem(last=False)
        requests.open.update(_names(number, loose))

    def ended(self, session: str, number: Number, *, loose: bool = False) -> None:
        if (requests := self._sessions.get(session)) is not None:
            requests.open.difference_update(_names(number, loose))
            requests.ended.extend(_names(number, loose))

    def cancelled(self, run: Run, session: str | None, number: object) -> None:
        """An agent cancels the request of this number. `session` None: an agent of 2026-07-28, which cancels by leaving and never so."""
        requests = self._sessions.get(session) if session is not None else None
        if requests is not None and not {*requests.open, *requests.ended}.isdisjoint(_names(number, loose=False)):
            return
        window = self._window(run)
        if window.recorded < FEW:
            window.recorded += 1
            self._write(run, {"request": str(number)[:100]})
            return
        window.more += 1
        if window.more == 1:
            self._clock.call_later(window.until - self._clock.monotonic(), lambda: self._rest(run, window))

    def _window(self, run: Run) -> _Window:
        now = self._clock.monotonic()
        found = self._windows.get(run.run)
        if found is None or found.until <= now:
            found = self._windows[run.run] = _Window(now + WINDOW_S)
            self._windows.move_to_end(run.run)
            while len(self._windows) > MAX_RUNS:
                self._windows.popitem(last=False)
        return found

    def _rest(self, run: Run, window: _Window) -> None:
        more, window.more = window.more, 0
        self._write(run, {"more": more})

    def _write(self, run: Run, details: Json) -> None:
        with contextlib.suppress(StoreError):  # nobody waits for the answer to a notification
            self._record(run, details)


def _names(number: object, loose: bool) -> tuple[str, ...]:
    return (f"int {number}", f"str {number}") if loose else (f"{type(number).__name__} {number}",)
