"""`answered: {…}`: what the gateway told the operator at this step, or why it refused."""

from __future__ import annotations

import json
from typing import Any

from pydantic import model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.answer import pointer
from harness.model.evidence import ControlRecord
from harness.model.finding import Finding
from harness.model.location import Frozen

STEPS = ("operate", "deliver", "crash", "look_inside", "request")


class Params(Frozen):
    """`refused`: the code of the refusal; without it the step must not have been refused.

    at: JSON pointer into the answer. equals / contains / absent: of the value there. count: number of elements there. missing: there is none.
    """

    refused: str | None = None
    at: str | None = None
    equals: Any = None
    contains: str | None = None
    absent: str | None = None
    count: int | None = None
    missing: bool = False

    @model_validator(mode="before")
    @classmethod
    def _not_bare(cls, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"value"}:
            raise ValueError("say what the answer must be, such as {refused: memory_api_key_rejected}")
        return value

    @model_validator(mode="after")
    def _somewhere(self) -> Params:
        asks = self.equals is not None or self.contains is not None or self.absent is not None or self.count is not None or self.missing
        if asks and self.at is None:
            raise ValueError("say where with at:")
        if not asks and self.at is not None:
            raise ValueError("say what must be there, with equals:, contains:, absent:, count: or missing:")
        return self


class Answered(Kind[Params]):
    id = "answered"
    summary = "the gateway told the operator this, or refused with this code"
    params = Params
    scopes = frozenset({"step"})
    leg = "schema"
    needs = frozenset({"setup"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        told = [c for action in STEPS for c in view.controls(action) if c.step == place.step and c.phase != "cleanup"]
        if not told:
            return [self.finding(place, "the step asked the gateway nothing", severity="error", fix="see the step's own trouble in the evidence")]
        data = told[-1].data if isinstance(told[-1].data, dict) else {}
        refused = str(data.get("refused", ""))
        if refused != (params.refused or ""):
            fix = "a gateway refuses before it stores or dials anything" if params.refused else "see gateway.log in the run's folder"
            wanted = f"a refusal: {params.refused}" if params.refused else "no refusal"
            return [
                self.finding(place, f"the gateway answered {refused or 'without refusing'}", expected=wanted, actual=refused or "accepted", fix=fix)
            ]
        return [] if params.at is None else self._value(params, place, told[-1])

    def _value(self, params: Params, place: Place, told: ControlRecord) -> list[Finding]:
        assert params.at is not None
        answer = told.data.get("answer") if told.action in ("operate", "request") else told.data
        present, value = pointer(answer, params.at)
        if params.missing:
            return [self.finding(place, f"the answer has something at {params.at}", expected="nothing", actual=shown(value))] if present else []
        if not present:
            return [self.finding(place, f"the answer has nothing at {params.at}", expected=params.at, actual=shown(answer))]
        found = []
        if params.equals is not None and (value != params.equals or isinstance(value, bool) != isinstance(params.equals, bool)):
            found.append(self.finding(place, f"another value at {params.at}", expected=params.equals, actual=shown(value)))
        haystack = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if params.contains is not None and params.contains not in haystack:
            found.append(self.finding(place, f"the answer at {params.at} does not contain the text", expected=params.contains, actual=shown(value)))
        if params.absent is not None and params.absent in haystack:
            found.append(
                self.finding(place, f"the answer at {params.at} holds what must be absent", expected=f"no {params.absent}", actual=shown(value))
            )
        size = len(value) if isinstance(value, list | dict | str) else None
        if params.count is not None and size != params.count:
            found.append(self.finding(place, f"{size} elements at {params.at}", expected=params.count, actual=size))
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, refused in ((good, "memory_api_key_rejected"), (bad, "")):
            scene.control("operate", {"operation": "enter_credentials", "http": 422, "refused": refused, "answer": {}}, phase="steps", step="act")
        yaml = "answered: {refused: memory_api_key_rejected}"
        return Specimen(yaml, good.view()), Specimen(yaml, bad.view())


def shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)[:300]


KIND = Answered()
