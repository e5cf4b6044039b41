"""`grown: {since: STEP, at_most_mb: N}`: by how much the gateway's memory grew, at its peak, between two weighings."""

from __future__ import annotations

from pydantic import Field

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.evidence import ControlRecord
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """Megabytes (10^6 bytes), from what was held at the step `since` to the peak at this step; both weigh the gateway."""

    since: str
    at_most_mb: float = Field(gt=0)


class Grown(Kind[Params]):
    id = "grown"
    summary = "the gateway's memory grew by no more than this between two weighings, at its peak"
    params = Params
    scopes = frozenset({"step"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        weighed = {record.step: record.data for record in view.controls("weigh")}
        if place.step not in weighed or params.since not in weighed:
            return [self.finding(place, "the gateway was not weighed at both steps", severity="error", fix="weigh it at this step and at the other")]
        growth = round(weighed[place.step]["peak_mb"] - weighed[params.since]["now_mb"], 1)
        if growth <= params.at_most_mb:
            return []
        fix = "unpack and read what comes from outside in pieces, and stop at the bound"
        return [self.finding(place, f"the gateway's memory grew by {growth:g} MB", expected=params.at_most_mb, actual=growth, fix=fix)]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, peak in ((good, 81.0), (bad, 300.0)):
            for step, data in (("before", {"peak_mb": 90.0, "now_mb": 80.0}), ("act", {"peak_mb": peak, "now_mb": 80.0})):
                scene.records.append(ControlRecord(item="x", phase="steps", step=step, action="weigh", seq=1, data=data))
        yaml = "grown: {since: before, at_most_mb: 16}"
        return Specimen(yaml, good.view()), Specimen(yaml, bad.view())


KIND = Grown()
