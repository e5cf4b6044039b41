"""`dispatched: N`: how often the call truly reached the provider, by the witness's count."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene, held
from harness.expect.view import Dispatch, View
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """A bare number counts what left until the step ended. The long form counts to the end of the run.

    `step`: whose call (default: this step). `after` / `before`: every one of them after that step began / before it ended.
    """

    count: int = Field(ge=0)
    step: str | None = None
    after: str | None = None
    before: str | None = None
    until_step_end: bool = False

    @model_validator(mode="before")
    @classmethod
    def _bare_number(cls, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"value"}:
            return {"count": value["value"], "until_step_end": True}
        return value


class Dispatched(Kind[Params]):
    id = "dispatched"
    summary = "the witness saw the step's call reach the provider exactly this often, in this order"
    params = Params

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        step = params.step or place.step
        if not view.calls(step):
            return self.no_call(place)
        seen = list(view.dispatches_of(step))
        if params.until_step_end:
            record = view.steps.get(step)
            end = record.ended_seq if record else 0
            seen = [d for d in seen if d.exchange.started_seq <= end]
        found = []
        if len(seen) != params.count:
            found.append(
                self.finding(
                    place,
                    f"the provider received the call of step {step!r} {times(len(seen))}, expected {times(params.count)}",
                    expected=params.count,
                    actual=len(seen),
                    fix="compare the provider's exchanges with the gateway's call_started records",
                )
            )
        return found + self._order(params, place, view, seen)

    def _order(self, params: Params, place: Place, view: View, seen: list[Dispatch]) -> list[Finding]:
        found = []
        for name, late in ((params.after, True), (params.before, False)):
            record = view.steps.get(name) if name else None
            if name and record is None:
                found.append(self.finding(place, f"step {name!r} did not run, so the order cannot be told", severity="error"))
            elif record is not None:
                wrong = [d for d in seen if (d.exchange.started_seq < record.started_seq if late else d.exchange.started_seq > record.ended_seq)]
                if wrong:
                    word = "before" if late else "after"
                    found.append(
                        self.finding(place, f"{times(len(wrong))} the call reached the provider {word} step {name!r}", expected=0, actual=len(wrong))
                    )
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        good.approve(held(good))
        bad.approve(held(bad), dispatched=2)
        yaml = "dispatched: {count: 1, after: allow}"
        return Specimen(yaml, good.view()), Specimen(yaml, bad.view())


def times(count: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(count, f"{count} times")


KIND = Dispatched()
