"""`result: {…}`: what the agent got back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene, answer
from harness.expect.text import difference
from harness.expect.view import View
from harness.model.answer import json_of, pointer, text_of
from harness.model.evidence import ClientExchange
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """Every key given must hold.

    is_error: the result's isError. at: JSON pointer into the answer (structured content, else JSON-in-text); without it the whole text.
    equals / contains / absent: of the value at `at`. count: number of elements there. code: a JSON-RPC error code. origin: provider or gateway.
    """

    is_error: bool | None = None
    at: str | None = None
    equals: Any = None
    contains: str | None = None
    absent: str | None = None
    count: int | None = None
    code: int | None = None
    origin: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_bare(cls, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"value"}:
            raise ValueError("say what the result must be, such as {is_error: false}")
        return value


class Result(Kind[Params]):
    id = "result"
    summary = "the answer the agent got has these properties"
    params = Params
    scopes = frozenset({"step"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        call = view.last_call(place.step)
        if call is None:
            return self.no_call(place)
        if params.code is not None:
            actual = call.error.code if call.error else None
            return [] if actual == params.code else [self.finding(place, "the JSON-RPC error code differs", expected=params.code, actual=actual)]
        if call.result is None:
            reason = call.transport_error or (f"JSON-RPC error {call.error.code}: {call.error.message}" if call.error else "nothing")
            return [self.finding(place, f"{call.tool} gave no result: {reason}", expected="a result", actual=reason)]
        return self._flags(params, place, call, view) + self._value(params, place, call.result)

    def _flags(self, params: Params, place: Place, call: ClientExchange, view: View) -> list[Finding]:
        found = []
        is_error = bool((call.result or {}).get("isError", False))
        if params.is_error is not None and is_error != params.is_error:
            text = text_of(call.result)[:300]
            found.append(self.finding(place, f"isError is {is_error}: {text}", expected=params.is_error, actual=is_error))
        origin = call.said.get("origin") or ("provider" if view.dispatches_of(place.step) else "gateway")  # silent gateways: ask the witness
        if params.origin is not None and origin != params.origin:
            found.append(self.finding(place, "the answer comes from elsewhere", expected=params.origin, actual=origin))
        return found

    def _value(self, params: Params, place: Place, result: Mapping[str, Any]) -> list[Finding]:
        if params.at is None:
            value: Any = text_of(result)
        else:
            present, value = pointer(json_of(result), params.at)
            if not present:
                return [self.finding(place, f"the answer has nothing at {params.at}", expected=params.at, actual=text_of(result)[:300])]
        found = []
        if params.equals is not None and value != params.equals:
            found.append(self._unequal(params, place, value))
        haystack = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if params.contains is not None and params.contains not in haystack:
            found.append(self.finding(place, "the answer does not contain the text", expected=params.contains, actual=haystack[:300]))
        if params.absent is not None and params.absent in haystack:
            found.append(self.finding(place, "the answer contains what must be absent", expected=f"no {params.absent}", actual=haystack[:300]))
        if params.count is not None:
            size = len(value) if isinstance(value, list | dict) else None
            if size != params.count:
                found.append(self.finding(place, f"{size} elements at {params.at or 'the answer'}", expected=params.count, actual=size))
        return found

    def _unequal(self, params: Params, place: Place, value: Any) -> Finding:
        if isinstance(value, str) and isinstance(params.equals, str):
            return self.finding(
                place, f"the text is not the one expected: {difference(params.equals, value)}", fix="compare what was sent with what came back"
            )
        return self.finding(place, "the value differs", expected=params.equals, actual=value)

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        denied = answer("403: outside the consented tag", is_error=True)
        good.call(result=denied)
        bad.call(result={**denied, "isError": False})
        yaml = 'result: {is_error: true, contains: "403"}'
        return Specimen(yaml, good.view()), Specimen(yaml, bad.view())


KIND = Result()
