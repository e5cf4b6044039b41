"""`hashes: {exact: [TOOL, …]}`: the schema hashes of these tools are the reviewed ones, to the last hexadecimal digit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from harness.expect.base import Kind, Place, Specimen
from harness.expect.no_drift import entry, inventory_of
from harness.expect.scene import Scene
from harness.expect.view import View
from harness.inventory.canonical import NotCanonical, schema_hash
from harness.model.finding import Finding
from harness.model.location import Frozen


class Params(Frozen):
    """`exact`: tools whose hash must be reproduced; nothing is said about others. A stand-in's schemas are its own: use it at level local or live."""

    exact: tuple[str, ...] = Field(min_length=1)
    connection: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _not_bare(cls, value: Any) -> Any:
        if isinstance(value, dict) and "value" in value:
            raise ValueError("name the tools, such as {exact: [get_memory]}")
        return value


class Hashes(Kind[Params]):
    id = "hashes"
    summary = "gateway and agent show these tools with the very input schema that was reviewed, by its hash"
    params = Params
    scopes = frozenset({"run"})
    leg = "schema"

    def judge(self, params: Params, place: Place, view: View) -> list[Finding]:
        connection = params.connection or view.only_connection()
        inventory, catalog = view.inventory_of(connection), view.catalog(connection)
        if inventory is None or catalog is None:
            return [self.finding(place, f"{connection!r} has no inventory or no catalog to compare", severity="error", fix="see inventories/")]
        agreed = {record.name: record.schema_hash for record in inventory.tools}
        entries = {str(e["name"]): e for e in catalog.data.get("tools", []) if e.get("status") != "removed"}
        listed = seen_by_agent(view, connection)
        found: list[Finding] = []
        for tool in params.exact:
            if tool not in agreed:
                found.append(self.finding(place, f"the inventory has no tool {tool!r}", severity="error", fix="name reviewed tools only"))
                continue
            found += self._one(place, tool, agreed[tool], "the gateway's catalog", entries.get(tool), "input_schema")
            found += self._stated(place, tool, agreed[tool], entries.get(tool))
            if listed is not None:
                found += self._one(place, tool, agreed[tool], "the agent's list", listed.get(tool), "inputSchema")
        return found

    def _one(self, place: Place, tool: str, agreed: str, where: str, shown: Mapping[str, Any] | None, key: str) -> list[Finding]:
        """The hash of the schema as `where` shows it; computed here, never taken on anyone's word."""
        if shown is None:
            return [self.finding(place, f"{where} has no tool {tool}", expected=agreed)]
        try:
            actual = schema_hash(shown.get(key))
        except NotCanonical as problem:
            return [self.finding(place, f"the schema of {tool} in {where} has no hash: {problem.reason}", expected=agreed)]
        if actual == agreed:
            return []
        fix = "review what the provider lists now; a gateway must pass schemas on as they came"
        return [self.finding(place, f"the schema hash of {tool} in {where} is not the reviewed one", expected=agreed, actual=actual, fix=fix)]

    def _stated(self, place: Place, tool: str, agreed: str, shown: Mapping[str, Any] | None) -> list[Finding]:
        stated = (shown or {}).get("schema_hash")
        if stated in (None, agreed):
            return []
        return [self.finding(place, f"the gateway states another schema hash for {tool}", expected=agreed, actual=stated, fix="use the recipe")]

    def specimens(self) -> tuple[Specimen, Specimen]:
        good, bad = Scene(), Scene()
        shown = entry("get_memory")
        record = inventory_of("get_memory").tools[0].model_copy(update={"schema_hash": schema_hash(shown["input_schema"])})
        retitled = {**shown, "input_schema": {**shown["input_schema"], "title": "another text, so another hash"}}
        for scene, tool in ((good, shown), (bad, retitled)):
            scene.inventories["mem0"] = inventory_of("get_memory").model_copy(update={"tools": (record,)})
            scene.control("catalog", {"tools": [tool], "complete": True})
        yaml = "hashes: {exact: [get_memory]}"
        return Specimen(yaml, good.view(), step=""), Specimen(yaml, bad.view(), step="")


def seen_by_agent(view: View, connection: str) -> Mapping[str, Mapping[str, Any]] | None:
    """Name → tool of the agent's newest listing; None when it never listed."""
    lists = [c for c in view.clients if c.method == "tools/list" and c.connection == connection and c.result is not None]
    return {str(t.get("name")): t for t in (lists[-1].result or {}).get("tools", [])} if lists else None


KIND = Hashes()
