"""`received: {…}`: what reached the provider during this step, by the witness: how much, and with which argument."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """`exchanges`: of any kind, from the step's beginning to its end. `argument`: of the step's calls as the provider got them; `equals` its value.

    `connection` may be left out when there is only one.
    """

    exchanges: int | None = Field(default=None, ge=0)
    argument: str | None = None
    equals: Any = None
    connection: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_bare(cls, value: Any) -> Any:
        if isinstance(value, dict) and ("exchanges" in value) == ("argument" in value):
            raise ValueError("say either exchanges: or argument:, such as {exchanges: 0} or {argument: workspace_id, equals: acme}")
        return value


class Received(Kind[Params]):
    id = "received"
    summary = "this much reached the provider during the step, or its call with this argument"
    params = Params
    scopes = frozenset({"step"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        record = view.steps.get(place.step)
        if record is None:
            return [self.finding(place, "the step did not run", severity="error", fix="see the step's own trouble in the evidence")]
        if params.argument is not None:
            return self._argument(params, params.argument, place, view)
        connection = params.connection or view.only_connection()
        seen = [e for name, e in view.exchanges if name == connection and record.started_seq < e.started_seq < record.ended_seq]
        if len(seen) == params.exchanges:
            return []
        what = [e.rpc_method or f"{e.method} {e.path}" for e in seen][:10]
        return [self.finding(place, f"{len(seen)} requests reached {connection} during the step", expected=params.exchanges, actual=what)]

    def _argument(self, params: Params, argument: str, place: Place, view: View) -> list[Finding]:
        seen = list(view.dispatches_of(place.step))
        if not seen:
            return [self.finding(place, "no call of the step reached the provider", expected=f"a call with {argument}", actual=0)]
        values = [(d.exchange.arguments or {}).get(argument) for d in seen]
        if all(value == params.equals and isinstance(value, bool) == isinstance(params.equals, bool) for value in values):
            return []
        fix = "an argument that an operator fixed goes into every call, whatever the agent sends"
        return [self.finding(place, f"the provider got another {argument}", expected=params.equals, actual=values, fix=fix)]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        good.call(arguments={"workspace_id": "acme"})
        bad.call(arguments={"workspace_id": "globex"})
        yaml = "received: {argument: workspace_id, equals: acme}"
        return Specimen(yaml, good.view()), Specimen(yaml, bad.view())


KIND = Received()
