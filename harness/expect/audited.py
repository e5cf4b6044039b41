"""`audited: WORD`: the call's records in the audit, all of them, in order, exactly as the table says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import field_validator, model_validator

from harness.expect.audit_table import TABLE, WORDS, matches, name_of, spell
from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.location import Frozen

Trail = Sequence[Mapping[str, Any]]


class Params(Frozen):
    """`is`: the word. At a step: the last attempt's trail. On the run: every trail of `tool` (cleanup left out), `count` of them.

    `reason` narrows the last record's reason; the rest are details of the last record, compared as they stand.
    """

    is_: str
    tool: str | None = None
    count: int | None = None
    reason: str | None = None
    details: Mapping[str, Any] = {}

    model_config = Frozen.model_config | {"populate_by_name": True}

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, value: Any) -> Any:
        if isinstance(value, dict):
            renamed = dict(value)
            for short in ("value", "is"):
                if short in renamed:
                    renamed["is_"] = renamed.pop(short)
            return renamed
        return value

    @field_validator("is_")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in TABLE:
            raise ValueError(f"unknown audit word; use one of: {', '.join(WORDS)}")
        return value


class Audited(Kind[Params]):
    id = "audited"
    summary = "the audit holds exactly the records that belong to this outcome, in order"
    params = Params
    needs = frozenset({"audit"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        if place.step:
            return self._step(params, place, view)
        return self._run(params, place, view)

    def _step(self, params: Params, place: Place, view: View) -> list[Finding]:
        calls = view.calls(place.step)
        if not calls:
            return self.no_call(place)
        found = self._trail(params, place, view.trail_of(calls[-1]), calls[-1].tool)
        for number, call in enumerate(calls[:-1], 1):  # attempts of an eventually: each must at least be whole
            trail = view.trail_of(call)
            if not name_of(trail):
                found.append(
                    self.finding(place, f"attempt {number} of {call.tool} left a trail that fits no outcome", actual=[spell(r) for r in trail])
                )
        return found

    def _run(self, params: Params, place: Place, view: View) -> list[Finding]:
        trails = [t for key, t in view.trails.items() if key not in view.cleanup_invocations and params.tool in (None, t[0].get("tool"))]
        name = params.tool or "any tool"
        if params.count is not None and len(trails) != params.count:
            return [self.finding(place, f"{len(trails)} calls of {name} are in the audit", expected=params.count, actual=len(trails))]
        if not trails:
            return [self.finding(place, f"no call of {name} is in the audit", expected=params.is_, actual="nothing")]
        return [f for trail in trails for f in self._trail(params, place, trail, str(trail[0].get("tool")))]

    def _trail(self, params: Params, place: Place, trail: Trail, tool: str) -> list[Finding]:
        if not trail:
            return [self.finding(place, f"the audit holds no record of this call of {tool}", expected=params.is_, actual="nothing")]
        if not matches(params.is_, trail):
            actual = name_of(trail)
            return [
                self.finding(
                    place,
                    f"the audit of {tool} says {actual or 'something that fits no outcome'}, expected {params.is_}",
                    expected=[str(r) for r in TABLE[params.is_]],
                    actual=[spell(r) for r in trail],
                    fix="docs/operator-api.md lists the records of each outcome",
                )
            ]
        found = []
        last = trail[-1]
        if params.reason and last.get("reason") != params.reason:
            found.append(self.finding(place, f"{tool}: the last record's reason differs", expected=params.reason, actual=last.get("reason")))
        details = {k: v for r in trail for k, v in (r.get("details") or {}).items()}
        for key, wanted in params.details.items():
            if details.get(key) != wanted:
                found.append(self.finding(place, f"{tool}: the audit's {key} differs", expected=wanted, actual=details.get(key)))
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        good.call(trail="success")
        bad.trail("success", bad.call(), drop=2)
        return Specimen("audited: success", good.view()), Specimen("audited: success", bad.view())


KIND = Audited()
