"""`no_drift: true`: the tools the gateway discovered are the reviewed ones."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ValidationError, model_validator

from harness.drift.compare import compare
from harness.drift.relation import unproven
from harness.drift.relations import confirmed
from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.inventory.side import Side, catalog_side, inventory_side
from harness.model.drift import DriftReport, ToolRelation
from harness.model.evidence import RelationRecord
from harness.model.finding import Finding
from harness.model.inventory import Inventory, Taken, ToolRecord
from harness.model.location import Frozen


class Params(Frozen):
    """`fail_on`: severities that fail besides breaking. Against a stand-in its prose and hashes are its own and not compared."""

    connection: str | None = None
    fail_on: tuple[Literal["breaking", "risk", "text", "any"], ...] = ("breaking", "risk")

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {} if value == {"value": True} else value


class NoDrift(Kind[Params]):
    id = "no_drift"
    summary = "the discovered tools agree with the inventory in names, parameters, shape, risk and, where the source is real, hash"
    params = Params
    needs = frozenset({"catalog"})
    scopes = frozenset({"run"})
    leg = "schema"
    reads_inventory = True

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        connection = params.connection or view.only_connection()
        report = drift_report(view, connection)
        if report is None:
            return [self.finding(place, f"{connection!r} has no inventory or no catalog to compare", severity="error", fix="see inventories/")]
        if not report.complete:
            return [self.finding(place, f"the tool list is incomplete: {report.reason}", severity="error", rule="list-incomplete")]
        return [
            self.finding(place, f.message, expected=f.expected, actual=f.actual, fix=f.fix, severity="drift", rule=f.id)
            for f in report.fails_on(params.fail_on)
        ]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        for scene, names in ((good, ("get_memory",)), (bad, ())):
            scene.inventories["mem0"] = inventory_of("get_memory")
            scene.control("catalog", {"tools": [entry(name) for name in names], "complete": True})
        return Specimen("no_drift: true", good.view(), step=""), Specimen("no_drift: true", bad.view(), step="")


def drift_report(view: View, connection: str) -> DriftReport | None:
    """The gateway's newest catalog against the inventory, by what was found of their schemas during the run; None when either is missing."""
    sides = sides_of(view, connection)
    if sides is None:
        return None
    relations = {record.tool: checked(record, sides) for record in view.relations(connection)}
    return compare(*sides, against="fake" if view.level == "fake" else "local", relations=relations or None)


def sides_of(view: View, connection: str) -> tuple[Side, Side] | None:
    """(agreed, found); None when either is missing."""
    inventory, catalog = view.inventory_of(connection), view.catalog(connection)
    if inventory is None or catalog is None:
        return None
    complete = bool(catalog.data.get("complete", True))
    side = catalog_side("the gateway's catalog", catalog.data.get("tools", []), complete=complete, assumed=view.assumed_of(connection))
    return inventory_side(inventory), side


def checked(record: RelationRecord, sides: tuple[Side, Side]) -> ToolRelation:
    """A stored relation, its examples checked again by both validators. What does not hold, or is none, is unproven; nothing is searched."""
    try:
        found = ToolRelation.model_validate(record.data)
    except ValidationError:
        return ToolRelation(input=unproven("the stored relation cannot be read"))
    return confirmed(found, *sides, record.tool)


def entry(name: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"memory_id": {"type": "string"}}, "required": ["memory_id"]}
    return {"name": name, "risk": "read", "status": "active", "input_schema": schema}


def inventory_of(name: str) -> Inventory:
    record = ToolRecord(name=name, schema_hash="0" * 64, risk="read", parameters=("memory_id",), shape_basis="none")
    return Inventory(provider="mem0", taken=Taken(date="2026-01-01"), tools=(record,))


KIND = NoDrift()
