"""`secrets_found: 0`: how often the search of everything that the gateway wrote down came upon a credential of the run.

`secrets_found: {count: 0, in: store}` looks at one kind of place alone.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.evidence import ControlRecord
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """`in`: the gateway's `store` (every page of its file and of the write-ahead log), its `log`, or its `processes`; all unless one is named."""

    count: int = Field(ge=0)
    in_: Literal["store", "log", "processes"] | None = Field(default=None, alias="in")

    model_config = Frozen.model_config | {"populate_by_name": True}

    @model_validator(mode="before")
    @classmethod
    def _bare_number(cls, value: Any) -> Any:
        return {"count": value["value"]} if isinstance(value, dict) and set(value) == {"value"} else value


class SecretsFound(Kind[Params]):
    id = "secrets_found"
    summary = "the search of the gateway's files and processes came upon the run's credentials exactly this often, and was not blind"
    params = Params
    scopes = frozenset({"step"})
    needs = frozenset({"credentials"})

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        searched = [record.data for record in view.controls("search_secrets") if record.step == place.step]
        if not searched:
            return [self.finding(place, "the step searched nothing", severity="error", fix="use it at a step that searches")]
        last = searched[-1]
        if last["missed"]:
            blind = ", ".join(last["missed"])
            return [self.finding(place, f"the search did not find what was planted for it ({blind})", severity="error", fix="please report this")]
        hits = [f"{hit['secret']} in {hit['place']}" for hit in last["found"] if params.in_ in (None, kind_of(hit["place"]))]
        if len(hits) == params.count:
            return []
        shown = "; ".join(hits) or "nothing"
        fix = "credentials exist sealed in the vault and on the wire to their provider, and nowhere else"
        return [self.finding(place, f"the search came upon {shown}", expected=params.count, actual=hits, fix=fix)]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, found in ((good, []), (bad, [{"secret": "mem0:credentials.authorization (raw)", "place": "log"}])):
            data = {"places": {"log": 100}, "secrets": 2, "found": found, "missed": []}
            scene.records.append(ControlRecord(item="x", phase="steps", step="act", action="search_secrets", seq=1, data=data))
        return Specimen("secrets_found: 0", good.view()), Specimen("secrets_found: 0", bad.view())


def kind_of(place: str) -> str:
    if place.startswith("process "):
        return "processes"
    return "log" if place == "log" else "store"


KIND = SecretsFound()
