"""`dialled: {answer: CODE, addresses: [...]}`: what the gateway said to an address, and which listeners its connections reached."""

from __future__ import annotations

from typing import Any

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.evidence import ControlRecord
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """`answer`: the operator API's code for every URL of the step. `addresses`: exactly those that were dialled; none unless some are named."""

    answer: str
    addresses: tuple[str, ...] = ()


class Dialled(Kind[Params]):
    id = "dialled"
    summary = "the gateway answered every address of the step with this code, and dialled exactly these addresses"
    params = Params
    scopes = frozenset({"step"})
    needs = frozenset({"mapped"})
    leg = "schema"

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        tried: list[Any] = [each for record in view.controls("dial") if record.step == place.step for each in record.data]
        if not tried:
            return [self.finding(place, "the step gave the gateway no address", severity="error", fix="use it at a step that dials")]
        found = []
        for each in tried:
            if each["answer"] != params.answer:
                found.append(
                    self.finding(place, f"the gateway said {each['answer']} to {each['url']}", expected=params.answer, actual=each["answer"])
                )
            dialled = sorted(each["dialled"])
            if dialled != sorted(params.addresses):
                found.append(
                    self.finding(
                        place,
                        f"for {each['url']} the gateway dialled {', '.join(dialled) or 'nothing'}",
                        expected=sorted(params.addresses),
                        actual=dialled,
                        fix="resolve a name once, judge every address, and dial one of those that were judged",
                    )
                )
        return found

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, dialled in ((good, {}), (bad, {"10.0.0.1": 1})):
            tried = [{"url": "https://mcp.example.com/", "names": {}, "answer": "provider_unreachable", "dialled": dialled}]
            scene.records.append(ControlRecord(item="x", phase="steps", step="act", action="dial", seq=1, data=tried))
        yaml = "dialled: {answer: provider_unreachable}"
        return Specimen(yaml, good.view()), Specimen(yaml, bad.view())


KIND = Dialled()
