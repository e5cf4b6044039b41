"""`drifted: {finding, tool}`: a change that was made at the provider is found, through the gateway, under its own name."""

from __future__ import annotations

from harness.expect.base import Kind, Place, Specimen
from harness.expect.no_drift import drift_report, entry, inventory_of
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """`finding`: the drift rule's id. `tool`: where."""

    finding: str
    tool: str
    connection: str | None = None


class Drifted(Kind[Params]):
    id = "drifted"
    summary = "the gateway's catalog shows a change of the provider's tools, and drift names it"
    params = Params
    needs = frozenset({"catalog"})
    scopes = frozenset({"run"})
    leg = "schema"
    reads_inventory = True

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        connection = params.connection or view.only_connection()
        report = drift_report(view, connection)
        if report is None:
            return [self.finding(place, f"{connection!r} has no inventory or no catalog to compare", severity="error")]
        shown = [f"{f.tool}: {f.id}" for f in report.findings]
        if any(f.id == params.finding and f.tool == params.tool for f in report.findings):
            return []
        return [
            self.finding(
                place,
                f"{params.tool} was changed at the provider and the gateway's catalog does not show it",
                expected=f"{params.tool}: {params.finding}",
                actual=shown,
                fix="a refresh must take over what the provider lists now",
            )
        ]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, names in ((good, ()), (bad, ("get_memory",))):
            scene.inventories["mem0"] = inventory_of("get_memory")
            scene.control("catalog", {"tools": [entry(name) for name in names], "complete": True})
        yaml = "drifted: {finding: tool-removed, tool: get_memory}"
        return Specimen(yaml, good.view(), step=""), Specimen(yaml, bad.view(), step="")


KIND = Drifted()
