"""`denied: REASON`: the gateway refused the call, said why, and nothing left for the provider."""

from __future__ import annotations

from pydantic import field_validator

from harness.expect.audit_table import DENY
from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene, answer
from harness.expect.view import View
from harness.model.evidence import ClientExchange
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    value: str

    @field_validator("value")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in DENY:
            raise ValueError(f"no gateway refuses for that reason; use one of: {', '.join(sorted(DENY))}")
        return value


class Denied(Kind[Params]):
    id = "denied"
    summary = "the gateway refused the call for the named reason and dispatched nothing"
    params = Params
    needs = frozenset({"reasons"})
    scopes = frozenset({"step"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        call = view.last_call(place.step)
        if call is None:
            return self.no_call(place)
        actual = f"{call.said.get('outcome')}/{call.said.get('reason')}"
        found = []
        if call.said.get("outcome") != "denied" or call.said.get("reason") != params.value:
            found.append(
                self.finding(
                    place,
                    f"{call.tool} was to be refused as {params.value}, the gateway said {actual}",
                    expected=f"denied/{params.value}",
                    actual=actual,
                    fix=f"reasons a gateway may give: {', '.join(sorted(DENY))}",
                )
            )
        if not looks_refused(call):
            found.append(self.finding(place, "the refused call looks like a success to the agent", expected="isError true, or a JSON-RPC error"))
        trail = view.trail_of(call)
        if trail and trail[-1].get("reason") != params.value:
            found.append(
                self.finding(place, f"the audit gives another reason for refusing {call.tool}", expected=params.value, actual=trail[-1].get("reason"))
            )
        dispatched = len(view.dispatches_of(place.step))
        if dispatched:
            found.append(self.finding(place, f"{call.tool} was refused and yet reached the provider", expected=0, actual=dispatched))
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        said = {"outcome": "denied", "origin": "gateway", "reason": "tool_off"}
        good.call(result=answer("This tool is off.", is_error=True), said=said, dispatched=0, trail="denied")
        bad.call(result=answer("This tool is off.", is_error=True), said=said, dispatched=1, trail="denied")
        return Specimen("denied: tool_off", good.view()), Specimen("denied: tool_off", bad.view())


def looks_refused(call: ClientExchange) -> bool:
    return call.error is not None or (call.result is not None and call.result.get("isError") is True)


KIND = Denied()
