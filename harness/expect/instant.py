"""`instant: {at, …}`: a time in an answer, compared as an instant and never as text."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene, answer
from harness.expect.view import View
from harness.model.answer import json_of, pointer
from harness.model.finding import Finding
from harness.model.location import Frozen

PLACEHOLDER_BEFORE = datetime(2000, 1, 1, tzinfo=UTC)


class Params(Frozen):
    """`at`: JSON pointer. `equals`: an RFC 3339 time with offset. `not_before` / `not_after`: bounds. All as instants."""

    at: str
    equals: str | None = None
    not_before: str | None = None
    not_after: str | None = None
    tolerance_s: float = 0.0

    @model_validator(mode="after")
    def _offsets(self) -> Params:
        for text in (self.equals, self.not_before, self.not_after):
            if text is not None and "${" not in text and isinstance(read(text), str):
                raise ValueError(f"{text!r} is no time with an offset, such as 2026-07-25T02:00:00Z")
        return self


class Instant(Kind[Params]):
    id = "instant"
    summary = "a time in the answer is a real instant, with an offset, and is the one expected"
    params = Params
    scopes = frozenset({"step"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        call = view.last_call(place.step)
        if call is None:
            return self.no_call(place)
        present, value = pointer(json_of(call.result), params.at)
        if not present:
            return [self.finding(place, f"the answer has nothing at {params.at}", expected=params.at)]
        actual = read(value)
        if isinstance(actual, str):
            return [
                self.finding(
                    place, f"{params.at}: {actual}", expected="a time with an offset", actual=value, fix="write times as RFC 3339 with Z or an offset"
                )
            ]
        if actual < PLACEHOLDER_BEFORE:
            return [self.finding(place, f"{params.at} is a placeholder timestamp", expected="the time it happened", actual=value)]
        return self._bounds(params, place, actual, value)

    def _bounds(self, params: Params, place: Place, actual: datetime, shown: Any) -> list[Finding]:
        found = []
        slack = timedelta(seconds=params.tolerance_s)
        checks: tuple[tuple[str | None, Callable[[datetime], bool], str], ...] = (
            (params.equals, lambda t: abs(actual - t) <= slack, "another instant than"),
            (params.not_before, lambda t: actual >= t - slack, "earlier than"),
            (params.not_after, lambda t: actual <= t + slack, "later than"),
        )
        for text, holds, word in checks:
            wanted = read(text) if text is not None else None
            if isinstance(wanted, datetime) and not holds(wanted):
                found.append(self.finding(place, f"{params.at} is {word} {text}", expected=text, actual=shown))
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        good.call(result=answer({"created_at": "2026-07-24T19:00:00-07:00"}))
        bad.call(result=answer({"created_at": "2026-07-25T02:00:00"}))
        yaml = 'instant: {at: /created_at, equals: "2026-07-25T02:00:00Z"}'
        return Specimen(yaml, good.view()), Specimen(yaml, bad.view())


def read(value: Any) -> datetime | str:
    """The instant, or what is wrong with the value. No local zone is ever guessed."""
    if not isinstance(value, str):
        return "no text"
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return "not a time"
    return moment if moment.tzinfo is not None else "naive, unknown offset"


KIND = Instant()
