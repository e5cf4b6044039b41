"""`risk: inventory`: the gateway classifies every tool as reviewed, and never below what the oracle says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.model.finding import Finding
from harness.model.inventory import Inventory, Taken, ToolRecord
from harness.model.location import Frozen
from harness.model.risk import RISKS, Risk
from harness.risk.compare import catalog_disagreements
from harness.risk.oracle import Oracle


class Params(Frozen):
    """`inventory` compares every tool of the connection's catalog; `tools` names classes outright."""

    value: str | None = None
    connection: str | None = None
    tools: Mapping[str, Risk] = {}

    @model_validator(mode="before")
    @classmethod
    def _word(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("value") not in (None, "inventory"):
            raise ValueError("write `inventory`, or {tools: {NAME: read | write | destructive}}")
        return value


class RiskKind(Kind[Params]):
    id = "risk"
    summary = "the gateway's risk class of each tool is the reviewed one; unknown tools are never claimed harmless"
    params = Params
    needs = frozenset({"catalog"})
    scopes = frozenset({"run"})
    leg = "schema"
    reads_inventory = True

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        connection = params.connection or view.only_connection()
        catalog = view.catalog(connection)
        if catalog is None:
            return [self.finding(place, f"the catalog of {connection!r} was not read", severity="error")]
        entries = [e for e in catalog.data.get("tools", []) if e.get("status") != "removed"]
        claimed = {str(e["name"]): e.get("risk") for e in entries}
        found = [
            self.finding(place, f"{tool} is classified as {claimed.get(tool)}", expected=risk, actual=claimed.get(tool))
            for tool, risk in params.tools.items()
            if claimed.get(tool) != risk
        ]
        unknown = [name for name, risk in claimed.items() if risk not in RISKS]
        if unknown:
            return [*found, self.finding(place, f"{unknown[0]} has no risk class", expected=list(RISKS), actual=claimed[unknown[0]])]
        return found + self._oracle(place, view, connection, entries)

    def _oracle(self, place: Place, view: View, connection: str, entries: list[Mapping[str, Any]]) -> list[Finding]:
        inventory = view.inventory_of(connection)
        oracle = Oracle({inventory.provider: inventory} if inventory else {})
        provider = view.providers.get(connection, connection)
        return [
            self.finding(
                place,
                d.message,
                expected=d.expected,
                actual=d.claimed,
                fix=d.fix,
                rule=d.id,
                severity="fail" if d.severity == "fail" else "warn",
            )
            for d in catalog_disagreements(oracle, provider, entries)
        ]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        record = ToolRecord(name="delete_memory", schema_hash="0" * 64, risk="destructive", parameters=(), shape_basis="none")
        for scene, risk in ((good, "destructive"), (bad, "read")):
            scene.inventories["mem0"] = Inventory(provider="mem0", taken=Taken(date="2026-01-01"), tools=(record,))
            scene.control("catalog", {"tools": [{"name": "delete_memory", "risk": risk, "status": "active"}]})
        return Specimen("risk: inventory", good.view(), step=""), Specimen("risk: inventory", bad.view(), step="")


KIND = RiskKind()
