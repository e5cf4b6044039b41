"""`pending: approval`: the call waits for a person, and says so to the agent, in whichever dialect its gateway speaks.

The dialects are the targets' business (harness/target/dialect.py). Whether the call really waited, the witness decides.
"""

from __future__ import annotations

from typing import Literal

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene, answer, held
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    value: Literal["approval"]


class Pending(Kind[Params]):
    id = "pending"
    summary = "the agent was told that the call waits for approval, with an approval id, and got no result"
    params = Params
    needs = frozenset({"approvals"})
    scopes = frozenset({"step"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        call = view.last_call(place.step)
        if call is None:
            return self.no_call(place)
        said = call.said
        if said.get("outcome") != "pending":
            shown = said.get("outcome") or call.transport_error or (call.error.message if call.error else "a result without a word on it")
            return [
                self.finding(
                    place,
                    f"{call.tool} was not held for approval: the gateway answered {shown!r}",
                    expected="pending",
                    actual=shown,
                    fix="a tool under Ask first must wait for a decision before anything is dispatched",
                )
            ]
        found = []
        if not said.get("approval"):
            found.append(self.finding(place, "the held call names no approval that a person could decide", expected="an approval id", actual=None))
        if "dialect" in said:
            return found + self._really_waited(place, view)
        if call.result is not None and call.result.get("isError") is not True:
            found.append(
                self.finding(
                    place,
                    "the held call looks like a success to the agent (isError is not true)",
                    expected=True,
                    actual=call.result.get("isError"),
                    fix="answer a pending call with isError true and a sentence that says to wait",
                )
            )
        return found

    def _really_waited(self, place: Place, view: View) -> list[Finding]:
        """Read from a dialect, "it waits" is a reading of ours: the witness must bear it out."""
        step = view.steps.get(place.step)
        early = [d for d in view.dispatches_of(place.step) if step is not None and d.exchange.started_seq <= step.ended_seq]
        message = "the call was said to wait and yet reached the provider"
        return [self.finding(place, message, expected=0, actual=len(early))] if early else []

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        held(good)
        bad.call("add_memory", {"text": "x"}, result=answer({"results": []}), trail="success")
        return Specimen("pending: approval", good.view()), Specimen("pending: approval", bad.view())


KIND = Pending()
